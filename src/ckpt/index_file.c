/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing and reading index.h5. */
#include "base/alloc.h"
#include "ckpt/folder.h"
#include "ckpt/index.h"
#include "config/tree.h"
#include "io/h5_array.h"
#include "io/seal.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of the table of parts is a struct mds_ckpt_part. */
_Static_assert(sizeof(struct mds_ckpt_part) == MDS_PART_COLUMNS * sizeof(int64_t),
               "parts are rows of the table");

/* The largest valid count: more than any run needs, and small enough to be multiplied
 * by the tokens of a sequence. */
#define MOST (INT64_C(1) << 42)
#define MOST_TOKENS (INT64_C(1) << 62)

/* The attributes of the root group, and their valid ranges. */
struct number {
    const char *name;
    size_t at; /* in struct mds_ckpt_index */
    int64_t least, most;
    int newer; /* older files lack it: 0 */
};

#define AT(field) offsetof(struct mds_ckpt_index, field)

static const struct number numbers[] = {
    {"save", AT(save), INT64_MIN, INT64_MAX, 0},
    {"ranks", AT(ranks), 1, INT32_MAX, 0},
    {"tensors", AT(tensors), 1, INT32_MAX, 0},
    {"iteration", AT(state.iteration), 0, MOST, 0},
    {"samples", AT(state.samples), 0, MOST, 0},
    {"tokens", AT(state.tokens), 0, MOST_TOKENS, 1},
    {"updates", AT(state.updates), 0, MOST, 0},
    {"scale_dynamic", AT(state.scale_dynamic), 0, 1, 0},
    {"scale_good", AT(state.scale_good), 0, MOST, 0},
    {"scale_left", AT(state.scale_left), -MOST, MOST, 0}, /* below 0: an old file */
    {"vocab", AT(state.vocab), 1, MOST, 0},
    {"padded_vocab", AT(state.padded_vocab), 1, MOST, 0},
    {"origin", AT(state.origin), INT64_MIN, INT64_MAX, 1},
    {"begun", AT(state.begun), 0, MDS_BEGUN_FINETUNE, 1},
    {"tokenizer", AT(state.tokenizer), 0, MOST, 1},
    {"eod", AT(state.eod), -1, MOST, 1},
    {"expert_biases", AT(state.expert_biases), 0, INT32_MAX, 1},
};

enum { NUMBERS = sizeof numbers / sizeof *numbers };

/* ---- writing ---- */

static enum mds_rc put_numbers(struct mds_h5 *f, const struct mds_ckpt_index *ix)
{
    MDS_TRY(mds_h5_put_int(f, "mds_checkpoint", MDS_CKPT_FORMAT));
    for (int i = 0; i < NUMBERS; i++) {
        const void *value = (const char *)ix + numbers[i].at;

        MDS_TRY(mds_h5_put_int(f, numbers[i].name, *(const int64_t *)value));
    }
    return mds_h5_put_real(f, "loss_scale", ix->state.loss_scale);
}

static enum mds_rc put_text(struct mds_h5 *f, const char *name, const char *text)
{
    return mds_h5_put_texts(f, name, text, (int64_t)strlen(text) + 1, 1);
}

static enum mds_rc put_tensors(struct mds_h5 *f, const struct mds_ckpt_index *ix)
{
    char *names = mds_zalloc((size_t)ix->tensors, MDS_CKPT_NAME);
    int64_t *shapes = mds_zalloc((size_t)ix->tensors, 2 * sizeof *shapes);
    enum mds_rc rc = names && shapes ? MDS_OK : MDS_EMEM;

    for (int64_t i = 0; !rc && i < ix->tensors; i++) {
        memcpy(names + i * MDS_CKPT_NAME, ix->tensor[i].name, MDS_CKPT_NAME);
        shapes[2 * i] = ix->tensor[i].rows;
        shapes[2 * i + 1] = ix->tensor[i].cols;
    }
    if (!rc)
        rc = mds_h5_put_texts(f, "/index/names", names, MDS_CKPT_NAME, ix->tensors);
    if (!rc)
        rc = mds_h5_put_table(f, "/index/shapes", shapes, ix->tensors, 2);
    free(shapes);
    free(names);
    return rc;
}

struct source_names {
    char file[32];
};

static enum mds_rc put_virtual_tensor(struct mds_h5 *f, const struct mds_ckpt_index *ix,
                                      const struct mds_ckpt_tensor *t,
                                      struct mds_h5_source *source,
                                      struct source_names *names)
{
    for (int64_t k = 0; k < t->parts; k++) {
        const struct mds_ckpt_part *p = &ix->part[t->first + k];

        snprintf(names[k].file, sizeof names[k].file, "rank_%05" PRId64 ".h5", p->file);
        source[k] = (struct mds_h5_source){.file = names[k].file,
                                           .at = p->at,
                                           .row = p->row,
                                           .rows = p->rows,
                                           .col = p->col,
                                           .cols = p->cols};
    }
    for (int what = 0; what < MDS_CKPT_STATES; what++) {
        char set[96];

        mds_ckpt_set_name(what, t->name, set);
        for (int64_t k = 0; k < t->parts; k++)
            source[k].set = set;
        MDS_TRY(mds_h5_put_virtual(f, set, t->rows, t->cols, source, t->parts));
    }
    return MDS_OK;
}

static enum mds_rc put_virtual_tensors(struct mds_h5 *f,
                                       const struct mds_ckpt_index *ix)
{
    struct mds_h5_source *source = mds_zalloc((size_t)ix->parts, sizeof *source);
    struct source_names *names = mds_zalloc((size_t)ix->parts, sizeof *names);
    enum mds_rc rc = source && names ? MDS_OK : MDS_EMEM;

    for (int64_t i = 0; !rc && i < ix->tensors; i++)
        rc = put_virtual_tensor(f, ix, &ix->tensor[i], source, names);
    free(names);
    free(source);
    return rc;
}

enum mds_rc mds_ckpt_index_write(const struct mds_ckpt_index *ix, const char *folder,
                                 const char *configuration, const char *provenance,
                                 const char *data)
{
    char path[MDS_PATH_SIZE];
    struct mds_h5 *f;
    enum mds_rc rc, closed;

    MDS_TRY(mds_ckpt_file(folder, -1, path));
    MDS_TRY(mds_h5_create_checked(path, path, &f));
    rc = put_numbers(f, ix);
    if (!rc)
        rc = put_text(f, "/configuration", configuration);
    if (!rc)
        rc = put_text(f, "/provenance", provenance);
    if (!rc && data)
        rc = put_text(f, "/data", data);
    if (!rc && ix->state.expert_biases > 0)
        rc = mds_h5_put_reals(f, "/expert_bias", ix->state.expert_bias,
                              ix->state.expert_biases);
    if (!rc)
        rc = put_tensors(f, ix);
    if (!rc)
        rc = mds_h5_put_table(f, "/index/bytes", ix->bytes, ix->ranks, 1);
    if (!rc)
        rc = mds_h5_put_table(f, "/index/parts", &ix->part->tensor, ix->parts,
                              MDS_PART_COLUMNS);
    if (!rc)
        rc = put_virtual_tensors(f, ix);
    closed = mds_h5_close(f);
    MDS_TRY(rc ? rc : closed);
    return mds_seal_file(path);
}

/* ---- reading ---- */

static const char changed[] = "the file was changed or is damaged";

static enum mds_rc fail_inconsistent(const struct mds_ckpt_index *ix)
{
    return mds_fail(MDS_EUSER, "%s/index.h5: its tables are inconsistent; %s", ix->path,
                    changed);
}

static enum mds_rc get_number(struct mds_h5 *f, struct mds_ckpt_index *ix,
                              const struct number *n)
{
    int64_t value;

    if (n->newer && !mds_h5_has(f, n->name))
        return MDS_OK;
    MDS_TRY(mds_h5_get_int(f, n->name, &value));
    if (value < n->least || value > n->most)
        return mds_fail(MDS_EUSER,
                        "%s/index.h5: %s %" PRId64 " must be from %" PRId64
                        " to %" PRId64 "; %s",
                        ix->path, n->name, value, n->least, n->most, changed);
    memcpy((char *)ix + n->at, &value, sizeof value);
    return MDS_OK;
}

/* Of a checkpoint that does not count tokens: all samples were as long as those of the
 * run that saved it. */
static enum mds_rc derive_tokens(struct mds_h5 *f, struct mds_ckpt_index *ix)
{
    struct mds_tree *tree = NULL;
    const struct mds_node *length;
    int64_t width, n;
    long long tokens;
    char *text;

    MDS_TRY(mds_h5_get_texts(f, "/configuration", &text, &width, &n));
    if (!mds_tree_parse(text, strlen(text), ix->path, &tree)) {
        length = mds_node_get(mds_node_get(tree->root, "model"), "seq_length");
        tokens = length && length->text ? strtoll(length->text, NULL, 10) : 0;
        if (tokens > 0 && tokens <= MOST_TOKENS / MOST)
            ix->state.tokens = ix->state.samples * tokens;
    }
    mds_tree_destroy(tree);
    free(text);
    return MDS_OK;
}

static enum mds_rc get_numbers(struct mds_h5 *f, struct mds_ckpt_index *ix)
{
    int64_t format;

    MDS_TRY(mds_h5_get_int(f, "mds_checkpoint", &format));
    if (format != MDS_CKPT_FORMAT)
        return mds_fail(MDS_EUSER,
                        "%s/index.h5: has format %" PRId64
                        "; this version reads format %d",
                        ix->path, format, MDS_CKPT_FORMAT);
    for (int i = 0; i < NUMBERS; i++)
        MDS_TRY(get_number(f, ix, &numbers[i]));
    if (!mds_h5_has(f, "tokens"))
        MDS_TRY(derive_tokens(f, ix));
    MDS_TRY(mds_h5_get_real(f, "loss_scale", &ix->state.loss_scale));
    if (!(ix->state.loss_scale > 0 && isfinite(ix->state.loss_scale)))
        return mds_fail(MDS_EUSER, "%s/index.h5: loss_scale %g must be above 0; %s",
                        ix->path, ix->state.loss_scale, changed);
    if (ix->state.vocab > ix->state.padded_vocab)
        return mds_fail(MDS_EUSER,
                        "%s/index.h5: vocab %" PRId64 " is above padded_vocab %" PRId64
                        "; %s",
                        ix->path, ix->state.vocab, ix->state.padded_vocab, changed);
    return MDS_OK;
}

static enum mds_rc fill_tensors(struct mds_ckpt_index *ix, const char *names,
                                const int64_t *shapes)
{
    ix->tensor = mds_zalloc((size_t)ix->tensors, sizeof *ix->tensor);
    if (!ix->tensor)
        return MDS_EMEM;
    for (int64_t i = 0; i < ix->tensors; i++) {
        struct mds_ckpt_tensor *t = &ix->tensor[i];

        memcpy(t->name, names + i * MDS_CKPT_NAME, MDS_CKPT_NAME);
        t->rows = shapes[2 * i];
        t->cols = shapes[2 * i + 1];
        if (t->rows < 1 || t->cols < 0 || t->rows > INT64_MAX / (t->cols ? t->cols : 1))
            return fail_inconsistent(ix);
    }
    return MDS_OK;
}

static enum mds_rc get_tensors(struct mds_h5 *f, struct mds_ckpt_index *ix)
{
    char *names = NULL;
    int64_t *shapes = NULL, width, n_names, n_shapes = 0;
    enum mds_rc rc = mds_h5_get_texts(f, "/index/names", &names, &width, &n_names);

    if (!rc)
        rc = mds_h5_get_table(f, "/index/shapes", 2, &shapes, &n_shapes);
    if (!rc &&
        (width != MDS_CKPT_NAME || n_names != ix->tensors || n_shapes != ix->tensors))
        rc = fail_inconsistent(ix);
    if (!rc)
        rc = fill_tensors(ix, names, shapes);
    free(shapes);
    free(names);
    return rc;
}

static enum mds_rc get_biases(struct mds_h5 *f, struct mds_ckpt_index *ix)
{
    int64_t n = ix->state.expert_biases;

    if (n == 0)
        return MDS_OK;
    ix->bias = mds_zalloc((size_t)n, sizeof *ix->bias);
    if (!ix->bias)
        return MDS_EMEM;
    ix->state.expert_bias = ix->bias;
    MDS_TRY(mds_h5_get_reals(f, "/expert_bias", ix->bias, n));
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(ix->bias[i]))
            return mds_fail(MDS_EUSER, "%s/index.h5: an expert's bias is %g; %s",
                            ix->path, ix->bias[i], changed);
    return MDS_OK;
}

static enum mds_rc get_parts(struct mds_h5 *f, struct mds_ckpt_index *ix)
{
    int64_t *table, n;

    MDS_TRY(mds_h5_get_table(f, "/index/bytes", 1, &ix->bytes, &n));
    if (n != ix->ranks)
        return fail_inconsistent(ix);
    MDS_TRY(mds_h5_get_table(f, "/index/parts", MDS_PART_COLUMNS, &table, &ix->parts));
    ix->part = (struct mds_ckpt_part *)table;
    MDS_TRY(mds_ckpt_index_sort_parts(ix));
    return mds_ckpt_index_check_parts(ix);
}

static enum mds_rc open_index(const char *path, struct mds_h5 **f)
{
    char file[MDS_PATH_SIZE];

    MDS_TRY(mds_ckpt_file(path, -1, file));
    return mds_h5_open(file, NULL, f);
}

enum mds_rc mds_ckpt_index_read(const char *path, struct mds_ckpt_index **out)
{
    char file[MDS_PATH_SIZE];
    struct mds_ckpt_index *ix;
    struct mds_h5 *f;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_file(path, -1, file));
    MDS_TRY(mds_seal_check(file));
    MDS_TRY(open_index(path, &f));
    ix = mds_zalloc(1, sizeof *ix);
    rc = ix ? MDS_OK : MDS_EMEM;
    if (!rc) {
        snprintf(ix->path, sizeof ix->path, "%s", path);
        rc = get_numbers(f, ix);
    }
    if (!rc)
        rc = get_tensors(f, ix);
    if (!rc)
        rc = get_biases(f, ix);
    if (!rc)
        rc = get_parts(f, ix);
    (void)mds_h5_close(f);
    if (rc)
        mds_ckpt_index_destroy(ix);
    else
        *out = ix;
    return rc;
}

enum mds_rc mds_ckpt_state_read(const char *path, struct mds_ckpt_state *state,
                                int64_t *save)
{
    struct mds_ckpt_index ix = {0};
    struct mds_h5 *f;
    enum mds_rc rc;

    MDS_TRY(open_index(path, &f));
    snprintf(ix.path, sizeof ix.path, "%s", path);
    rc = get_numbers(f, &ix);
    (void)mds_h5_close(f);
    *state = ix.state;
    *save = ix.save;
    return rc;
}

enum mds_rc mds_ckpt_index_texts(const char *path, char **configuration,
                                 char **provenance)
{
    struct mds_h5 *f;
    int64_t width, n;
    char *first = NULL;
    enum mds_rc rc;

    MDS_TRY(open_index(path, &f));
    rc = mds_h5_get_texts(f, "/configuration", &first, &width, &n);
    if (!rc)
        rc = mds_h5_get_texts(f, "/provenance", provenance, &width, &n);
    (void)mds_h5_close(f);
    if (rc)
        free(first);
    else
        *configuration = first;
    return rc;
}

enum mds_rc mds_ckpt_index_data(const char *path, char **text)
{
    int64_t width, n;
    struct mds_h5 *f;
    enum mds_rc rc = MDS_OK;

    *text = NULL;
    MDS_TRY(open_index(path, &f));
    if (mds_h5_has_set(f, "/data"))
        rc = mds_h5_get_texts(f, "/data", text, &width, &n);
    (void)mds_h5_close(f);
    return rc;
}
