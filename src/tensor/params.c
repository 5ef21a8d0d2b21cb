#include "tensor/params.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Elements: 256 bytes, so that every parameter starts on its own cache lines. */
enum { ALIGN = 64 };

struct mds_params {
    struct mds_param *list;
    int n, cap;
    int64_t span, count;
    float *weight, *grad; /* borrowed */
    struct mds_param_hooks hooks;
};

enum mds_rc mds_params_create(struct mds_params **out)
{
    struct mds_params *ps = mds_zalloc(1, sizeof *ps);

    if (!ps)
        return MDS_EMEM;
    *out = ps;
    return MDS_OK;
}

void mds_params_destroy(struct mds_params *ps)
{
    if (!ps)
        return;
    free(ps->list);
    free(ps);
}

static enum mds_rc grow(struct mds_params *ps)
{
    int cap = ps->cap ? 2 * ps->cap : 64;
    struct mds_param *list = mds_realloc(ps->list, (size_t)cap, sizeof *list);

    if (!list)
        return MDS_EMEM;
    ps->list = list;
    ps->cap = cap;
    return MDS_OK;
}

enum mds_rc mds_params_add(struct mds_params *ps, const struct mds_param_spec *spec,
                           int *id)
{
    struct mds_param *p;
    int64_t end = ps->n ? ps->list[ps->n - 1].offset + ps->list[ps->n - 1].count : 0;

    if (spec->rows < 1 || spec->cols < 0)
        return mds_fail(MDS_EBUG, "parameter %s: %lld x %lld", spec->name,
                        (long long)spec->rows, (long long)spec->cols);
    if (mds_params_find(ps, spec->name) >= 0)
        return mds_fail(MDS_EBUG, "parameter %s: registered twice", spec->name);
    if (ps->n == ps->cap)
        MDS_TRY(grow(ps));
    p = &ps->list[ps->n];
    p->spec = *spec;
    p->count = spec->rows * (spec->cols ? spec->cols : 1);
    p->offset = spec->packed ? end : (end + ALIGN - 1) / ALIGN * ALIGN;
    ps->span = (p->offset + p->count + ALIGN - 1) / ALIGN * ALIGN;
    ps->count += p->count;
    *id = ps->n++;
    return MDS_OK;
}

int mds_params_n(const struct mds_params *ps)
{
    return ps->n;
}

const struct mds_param *mds_params_get(const struct mds_params *ps, int id)
{
    return &ps->list[id];
}

int mds_params_find(const struct mds_params *ps, const char *name)
{
    for (int i = 0; i < ps->n; i++)
        if (strcmp(ps->list[i].spec.name, name) == 0)
            return i;
    return -1;
}

int64_t mds_params_span(const struct mds_params *ps)
{
    return ps->span;
}

int64_t mds_params_count(const struct mds_params *ps)
{
    return ps->count;
}

void mds_params_bind(struct mds_params *ps, float *weight, float *grad)
{
    ps->weight = weight;
    ps->grad = grad;
}

float *mds_params_weights(const struct mds_params *ps)
{
    return ps->weight;
}

float *mds_params_grads(const struct mds_params *ps)
{
    return ps->grad;
}

void mds_params_hook(struct mds_params *ps, const struct mds_param_hooks *hooks)
{
    ps->hooks = *hooks;
}

static enum mds_rc call_hook(const struct mds_params *ps,
                             enum mds_rc (*hook)(void *ctx, int id), int first, int n)
{
    if (first < 0 || first + n > ps->n)
        return mds_fail(MDS_EBUG, "parameters %d .. %d of %d", first, first + n - 1,
                        ps->n);
    for (int id = first; hook && id < first + n; id++)
        MDS_TRY(hook(ps->hooks.ctx, id));
    return MDS_OK;
}

enum mds_rc mds_params_acquire(struct mds_params *ps, int first, int n)
{
    return call_hook(ps, ps->hooks.acquire, first, n);
}

enum mds_rc mds_params_release(struct mds_params *ps, int first, int n)
{
    return call_hook(ps, ps->hooks.release, first, n);
}

enum mds_rc mds_params_grad_ready(struct mds_params *ps, int first, int n)
{
    return call_hook(ps, ps->hooks.grad_ready, first, n);
}

const float *mds_param_weight(const struct mds_params *ps, int id)
{
    return ps->weight + ps->list[id].offset;
}

float *mds_param_grad(const struct mds_params *ps, int id)
{
    return ps->grad + ps->list[id].offset;
}
