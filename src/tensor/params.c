/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensor/params.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "device/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mds_params {
    enum mdsk_dtype dtype;
    struct mds_param *list;
    uint64_t *hash; /* [n], of their names, to compare names quickly */
    int n;
    struct mds_param_unit *unit;
    int units;
    int64_t count;
    unsigned partial; /* of all parameters */
    struct mds_param_hooks hooks;
};

enum mds_rc mds_params_create(enum mdsk_dtype dtype, struct mds_params **out)
{
    struct mds_params *ps = mds_zalloc(1, sizeof *ps);

    if (!ps)
        return MDS_EMEM;
    ps->dtype = dtype;
    *out = ps;
    return MDS_OK;
}

void mds_params_destroy(struct mds_params *ps)
{
    if (!ps)
        return;
    free(ps->list);
    free(ps->hash);
    free(ps->unit);
    free(ps);
}

/* Allocate space for one more parameter. */
static enum mds_rc grow_params(struct mds_params *ps)
{
    MDS_TRY(mds_grow(&ps->list, (size_t)ps->n, sizeof *ps->list));
    return mds_grow(&ps->hash, (size_t)ps->n, sizeof *ps->hash);
}

enum mds_rc mds_params_add_unit(struct mds_params *ps, const char *name, int *unit)
{
    struct mds_param_unit *u;

    MDS_TRY(mds_grow(&ps->unit, (size_t)ps->units, sizeof *ps->unit));
    u = &ps->unit[ps->units];
    *u = (struct mds_param_unit){.first_param = ps->n, .first = mds_params_span(ps)};
    snprintf(u->name, sizeof u->name, "%s", name);
    *unit = ps->units++;
    return MDS_OK;
}

void mds_params_set_encloses(struct mds_params *ps, int unit)
{
    ps->unit[unit].encloses = 1;
}

void mds_params_set_heads(struct mds_params *ps, int id, int64_t head_rows,
                          int64_t first_head)
{
    ps->list[id].spec.head_rows = head_rows;
    ps->list[id].spec.first_head = first_head;
}

void mds_params_set_inner(struct mds_params *ps, int unit)
{
    ps->unit[unit].inner = 1;
}

uint64_t mds_param_hash(const char *name)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return h;
}

static enum mds_rc check_param_spec(const struct mds_params *ps,
                                    const struct mds_param_spec *s)
{
    int64_t split = s->shard == MDS_SHARD_COLS ? s->cols : s->rows; /* not 0 */

    if (ps->units == 0 || s->rows < 1 || s->cols < 0)
        return mds_fail(MDS_EBUG, "parameter %s: invalid shape %lld x %lld in unit %d",
                        s->name, (long long)s->rows, (long long)s->cols, ps->units - 1);
    if (s->shard != MDS_SHARD_NONE && (split < 1 || s->parts < 1 || s->part < 0 ||
                                       s->part >= s->parts || split % s->parts))
        return mds_fail(MDS_EBUG, "parameter %s: invalid shard %d of %d of %lld",
                        s->name, s->part, s->parts, (long long)split);
    if (mds_params_find(ps, s->name) >= 0)
        return mds_fail(MDS_EBUG, "parameter %s: registered twice", s->name);
    return MDS_OK;
}

enum mds_rc mds_params_add(struct mds_params *ps, const struct mds_param_spec *spec,
                           int *id)
{
    struct mds_param_unit *u;
    struct mds_param *p;
    int64_t end;

    MDS_TRY(check_param_spec(ps, spec));
    MDS_TRY(grow_params(ps));
    u = &ps->unit[ps->units - 1];
    end = u->params ? ps->list[ps->n - 1].offset + ps->list[ps->n - 1].count : u->first;
    p = &ps->list[ps->n];
    *p = (struct mds_param){
        .spec = *spec, .rows = spec->rows, .cols = spec->cols, .unit = ps->units - 1};
    if (spec->shard == MDS_SHARD_ROWS)
        p->rows /= spec->parts;
    if (spec->shard == MDS_SHARD_COLS)
        p->cols /= spec->parts;
    p->count = p->rows * (p->cols ? p->cols : 1);
    p->offset = spec->packed ? end : mds_round_up(end, MDS_UNIT_ALIGN);
    u->count = mds_round_up(p->offset + p->count, MDS_UNIT_ALIGN) - u->first;
    u->params++;
    ps->count += p->count;
    ps->partial = ps->n > 0 ? ps->partial & spec->partial : spec->partial;
    u->apart = u->params > 1 ? u->apart & spec->axes : spec->axes;
    ps->hash[ps->n] = mds_param_hash(spec->name);
    *id = ps->n++;
    return MDS_OK;
}

enum mdsk_dtype mds_params_dtype(const struct mds_params *ps)
{
    return ps->dtype;
}

int mds_params_n(const struct mds_params *ps)
{
    return ps->n;
}

const struct mds_param *mds_params_get(const struct mds_params *ps, int id)
{
    return &ps->list[id];
}

int mds_params_units(const struct mds_params *ps)
{
    return ps->units;
}

const struct mds_param_unit *mds_params_unit(const struct mds_params *ps, int unit)
{
    return &ps->unit[unit];
}

unsigned mds_params_sum_axes(const struct mds_params *ps, int unit)
{
    return ps->partial & ~ps->unit[unit].apart;
}

unsigned mds_params_early_axes(const struct mds_params *ps, int id)
{
    return mds_param_sum_axes(&ps->list[id].spec) &
           ~mds_params_sum_axes(ps, ps->list[id].unit);
}

int mds_params_find(const struct mds_params *ps, const char *name)
{
    uint64_t hash = mds_param_hash(name);

    for (int i = 0; i < ps->n; i++)
        if (ps->hash[i] == hash && strcmp(ps->list[i].spec.name, name) == 0)
            return i;
    return -1;
}

int64_t mds_params_span(const struct mds_params *ps)
{
    const struct mds_param_unit *last = ps->units ? &ps->unit[ps->units - 1] : NULL;

    return last ? last->first + last->count : 0;
}

int64_t mds_params_count(const struct mds_params *ps)
{
    return ps->count;
}

void mds_params_set_weight(struct mds_params *ps, int unit, void *weight)
{
    ps->unit[unit].weight = weight;
}

void mds_params_set_grad(struct mds_params *ps, int unit, float *grad)
{
    ps->unit[unit].grad = grad;
}

void mds_params_hook(struct mds_params *ps, const struct mds_param_hooks *hooks)
{
    ps->hooks = *hooks;
}

enum mds_rc mds_params_acquire(struct mds_params *ps, int unit)
{
    mds_range_begin(ps->unit[unit].name);
    return ps->hooks.acquire ? ps->hooks.acquire(ps->hooks.ctx, unit) : MDS_OK;
}

enum mds_rc mds_params_release(struct mds_params *ps, int unit)
{
    mds_range_end();
    return ps->hooks.release ? ps->hooks.release(ps->hooks.ctx, unit) : MDS_OK;
}

enum mds_rc mds_params_grad_begin(struct mds_params *ps, int unit)
{
    return ps->hooks.grad_begin ? ps->hooks.grad_begin(ps->hooks.ctx, unit) : MDS_OK;
}

void mds_params_set_uninit(struct mds_params *ps, int unit)
{
    struct mds_param *p = ps->list + ps->unit[unit].first_param;

    for (int i = 0; i < ps->unit[unit].params; i++)
        p[i].uninit = p[i].spec.by_gemm;
}

int mds_params_test_and_clear_uninit(struct mds_params *ps, int id, int64_t count)
{
    struct mds_param *p = ps->list + id, *end = ps->list + ps->n;
    int64_t behind = p->offset + count;
    int uninit = p->uninit;

    for (; p < end && p->offset < behind; p++)
        p->uninit = 0;
    return uninit;
}

enum mds_rc mds_params_grad_ready(struct mds_params *ps, int unit)
{
    const struct mds_param *p = ps->list + ps->unit[unit].first_param;

    for (int i = 0; i < ps->unit[unit].params; i++)
        if (p[i].uninit)
            return mds_fail(MDS_EBUG, "gradient of %s: ready, but never written",
                            p[i].spec.name);
    return ps->hooks.grad_ready ? ps->hooks.grad_ready(ps->hooks.ctx, unit) : MDS_OK;
}

const void *mds_param_weight(const struct mds_params *ps, int id)
{
    const struct mds_param *p = &ps->list[id];
    const struct mds_param_unit *u = &ps->unit[p->unit];

    return (const char *)u->weight +
           (p->offset - u->first) * (int64_t)mdsk_dtype_size(ps->dtype);
}

float *mds_param_grad(const struct mds_params *ps, int id)
{
    const struct mds_param *p = &ps->list[id];
    const struct mds_param_unit *u = &ps->unit[p->unit];

    return u->grad + (p->offset - u->first);
}

struct mds_param_overlap mds_param_overlap(const struct mds_params *ps,
                                           const struct mds_param *p, int64_t first,
                                           int64_t n)
{
    int64_t begin = p->offset - ps->unit[p->unit].first;
    int64_t from = mds_max(begin, first), to = mds_min(begin + p->count, first + n);

    if (from >= to)
        return (struct mds_param_overlap){0};
    return (struct mds_param_overlap){
        .first = from - begin, .n = to - from, .at = from - first};
}

int64_t mds_param_whole_index(const struct mds_param *p, int64_t i)
{
    const struct mds_param_spec *s = &p->spec;

    if (s->shard == MDS_SHARD_ROWS)
        return i + s->part * p->count;
    if (s->shard == MDS_SHARD_COLS)
        return i / p->cols * s->cols + s->part * p->cols + i % p->cols;
    return i;
}
