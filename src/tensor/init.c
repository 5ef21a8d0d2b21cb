/* Start values of parameters. */
#include "base/alloc.h"
#include "kernels/philox.h"
#include "tensor/params.h"

#include <math.h>
#include <stdlib.h>

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

void mds_param_init_values(const struct mds_param_spec *spec, uint64_t seed,
                           int64_t first, int64_t n, float *out)
{
    uint64_t key = hash_name(spec->name) ^ seed * UINT64_C(0x9E3779B97F4A7C15);
    int64_t block = -1;
    double z[4] = {0};

    if (spec->init != MDS_INIT_NORMAL) {
        for (int64_t i = 0; i < n; i++)
            out[i] = spec->init == MDS_INIT_ONE ? 1.0f : 0.0f;
        return;
    }
    for (int64_t i = first; i < first + n; i++) {
        if (i / 4 != block) {
            block = i / 4;
            normal_block(key, block, z);
        }
        out[i - first] = (float)(spec->std * z[i % 4]);
    }
}

enum mds_rc mds_params_init(struct mds_params *ps, struct mds_dev *dev, uint64_t seed)
{
    enum { CHUNK = 1 << 16 };
    float *host = mds_zalloc(CHUNK, sizeof *host);
    float *weight = mds_params_weights(ps);

    if (!host)
        return MDS_EMEM;
    for (int id = 0; id < mds_params_n(ps); id++) {
        const struct mds_param *p = mds_params_get(ps, id);

        for (int64_t at = 0; at < p->count; at += CHUNK) {
            int64_t n = p->count - at < CHUNK ? p->count - at : CHUNK;

            mds_param_init_values(&p->spec, seed, at, n, host);
            mds_dev_copy_in(dev, weight + p->offset + at, host,
                            n * (int64_t)sizeof *host);
        }
    }
    free(host);
    return MDS_OK;
}
