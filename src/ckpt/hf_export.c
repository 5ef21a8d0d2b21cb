/* SPDX-License-Identifier: BSD-3-Clause */
/* Export: a checkpoint's weights become a folder that transformers loads. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "ckpt/hf.h"
#include "io/folder.h"
#include "io/output.h"
#include "kernels/half.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Elements of each of the two buffers, which hold at least one row of any tensor. */
enum { BLOCK_ELEMENTS = 8 << 20 };

struct export
{
    const struct mds_hf_export *e;
    struct mds_hf_tensors tensors;
    struct mds_hf_biases biases;
    int *file; /* [tensors.n] which file each is in */
    int files;
    int64_t block_elements;
    float *block, *part; /* [block_elements] */
    struct mds_st_writer *writer;
};

static int64_t columns_of(const struct mds_hf_tensor *t)
{
    return t->cols ? t->cols : 1;
}

static int64_t tensor_bytes(const struct export *o, const struct mds_hf_tensor *t)
{
    return t->rows * columns_of(t) * (int64_t)mds_st_dtype_size(o->e->type);
}

/* ---- values ---- */

/* What muP multiplies at run time, in the weights before it, because these
 * architectures have no such factors: scores in queries or their norms, logits in the
 * head, or if it is the embedding in the norm before it. */
static double mup_factor(const struct mds_model_config *m, const char *name)
{
    double embedding = mds_mup_embedding_scale(m), logits = mds_mup_logit_scale(m);

    if (!m->mup.on)
        return 1;
    if (strncmp(name, "embedding.", 10) == 0)
        return embedding;
    if (strncmp(name, "final_norm.", 11) == 0)
        return m->tied_head ? logits / embedding : 1;
    if (strcmp(name, "head.weight") == 0)
        return logits;
    return strstr(name, m->qk_layernorm ? ".attention.q_norm." : ".attention.q.")
               ? mds_mup_score_scale(m) * sqrt((double)m->head_dim)
               : 1;
}

static enum mds_rc read_weight_block(const struct export *o,
                                     const struct mds_hf_part *p,
                                     struct mds_ckpt_part part, float *values)
{
    struct mds_ckpt_reader *r = o->e->reader;
    const char *name = mds_params_get(o->e->whole, p->param)->spec.name;
    int64_t id = mds_ckpt_index_find(mds_ckpt_reader_index(r), name);
    float factor = (float)mup_factor(o->e->model, name);

    MDS_TRY(mds_ckpt_reader_part(r, MDS_CKPT_WEIGHT, id, &part, values));
    for (int64_t i = 0; factor != 1 && i < part.rows * part.cols; i++)
        values[i] *= factor;
    return MDS_OK;
}

/* Rows row .. row + rows - 1 of tensor t, as far as they come from part p; for tensors
 * that are not transposed. */
static enum mds_rc gather_rows(const struct export *o, const struct mds_hf_tensor *t,
                               const struct mds_hf_part *p, int64_t row, int64_t rows)
{
    int64_t width = columns_of(t);

    for (int64_t ours = 0; ours < p->rows; ours += p->block) {
        int64_t theirs = p->first + ours / p->block * p->step;
        int64_t from = mds_max(theirs, row);
        int64_t to = mds_min(theirs + p->block, row + rows);
        struct mds_ckpt_part part = {
            .row = ours + from - theirs, .rows = to - from, .cols = width};

        if (from < to)
            MDS_TRY(read_weight_block(o, p, part, o->block + (from - row) * width));
    }
    return MDS_OK;
}

/* The same for transposed tensors, whose rows are columns of the parameter. */
static enum mds_rc gather_columns(const struct export *o, const struct mds_hf_tensor *t,
                                  const struct mds_hf_part *p, int64_t row,
                                  int64_t rows)
{
    const struct mds_ckpt_part part = {.rows = p->rows, .col = row, .cols = rows};

    MDS_TRY(read_weight_block(o, p, part, o->part));
    for (int64_t i = 0; i < p->rows; i++) {
        int64_t output = p->first + i / p->block * p->step + i % p->block;

        for (int64_t j = 0; j < rows; j++)
            o->block[j * t->cols + output] = o->part[i * rows + j];
    }
    return MDS_OK;
}

/* Convert to 16 bits in place: reading is always ahead of writing. */
static void narrow_in_place(enum mds_st_dtype type, float *values, int64_t n)
{
    unsigned char *out = (unsigned char *)values;

    for (int64_t i = 0; i < n; i++) {
        float x = values[i];
        uint16_t half = type == MDS_ST_BF16 ? mdsk_f32_to_bf16(x) : mdsk_f32_to_f16(x);

        memcpy(out + i * (int64_t)sizeof half, &half, sizeof half);
    }
}

static enum mds_rc write_tensor(struct export *o, const struct mds_hf_tensor *t)
{
    size_t size = mds_st_dtype_size(o->e->type);
    int64_t most = o->block_elements / columns_of(t);

    for (int64_t row = 0; row < t->rows; row += most) {
        int64_t rows = mds_min(t->rows - row, most);

        if (t->parts == 0)
            memset(o->block, 0, (size_t)(rows * columns_of(t)) * sizeof *o->block);
        for (int i = 0; i < t->parts; i++)
            MDS_TRY((t->transposed ? gather_columns : gather_rows)(o, t, &t->part[i],
                                                                   row, rows));
        if (size < sizeof *o->block)
            narrow_in_place(o->e->type, o->block, rows * columns_of(t));
        MDS_TRY(mds_st_writer_write(o->writer, o->block,
                                    (size_t)(rows * columns_of(t)) * size));
    }
    return MDS_OK;
}

/* ---- biases ---- */

static const char attention[] = ".self_attn.", mlp[] = ".mlp.";

static int is_bias_of(const struct mds_hf_tensor *t, const char *module)
{
    return strstr(t->name, module) && strcmp(strrchr(t->name, '.'), ".bias") == 0;
}

/* Set *set if any bias of such modules is not 0. */
static enum mds_rc check_nonzero(const struct export *o, const char *module, int *set)
{
    for (int i = 0; i < o->tensors.n && !*set; i++) {
        const struct mds_hf_tensor *t = &o->tensors.list[i];

        if (!is_bias_of(t, module))
            continue;
        MDS_TRY(gather_rows(o, t, &t->part[0], 0, t->rows));
        for (int64_t k = 0; k < t->rows; k++)
            *set |= o->block[k] != 0;
    }
    return MDS_OK;
}

static void drop_biases(struct mds_hf_tensors *all, const char *module)
{
    int n = 0;

    for (int i = 0; i < all->n; i++)
        if (!is_bias_of(&all->list[i], module))
            all->list[n++] = all->list[i];
    all->n = n;
}

/* Hugging Face's llama may have biases in attention only or in the MLP only.  A model
 * imported from such a folder has zeros for the other biases, until it is trained. */
static enum mds_rc choose_biases(struct export *o, enum mds_hf_kind kind)
{
    struct mds_hf_biases set = {0};

    o->biases =
        (struct mds_hf_biases){o->e->model->linear_bias, o->e->model->linear_bias};
    if (kind != MDS_HF_LLAMA || !o->e->model->linear_bias)
        return MDS_OK;
    MDS_TRY(check_nonzero(o, attention, &set.attention));
    MDS_TRY(check_nonzero(o, mlp, &set.mlp));
    if (set.attention == set.mlp)
        return MDS_OK;
    o->biases = set;
    drop_biases(&o->tensors, set.attention ? mlp : attention);
    return MDS_OK;
}

/* ---- files ---- */

static void format_file_name(const struct export *o, int file, char name[64])
{
    if (o->files == 1)
        snprintf(name, 64, "model.safetensors");
    else
        snprintf(name, 64, "model-%05d-of-%05d.safetensors", file + 1, o->files);
}

/* Tensors go to files in order, as many to each as fit. */
static void assign_files(struct export *o)
{
    int64_t bytes = 0;

    o->files = 1;
    for (int i = 0; i < o->tensors.n; i++) {
        int64_t more = tensor_bytes(o, &o->tensors.list[i]);

        if (bytes > 0 && o->e->shard_bytes > 0 && bytes + more > o->e->shard_bytes) {
            o->files++;
            bytes = 0;
        }
        bytes += more;
        o->file[i] = o->files - 1;
    }
}

static enum mds_rc declare_tensors(struct export *o, int file)
{
    MDS_TRY(mds_st_writer_metadata(o->writer, "format", "pt"));
    for (int i = 0; i < o->tensors.n; i++) {
        const struct mds_hf_tensor *t = &o->tensors.list[i];
        int64_t shape[2] = {t->rows, t->cols};

        if (o->file[i] == file)
            MDS_TRY(mds_st_writer_declare(o->writer, t->name, o->e->type,
                                          t->cols ? 2 : 1, shape));
    }
    return MDS_OK;
}

static enum mds_rc write_file(struct export *o, int file)
{
    char name[64], path[MDS_PATH_SIZE];
    enum mds_rc rc;

    format_file_name(o, file, name);
    MDS_TRY(mds_path_join(o->e->dir, name, path));
    MDS_TRY(mds_st_writer_create(path, &o->writer));
    rc = declare_tensors(o, file);
    for (int i = 0; !rc && i < o->tensors.n; i++)
        if (o->file[i] == file)
            rc = write_tensor(o, &o->tensors.list[i]);
    if (!rc)
        return mds_st_writer_finish(o->writer);
    mds_st_writer_abort(o->writer);
    return rc;
}

static enum mds_rc write_text(const struct export *o, const char *name,
                              const struct mds_str *text)
{
    char path[MDS_PATH_SIZE];
    struct mds_output f = {0};

    if (text->failed)
        return mds_fail(MDS_EMEM, "no host memory");
    MDS_TRY(mds_path_join(o->e->dir, name, path));
    MDS_TRY(mds_output_open(path, &f));
    fputs(text->s, f.file);
    return mds_output_commit(&f);
}

/* model.safetensors.index.json: the file of each tensor. */
static enum mds_rc write_weight_map(const struct export *o)
{
    struct mds_str text = {0};
    int64_t bytes = 0;
    char name[64];
    enum mds_rc rc;

    for (int i = 0; i < o->tensors.n; i++)
        bytes += tensor_bytes(o, &o->tensors.list[i]);
    mds_str_add(&text, "{\n  \"metadata\": {\"total_size\": %" PRId64 "},\n", bytes);
    mds_str_add(&text, "  \"weight_map\": {\n");
    for (int i = 0; i < o->tensors.n; i++) {
        format_file_name(o, o->file[i], name);
        mds_str_add(&text, "    \"%s\": \"%s\"%s\n", o->tensors.list[i].name, name,
                    i + 1 < o->tensors.n ? "," : "");
    }
    mds_str_add(&text, "  }\n}\n");
    rc = write_text(o, "model.safetensors.index.json", &text);
    mds_str_fini(&text);
    return rc;
}

static enum mds_rc write_config(const struct export *o, enum mds_hf_kind kind)
{
    struct mds_str text = {0};
    enum mds_rc rc;

    mds_hf_put_config(kind, o->e->model, o->biases, o->e->type, o->e->eod, &text);
    rc = write_text(o, "config.json", &text);
    mds_str_fini(&text);
    return rc;
}

static enum mds_rc write_tokenizer(const struct export *o)
{
    if (!o->e->tokenizer.s)
        return MDS_OK;
    MDS_TRY(write_text(o, "tokenizer.json", &o->e->tokenizer));
    return write_text(o, "tokenizer_config.json", &o->e->tokenizer_config);
}

/* ---- export ---- */

static enum mds_rc remove_file(const char *dir, const char *name)
{
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_path_join(dir, name, path));
    if (unlink(path) && errno != ENOENT)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    return MDS_OK;
}

/* config.json first, so that what is left by a failure is no export.  Other files,
 * which no export writes, stay. */
static enum mds_rc remove_earlier(const char *dir)
{
    static const char *const names[] = {"model.safetensors", "model-*.safetensors",
                                        "model.safetensors.index.json",
                                        "tokenizer.json", "tokenizer_config.json"};
    enum mds_rc rc = remove_file(dir, "config.json");
    DIR *d = rc ? NULL : opendir(dir);
    struct dirent *entry;

    if (!rc && !d)
        rc = mds_fail(MDS_EIO, "%s: %s", dir, strerror(errno));
    while (!rc && (entry = readdir(d)) != NULL)
        for (size_t i = 0; !rc && i < sizeof names / sizeof *names; i++)
            if (fnmatch(names[i], entry->d_name, 0) == 0)
                rc = remove_file(dir, entry->d_name);
    if (d)
        closedir(d);
    return rc;
}

static enum mds_rc make_folder(const struct export *o)
{
    char path[MDS_PATH_SIZE];
    struct stat st;

    MDS_TRY(mds_folder_ensure(o->e->dir));
    MDS_TRY(mds_path_join(o->e->dir, "config.json", path));
    if (o->e->overwrite || stat(path, &st))
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: exists already; give another folder, or --overwrite to "
                    "replace it",
                    path);
}

static enum mds_rc allocate_buffers(struct export *o)
{
    o->block_elements = BLOCK_ELEMENTS;
    for (int i = 0; i < o->tensors.n; i++) {
        const struct mds_hf_tensor *t = &o->tensors.list[i];

        o->block_elements =
            mds_max(o->block_elements, mds_max(columns_of(t), t->cols ? 0 : t->rows));
    }
    o->file = mds_zalloc((size_t)o->tensors.n, sizeof *o->file);
    o->block = mds_zalloc((size_t)o->block_elements, sizeof *o->block);
    o->part = mds_zalloc((size_t)o->block_elements, sizeof *o->part);
    return o->file && o->block && o->part ? MDS_OK : MDS_EMEM;
}

enum mds_rc mds_hf_export(const struct mds_hf_export *e, int *files)
{
    struct export o = {.e = e};
    enum mds_hf_kind kind;
    enum mds_rc rc;

    MDS_TRY(mds_hf_choose(e->model, &kind));
    MDS_TRY(make_folder(&o));
    MDS_TRY(mds_hf_tensors_init(kind, e->model, e->whole, &o.tensors));
    rc = allocate_buffers(&o);
    if (!rc)
        rc = choose_biases(&o, kind);
    if (!rc && e->overwrite)
        rc = remove_earlier(e->dir);
    if (!rc)
        assign_files(&o);
    for (int i = 0; !rc && i < o.files; i++)
        rc = write_file(&o, i);
    if (!rc && o.files > 1)
        rc = write_weight_map(&o);
    if (!rc)
        rc = write_tokenizer(&o);
    if (!rc)
        rc = write_config(&o, kind);
    free(o.file);
    free(o.block);
    free(o.part);
    mds_hf_tensors_fini(&o.tensors);
    if (!rc)
        *files = o.files;
    return rc;
}
