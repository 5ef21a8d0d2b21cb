/* SPDX-License-Identifier: BSD-3-Clause */
/* Initial weights from a file, and exports of whole tensors. */
#include "base/status.h"
#include "ckpt/index.h"
#include "ckpt/safetensors.h"
#include "tensor/params.h"
#include "train/run.h"

#include <string.h>

/* As one safetensors file in f32, with the names of the registry of the unsharded
 * model, `whole`. */
static int shape_of(const struct mds_param *p, int64_t shape[2])
{
    shape[0] = p->spec.rows;
    shape[1] = p->spec.cols;
    return p->spec.cols ? 2 : 1;
}

/* ---- reading ---- */

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

struct fill_context {
    struct mds_safetensors *file;
    const struct mds_params *local;
};

/* Elements first .. first + n - 1 of a unit; gaps and padding become 0. */
static enum mds_rc fill_from_file(void *ctx, enum mds_zero_what what, int unit,
                                  int64_t first, int64_t n, float *out)
{
    const struct fill_context *f = ctx;
    const struct mds_param_unit *u = mds_params_unit(f->local, unit);

    (void)what; /* moments are not asked for */
    memset(out, 0, (size_t)n * sizeof *out);
    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(f->local, id);
        const struct mds_st_tensor *t = mds_safetensors_find(f->file, p->spec.name);
        int64_t elements = t->shape[0] * (t->ndim > 1 ? t->shape[1] : 1);
        struct mds_param_overlap here = mds_param_overlap(f->local, p, first, n);

        for (int64_t i = 0; i < here.n; i++) {
            int64_t at = mds_param_whole_index(p, here.first + i);

            if (at < elements)
                out[here.at + i] = ((const float *)t->data)[at];
        }
    }
    return MDS_OK;
}

enum mds_rc mds_run_start_weights(const struct run *r)
{
    const char *path = r->config->output.init_weights;
    struct mds_params *whole = NULL;
    struct fill_context f = {.local = mds_engine_params(r->engine)};
    enum mds_rc rc;

    if (!path)
        return mds_zero_init_weights(mds_engine_zero(r->engine),
                                     (uint64_t)r->config->train.seed);
    MDS_TRY(mds_engine_whole_params(r->config, &whole));
    rc = mds_safetensors_open(path, &f.file);
    if (!rc)
        rc = check_tensors(path, f.file, whole, r->config->model.vocab);
    if (!rc)
        rc = mds_zero_load(mds_engine_zero(r->engine), fill_from_file, &f, 0);
    mds_safetensors_close(f.file);
    mds_params_destroy(whole);
    return rc;
}

/* ---- writing ---- */

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

static enum mds_rc write_tensor(void *ctx, const struct mds_param *p,
                                const float *values)
{
    return mds_st_writer_write(ctx, values, (size_t)p->count * sizeof *values);
}

static enum mds_rc discard_tensor(void *ctx, const struct mds_param *p,
                                  const float *values)
{
    (void)ctx, (void)p, (void)values;
    return MDS_OK;
}

enum mds_rc mds_run_export(const struct run *r, enum mds_zero_what what,
                           const char *path)
{
    struct mds_params *whole = NULL;
    struct mds_st_writer *w = NULL;
    enum mds_rc rc;

    if (!is_rank0(r))
        return mds_engine_each_whole(r->engine, what, discard_tensor, NULL);
    MDS_TRY(mds_engine_whole_params(r->config, &whole));
    rc = mds_st_writer_create(path, &w);
    if (!rc)
        rc = declare_tensors(w, whole);
    mds_params_destroy(whole);
    if (!rc)
        rc = mds_engine_each_whole(r->engine, what, write_tensor, w);
    if (!rc)
        return mds_st_writer_finish(w);
    mds_st_writer_abort(w);
    return rc;
}
