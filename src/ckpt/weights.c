/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/weights.h"
#include "base/alloc.h"
#include "ckpt/index.h"
#include "ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>

static int shape_of(const struct mds_param *p, int64_t shape[2])
{
    shape[0] = p->spec.rows;
    shape[1] = p->spec.cols;
    return p->spec.cols ? 2 : 1;
}

/* ---- writing ---- */

struct mds_weights_writer {
    struct mds_st_writer *file;
};

static enum mds_rc declare_tensors(struct mds_st_writer *w, const struct mds_params *ps)
{
    MDS_TRY(mds_st_writer_metadata(w, "format", "mds"));
    for (int id = 0; id < mds_params_n(ps); id++) {
        const struct mds_param *p = mds_params_get(ps, id);
        int64_t shape[2];
        int ndim = shape_of(p, shape);

        MDS_TRY(mds_st_writer_declare(w, p->spec.name, MDS_ST_F32, ndim, shape));
    }
    return MDS_OK;
}

enum mds_rc mds_weights_writer_create(const char *path, const struct mds_params *whole,
                                      struct mds_weights_writer **out)
{
    struct mds_weights_writer *w = mds_zalloc(1, sizeof *w);
    enum mds_rc rc;

    if (!w)
        return MDS_EMEM;
    rc = mds_st_writer_create(path, &w->file);
    if (!rc)
        rc = declare_tensors(w->file, whole);
    if (rc)
        mds_weights_writer_abort(w);
    else
        *out = w;
    return rc;
}

enum mds_rc mds_weights_writer_add(void *ctx, const struct mds_param *p,
                                   const float *values)
{
    struct mds_weights_writer *w = ctx;

    return mds_st_writer_write(w->file, values, (size_t)p->count * sizeof *values);
}

enum mds_rc mds_weights_writer_finish(struct mds_weights_writer *w)
{
    enum mds_rc rc = mds_st_writer_finish(w->file);

    free(w);
    return rc;
}

void mds_weights_writer_abort(struct mds_weights_writer *w)
{
    if (!w)
        return;
    mds_st_writer_abort(w->file);
    free(w);
}

/* ---- reading ---- */

struct mds_weights_reader {
    struct mds_safetensors *file;
};

/* Rows of words may be padded otherwise than those in the file. */
static int has_rows(const struct mds_st_tensor *t, const struct mds_param *p,
                    int64_t vocab)
{
    return t->shape[0] == p->spec.rows ||
           (mds_ckpt_is_by_word(p->spec.name) && t->shape[0] >= vocab);
}

static enum mds_rc check_tensor(const char *path, const struct mds_st_tensor *t,
                                const struct mds_param *p, int64_t vocab)
{
    int64_t shape[2] = {0, 0};
    int ndim = shape_of(p, shape);

    if (!t)
        return mds_fail(MDS_EUSER,
                        "%s: has no tensor %s: the weights are of another model", path,
                        p->spec.name);
    if (t->dtype != MDS_ST_F32)
        return mds_fail(MDS_EUSER, "%s: %s is %s; F32 is needed", path, t->name,
                        mds_st_dtype_name(t->dtype));
    if (t->ndim != ndim || !has_rows(t, p, vocab) ||
        (ndim == 2 && t->shape[1] != shape[1]))
        return mds_fail(MDS_EUSER, "%s: %s is %lld x %lld; this model's is %lld x %lld",
                        path, t->name, (long long)(t->ndim > 0 ? t->shape[0] : 1),
                        (long long)(t->ndim > 1 ? t->shape[1] : 1), (long long)shape[0],
                        (long long)(ndim > 1 ? shape[1] : 1));
    return MDS_OK;
}

static enum mds_rc check_tensors(const char *path, const struct mds_safetensors *f,
                                 const struct mds_params *ps, int64_t vocab)
{
    for (int id = 0; id < mds_params_n(ps); id++) {
        const struct mds_param *p = mds_params_get(ps, id);

        MDS_TRY(check_tensor(path, mds_safetensors_find(f, p->spec.name), p, vocab));
    }
    for (size_t i = 0; i < f->count; i++)
        if (mds_params_find(ps, f->tensors[i].name) < 0)
            return mds_fail(MDS_EUSER, "%s: this model has no parameter %s", path,
                            f->tensors[i].name);
    return MDS_OK;
}

enum mds_rc mds_weights_reader_open(const char *path, const struct mds_params *whole,
                                    int64_t vocab, struct mds_weights_reader **out)
{
    struct mds_weights_reader *r = mds_zalloc(1, sizeof *r);
    enum mds_rc rc;

    if (!r)
        return MDS_EMEM;
    rc = mds_safetensors_open(path, &r->file);
    if (!rc)
        rc = check_tensors(path, r->file, whole, vocab);
    if (rc)
        mds_weights_reader_close(r);
    else
        *out = r;
    return rc;
}

void mds_weights_reader_close(struct mds_weights_reader *r)
{
    if (!r)
        return;
    mds_safetensors_close(r->file);
    free(r);
}

void mds_weights_reader_fill(const struct mds_weights_reader *r,
                             const struct mds_params *local, int unit, int64_t first,
                             int64_t n, float *out)
{
    const struct mds_param_unit *u = mds_params_unit(local, unit);

    memset(out, 0, (size_t)n * sizeof *out);
    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(local, id);
        const struct mds_st_tensor *t = mds_safetensors_find(r->file, p->spec.name);
        int64_t elements = t->shape[0] * (t->ndim > 1 ? t->shape[1] : 1);
        struct mds_param_overlap here = mds_param_overlap(local, p, first, n);

        for (int64_t i = 0; i < here.n; i++) {
            int64_t at = mds_param_whole_index(p, here.first + i);

            if (at < elements)
                out[here.at + i] = ((const float *)t->data)[at];
        }
    }
}
