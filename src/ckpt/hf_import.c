/* SPDX-License-Identifier: BSD-3-Clause */
/* Import: weights from a folder that transformers wrote. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "ckpt/hf.h"
#include "config/tree.h"
#include "io/folder.h"
#include "kernels/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Where the values of a parameter are. */
struct location {
    const struct mds_hf_tensor *tensor;
    const struct mds_hf_part *part;
    const struct mds_st_tensor *stored; /* NULL: zeros */
};

struct mds_hf_weights {
    const char *dir;                /* borrowed, used by mds_hf_weights_open only */
    const char *unbiased;           /* of struct mds_hf_source */
    const struct mds_params *whole; /* borrowed */
    struct mds_hf_tensors tensors;
    struct mds_safetensors **file;
    int files;
    struct location *where; /* by parameter of whole */
};

/* ---- files ---- */

static enum mds_rc add_file(struct mds_hf_weights *w, const char *name)
{
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_grow(&w->file, (size_t)w->files, sizeof *w->file));
    if (strchr(name, '/'))
        return mds_fail(MDS_EUSER,
                        "%s: weight_map names '%s', which is not a file name", w->dir,
                        name);
    MDS_TRY(mds_path_join(w->dir, name, path));
    MDS_TRY(mds_safetensors_open(path, &w->file[w->files]));
    w->files++;
    return MDS_OK;
}

static int is_listed_before(const struct mds_node *map, const struct mds_node *n)
{
    for (const struct mds_node *i = map->first; i != n; i = i->next)
        if (i->text && strcmp(i->text, n->text) == 0)
            return 1;
    return 0;
}

static enum mds_rc add_listed(struct mds_hf_weights *w, const struct mds_tree *t)
{
    const struct mds_node *map = mds_node_get(t->root, "weight_map");

    if (!map || map->kind != MDS_NODE_MAP || !map->first)
        return mds_fail(MDS_EUSER, "%s: weight_map is missing or empty", t->name);
    for (const struct mds_node *n = map->first; n; n = n->next) {
        if (!n->text)
            return mds_fail(MDS_EUSER, "%s:%d: %s: a file name is missing", t->name,
                            n->line, n->key);
        if (!is_listed_before(map, n))
            MDS_TRY(add_file(w, n->text));
    }
    return MDS_OK;
}

static int file_exists(const char *dir, const char *name, char path[MDS_PATH_SIZE])
{
    struct stat st;

    return !mds_path_join(dir, name, path) && stat(path, &st) == 0;
}

static enum mds_rc open_files(struct mds_hf_weights *w)
{
    char path[MDS_PATH_SIZE];
    struct mds_tree *t;
    enum mds_rc rc;

    if (file_exists(w->dir, "model.safetensors", path))
        return add_file(w, "model.safetensors");
    if (file_exists(w->dir, "model.safetensors.index.json", path)) {
        MDS_TRY(mds_tree_load(path, &t));
        rc = add_listed(w, t);
        mds_tree_destroy(t);
        return rc;
    }
    if (file_exists(w->dir, "pytorch_model.bin", path) ||
        file_exists(w->dir, "pytorch_model.bin.index.json", path))
        return mds_fail(
            MDS_EUSER,
            "%s: pickled Python objects, but mds reads safetensors: write them "
            "in Python with model.save_pretrained(FOLDER, "
            "safe_serialization=True)",
            path);
    return mds_fail(
        MDS_EUSER, "%s: has neither model.safetensors nor model.safetensors.index.json",
        w->dir);
}

/* ---- tensors ---- */

/* Without the language model's head, as GPT2Model has it, names lack the first word:
 * "h.0.ln_1.weight". */
static const struct mds_st_tensor *find_tensor(const struct mds_hf_weights *w,
                                               const char *name)
{
    const char *bare = strchr(name, '.') + 1;
    const struct mds_st_tensor *t = NULL;

    for (int i = 0; !t && i < w->files; i++)
        t = mds_safetensors_find(w->file[i], name);
    for (int i = 0; !t && i < w->files; i++)
        t = mds_safetensors_find(w->file[i], bare);
    return t;
}

static enum mds_rc check_stored(const struct mds_hf_weights *w,
                                const struct mds_hf_tensor *t,
                                const struct mds_st_tensor *s)
{
    int64_t rows = s && s->ndim > 0 ? s->shape[0] : 1;
    int64_t cols = s && s->ndim > 1 ? s->shape[1] : 1, width = t->cols ? t->cols : 1;

    if (!s)
        return mds_fail(MDS_EUSER, "%s: tensor %s is missing", w->dir, t->name);
    if (s->ndim < 1 || s->ndim > 2 || rows != t->rows || cols != width)
        return mds_fail(MDS_EUSER,
                        "%s: %s is %lld x %lld, but config.json says %lld x %lld",
                        w->dir, s->name, (long long)rows, (long long)cols,
                        (long long)t->rows, (long long)width);
    if (s->dtype != MDS_ST_F32 && s->dtype != MDS_ST_BF16 && s->dtype != MDS_ST_F16)
        return mds_fail(MDS_EUSER, "%s: %s is %s; mds reads F32, BF16 and F16", w->dir,
                        s->name, mds_st_dtype_name(s->dtype));
    return MDS_OK;
}

/* Constants that older versions of transformers stored, and a tied head stored again.
 */
static int is_ignorable(const char *name)
{
    static const char *const ends[] = {".attn.bias",          ".attn.masked_bias",
                                       ".attention.bias",     ".attention.masked_bias",
                                       "rotary_emb.inv_freq", "lm_head.weight",
                                       "embed_out.weight"};
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n >= strlen(ends[i]) && strcmp(name + n - strlen(ends[i]), ends[i]) == 0)
            return 1;
    return 0;
}

static int is_matched(const struct mds_hf_weights *w, const struct mds_st_tensor *s)
{
    for (int i = 0; i < mds_params_n(w->whole); i++)
        if (w->where[i].stored == s)
            return 1;
    return 0;
}

/* Whether config.json says that there is no such bias. */
static int bias_is_absent(const struct mds_hf_weights *w, const char *name)
{
    return w->unbiased && strstr(name, w->unbiased) &&
           strcmp(strrchr(name, '.'), ".bias") == 0;
}

static enum mds_rc match_tensors(struct mds_hf_weights *w)
{
    for (int i = 0; i < w->tensors.n; i++) {
        const struct mds_hf_tensor *t = &w->tensors.list[i];
        const struct mds_st_tensor *s = find_tensor(w, t->name);

        if (s || !bias_is_absent(w, t->name))
            MDS_TRY(check_stored(w, t, s));
        for (int k = 0; k < t->parts; k++)
            w->where[t->part[k].param] = (struct location){t, &t->part[k], s};
    }
    for (int i = 0; i < w->files; i++)
        for (size_t k = 0; k < w->file[i]->count; k++) {
            const struct mds_st_tensor *s = &w->file[i]->tensors[k];

            if (!is_ignorable(s->name) && !is_matched(w, s))
                return mds_fail(MDS_EUSER,
                                "%s: tensor %s is unknown: mds cannot import it",
                                w->file[i]->map.path, s->name);
        }
    return MDS_OK;
}

enum mds_rc mds_hf_weights_open(const char *dir, const struct mds_hf_source *source,
                                const struct mds_model_config *m,
                                const struct mds_params *whole,
                                struct mds_hf_weights **out)
{
    struct mds_hf_weights *w = mds_zalloc(1, sizeof *w);
    enum mds_rc rc;

    if (!w)
        return MDS_EMEM;
    w->dir = dir;
    w->unbiased = source->unbiased;
    w->whole = whole;
    w->where = mds_zalloc((size_t)mds_params_n(whole), sizeof *w->where);
    rc = w->where ? mds_hf_tensors_init(source->kind, m, whole, &w->tensors) : MDS_EMEM;
    if (!rc)
        rc = open_files(w);
    if (!rc)
        rc = match_tensors(w);
    if (rc)
        mds_hf_weights_close(w);
    else
        *out = w;
    return rc;
}

void mds_hf_weights_close(struct mds_hf_weights *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->files; i++)
        mds_safetensors_close(w->file[i]);
    free(w->file);
    free(w->where);
    mds_hf_tensors_fini(&w->tensors);
    free(w);
}

/* ---- values ---- */

/* Elements at, at + step, .. of a tensor. */
static void widen(const struct mds_st_tensor *t, int64_t at, int64_t step, int64_t n,
                  float *out)
{
    int64_t size = (int64_t)mds_st_dtype_size(t->dtype);
    const char *from = (const char *)t->data + at * size;
    uint16_t half;

    step *= size;
    if (t->dtype == MDS_ST_F32)
        for (int64_t i = 0; i < n; i++)
            memcpy(&out[i], from + i * step, sizeof *out);
    else if (t->dtype == MDS_ST_BF16)
        for (int64_t i = 0; i < n; i++) {
            memcpy(&half, from + i * step, sizeof half);
            out[i] = mdsk_bf16_to_f32(half);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            memcpy(&half, from + i * step, sizeof half);
            out[i] = mdsk_f16_to_f32(half);
        }
}

/* Elements first .. first + n - 1 of a rank's shard of a parameter, row by row. */
static void fill_shard(const struct location *is, const struct mds_param *p,
                       uint64_t seed, int64_t first, int64_t n, float *out)
{
    int64_t cols = mds_max(p->spec.cols, 1), here = mds_max(p->cols, 1), some;
    const struct mds_hf_part *part = is->part;

    if (part->rows < p->spec.rows)
        mds_param_init_values(p, seed, first, n, out);
    for (int64_t i = 0; i < n; i += some) {
        int64_t whole = mds_param_whole_index(p, first + i);
        int64_t row = whole / cols, col = whole % cols, output;

        some = mds_min(here - (first + i) % here, n - i);
        if (row >= part->rows)
            continue;
        output = part->first + row / part->block * part->step + row % part->block;
        if (is->tensor->transposed)
            widen(is->stored, col * is->tensor->cols + output, is->tensor->cols, some,
                  out + i);
        else
            widen(is->stored, output * cols + col, 1, some, out + i);
    }
}

void mds_hf_weights_fill(const struct mds_hf_weights *w, const struct mds_params *local,
                         uint64_t seed, int unit, int64_t first, int64_t n, float *out)
{
    const struct mds_param_unit *u = mds_params_unit(local, unit);

    memset(out, 0, (size_t)n * sizeof *out);
    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(local, id);
        struct mds_param_overlap here = mds_param_overlap(local, p, first, n);
        const struct location *is;

        is = &w->where[mds_params_find(w->whole, p->spec.name)];
        if (here.n > 0 && is->stored)
            fill_shard(is, p, seed, here.first, here.n, out + here.at);
    }
}
