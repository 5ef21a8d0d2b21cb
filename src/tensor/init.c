/* Start values of parameters. */
#include "kernels/philox.h"
#include "tensor/params.h"

#include <math.h>
#include <string.h>

/* FNV-1a, 64 bits: the name's share of the key. */
static uint64_t hash_name(const char *name)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return h;
}

/* Two normal numbers from two words, by Box and Muller 1958; u is in (0, 1]. */
static void normal_pair(uint32_t a, uint32_t b, double z[2])
{
    double u = ((double)a + 1.0) / 4294967296.0;
    double angle = 6.283185307179586 * ((double)b / 4294967296.0);
    double radius = sqrt(-2.0 * log(u));

    z[0] = radius * cos(angle);
    z[1] = radius * sin(angle);
}

static void normal_block(uint64_t key, int64_t block, double z[4])
{
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t ctr[4] = {(uint32_t)block, (uint32_t)((uint64_t)block >> 32), 0, 0};
    uint32_t r[4];

    mdsk_philox(k, ctr, r);
    normal_pair(r[0], r[1], z);
    normal_pair(r[2], r[3], z + 2);
}

void mds_param_init_values(const struct mds_param *p, uint64_t seed, int64_t first,
                           int64_t n, float *out)
{
    const struct mds_param_spec *spec = &p->spec;
    uint64_t key = hash_name(spec->name) ^ seed * UINT64_C(0x9E3779B97F4A7C15);
    int64_t block = -1;
    double z[4] = {0};

    if (spec->init != MDS_INIT_NORMAL) {
        for (int64_t i = 0; i < n; i++)
            out[i] = spec->init == MDS_INIT_ONE ? 1.0f : 0.0f;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t whole = mds_param_whole_index(p, first + i);

        if (whole / 4 != block) {
            block = whole / 4;
            normal_block(key, block, z);
        }
        out[i] = (float)(spec->std * z[whole % 4]);
    }
}

void mds_unit_init_values(const struct mds_params *ps, int unit, uint64_t seed,
                          int64_t first, int64_t n, float *out)
{
    const struct mds_param_unit *u = mds_params_unit(ps, unit);

    memset(out, 0, (size_t)n * sizeof *out);
    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(ps, id);
        int64_t begin = p->offset - u->first; /* in the unit */
        int64_t from = begin > first ? begin : first;
        int64_t to = begin + p->count < first + n ? begin + p->count : first + n;

        if (from < to)
            mds_param_init_values(p, seed, from - begin, to - from, out + from - first);
    }
}
