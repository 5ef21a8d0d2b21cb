#include "ckpt/weights.h"
#include "base/alloc.h"
#include "ckpt/safetensors.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHUNK = 1 << 18 }; /* elements on their way between device and file */

static int shape_of(const struct mds_param *p, int64_t shape[2])
{
    shape[0] = p->spec.rows;
    shape[1] = p->spec.cols;
    return p->spec.cols ? 2 : 1;
}

static enum mds_rc declare_all(struct mds_st_writer *w, const struct mds_params *ps)
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

static enum mds_rc write_all(struct mds_st_writer *w, const struct mds_params *ps,
                             struct mds_dev *dev, const float *flat, float *host)
{
    for (int id = 0; id < mds_params_n(ps); id++) {
        const struct mds_param *p = mds_params_get(ps, id);

        for (int64_t at = 0; at < p->count; at += CHUNK) {
            int64_t n = p->count - at < CHUNK ? p->count - at : CHUNK;
            int64_t bytes = n * (int64_t)sizeof *host;

            mds_dev_copy_out(dev, host, flat + p->offset + at, bytes);
            MDS_TRY(mds_st_writer_write(w, host, (size_t)bytes));
        }
    }
    return MDS_OK;
}

enum mds_rc mds_weights_save(const char *path, const struct mds_params *ps,
                             struct mds_dev *dev, const float *flat)
{
    struct mds_st_writer *w = NULL;
    float *host = mds_zalloc(CHUNK, sizeof *host);
    enum mds_rc rc = MDS_EMEM;

    if (!host)
        return rc;
    rc = mds_st_writer_create(path, &w);
    if (!rc)
        rc = declare_all(w, ps);
    if (!rc)
        rc = write_all(w, ps, dev, flat, host);
    if (rc)
        mds_st_writer_abort(w);
    else
        rc = mds_st_writer_finish(w);
    free(host);
    return rc;
}

static enum mds_rc check_tensor(const char *path, const struct mds_st_tensor *t,
                                const struct mds_param *p)
{
    int64_t shape[2] = {0, 0};
    int ndim = shape_of(p, shape);

    if (!t)
        return mds_fail(MDS_EUSER,
                        "%s: no tensor %s: weights of a model of another shape", path,
                        p->spec.name);
    if (t->dtype != MDS_ST_F32)
        return mds_fail(MDS_EUSER, "%s: %s is %s; F32 is needed", path, t->name,
                        mds_st_dtype_name(t->dtype));
    if (t->ndim != ndim || t->shape[0] != shape[0] ||
        (ndim == 2 && t->shape[1] != shape[1]))
        return mds_fail(MDS_EUSER, "%s: %s is %lld x %lld; this model's is %lld x %lld",
                        path, t->name, (long long)(t->ndim > 0 ? t->shape[0] : 1),
                        (long long)(t->ndim > 1 ? t->shape[1] : 1), (long long)shape[0],
                        (long long)(ndim > 1 ? shape[1] : 1));
    return MDS_OK;
}

static enum mds_rc check_all(const char *path, const struct mds_safetensors *f,
                             const struct mds_params *ps)
{
    for (int id = 0; id < mds_params_n(ps); id++) {
        const struct mds_param *p = mds_params_get(ps, id);

        MDS_TRY(check_tensor(path, mds_safetensors_find(f, p->spec.name), p));
    }
    for (size_t i = 0; i < f->count; i++)
        if (mds_params_find(ps, f->tensors[i].name) < 0)
            return mds_fail(MDS_EUSER, "%s: this model has no parameter %s", path,
                            f->tensors[i].name);
    return MDS_OK;
}

enum mds_rc mds_weights_load(const char *path, struct mds_params *ps,
                             struct mds_dev *dev)
{
    struct mds_safetensors *f = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_safetensors_open(path, &f));
    rc = check_all(path, f, ps);
    for (int id = 0; !rc && id < mds_params_n(ps); id++) {
        const struct mds_param *p = mds_params_get(ps, id);
        const struct mds_st_tensor *t = mds_safetensors_find(f, p->spec.name);

        mds_dev_copy_in(dev, mds_params_weights(ps) + p->offset, t->data,
                        (int64_t)t->bytes);
    }
    mds_safetensors_close(f);
    return rc;
}
