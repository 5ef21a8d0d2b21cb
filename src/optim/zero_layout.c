/* SPDX-License-Identifier: BSD-3-Clause */
/* Who owns what, and what travels together. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "optim/internal.h"

/* At stage 0 every rank's part is everything, at its place in the flat buffers. */
static void cut_units(struct mds_zero *z)
{
    for (int i = 0; i < z->units; i++) {
        const struct mds_param_unit *pu = mds_params_unit(z->params, i);
        struct zero_unit *u = &z->unit[i];
        int64_t first;

        u->grad_slot = -1;
        u->at = z->own;
        u->n = u->block = pu->count;
        if (z->stage > 0) {
            mds_comm_slice(pu->count, z->size, 0, &first, &u->block);
            mds_comm_slice(pu->count, z->size, z->rank, &u->first, &u->n);
        }
        z->own += u->block;
    }
}

/* The unit's parameters, clipped to the part; neighbours that are treated alike are one
 * range, and reach over the gaps between them, which hold zeros and stay zeros. */
static int find_ranges(const struct mds_zero *z, int unit, struct zero_range *out)
{
    const struct mds_param_unit *pu = mds_params_unit(z->params, unit);
    const struct zero_unit *u = &z->unit[unit];
    int n = 0;

    for (int k = 0; k < pu->params; k++) {
        const struct mds_param *p = mds_params_get(z->params, pu->first_param + k);
        int64_t next = k + 1 < pu->params ? p[1].offset - pu->first : pu->count;
        int64_t from = mds_max(p->offset - pu->first, u->first);
        int64_t to = mds_min(next, u->first + u->n);
        const struct mds_param_spec *s = &p->spec;

        if (from >= to)
            continue;
        if (n == 0 || out[n - 1].decay != s->decay ||
            out[n - 1].duplicate != s->duplicate)
            out[n++] = (struct zero_range){
                .first = from, .decay = s->decay, .duplicate = s->duplicate};
        out[n - 1].n = to - out[n - 1].first;
    }
    return n;
}

/* From the last unit to the first, as backward meets them. */
static void fill_buckets(struct mds_zero *z)
{
    int64_t enough = z->stage == 0 ? z->spec.bucket_bytes / (int64_t)sizeof(float) : 0;
    struct zero_bucket *b = NULL;

    for (int i = z->units - 1; i >= 0; i--) {
        const struct mds_param_unit *pu = mds_params_unit(z->params, i);

        if (!b || b->n >= enough) {
            b = &z->bucket[z->buckets++];
            b->first = pu->first + pu->count;
        }
        b->n += b->first - pu->first;
        b->first = pu->first;
        b->units++;
        z->unit[i].bucket = z->buckets - 1;
    }
}

enum mds_rc mds_zero_lay_out(struct mds_zero *z)
{
    size_t units = (size_t)z->units;
    int ranges = 0;

    z->unit = mds_zalloc(units, sizeof *z->unit);
    z->bucket = mds_zalloc(units, sizeof *z->bucket);
    z->range = mds_zalloc((size_t)mds_params_n(z->params), sizeof *z->range);
    if (!z->unit || !z->bucket || !z->range)
        return MDS_EMEM;
    cut_units(z);
    fill_buckets(z);
    for (int i = 0; i < z->units; i++) {
        z->unit[i].range = ranges;
        z->unit[i].ranges = find_ranges(z, i, z->range + ranges);
        ranges += z->unit[i].ranges;
    }
    return MDS_OK;
}

int mds_zero_next_piece(const struct mds_zero *z, int64_t longest, struct zero_piece *p)
{
    int64_t next = p->unit < 0 ? 0 : p->first + p->n;

    while (p->unit < 0 || next >= z->unit[p->unit].first + z->unit[p->unit].n) {
        if (++p->unit == z->units)
            return 0;
        next = z->unit[p->unit].first;
    }
    p->first = next;
    p->n = mds_min(longest, z->unit[p->unit].first + z->unit[p->unit].n - next);
    return 1;
}

int64_t mds_zero_piece_at(const struct mds_zero *z, const struct zero_piece *p)
{
    const struct zero_unit *u = &z->unit[p->unit];

    return u->at + p->first - u->first;
}
