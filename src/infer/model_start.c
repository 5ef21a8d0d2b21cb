/* SPDX-License-Identifier: BSD-3-Clause */
/* A model on its ranks: device, engine, weights. */
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "ckpt/reader.h"
#include "device/memory.h"
#include "infer/model.h"
#include "transport/stop.h"

#include <inttypes.h>
#include <string.h>

/* ---- device and memory ---- */

static enum mds_rc open_device(struct mds_infer_model *m)
{
    /* Many a run is over before two seconds of timing have paid. */
    const double hot_after_s = 60;
    struct mds_dev_spec spec = mds_engine_device(&m->run->config, &m->world);

    spec.hot_after_s = hot_after_s;
    MDS_TRY(mds_dev_create(&spec, &m->dev));
    spec.host_side = 1;
    MDS_TRY(mds_dev_create(&spec, &m->host));
    mds_info("device: %s", mds_dev_describe(m->dev));
    return MDS_OK;
}

/* What a GPU has beside it; of a CPU, device and host are one memory. */
static enum mds_rc check_host(const struct mds_infer_model *m, int64_t bytes)
{
    int64_t there = mds_host_memory_available() / m->world.local_ranks;
    char need[32], have[32];

    if (bytes <= there)
        return MDS_OK;
    return mds_fail(MDS_EMEM,
                    "%s: a rank needs %s of host memory, and has %s; use fewer ranks a "
                    "node, or less of %s",
                    m->world.host, mds_format_bytes((double)bytes, need, sizeof need),
                    mds_format_bytes((double)there, have, sizeof have),
                    m->generates ? "--cpu-offloading-num-layers"
                                 : "--offload-param-device");
}

static enum mds_rc check_memory(const struct mds_infer_model *m)
{
    const struct mds_engine_need *n = &m->need;
    int64_t host = n->host_bytes + n->zero.memory_bytes + mds_ckpt_reader_bytes();
    int64_t device = n->state_bytes + n->step_bytes,
            there = mds_dev_memory_bytes(m->dev);
    int on_gpu = strcmp(mds_dev_name(m->dev), "cuda") == 0;
    char need[32], have[32];

    device += on_gpu ? n->overhead_bytes : host;
    if (device <= there)
        return on_gpu ? check_host(m, host) : MDS_OK;
    return mds_fail(
        MDS_EMEM,
        "%s: a rank needs %s for rows of %" PRId64
        " tokens, and has %s; use more ranks (--tensor-model-parallel-size, "
        "--context-parallel-size, --zero-stage 3), %s, or fewer --batch-tokens",
        m->world.host, mds_format_bytes((double)device, need, sizeof need),
        m->run->config.model.seq_length,
        mds_format_bytes((double)there, have, sizeof have),
        !m->generates ? "--sequence-tile"
        : on_gpu      ? "--pipeline-model-parallel-size, --cpu-offloading-num-layers"
                      : "--pipeline-model-parallel-size");
}

static enum mds_rc build_engine(struct mds_infer_model *m)
{
    const struct mds_config *c = &m->run->config;
    const struct mds_world *w = &m->world;
    struct mds_engine_spec spec = {.config = c,
                                   .dev = m->dev,
                                   .host = m->host,
                                   .groups = &m->groups,
                                   .need = &m->need,
                                   .threads = mds_engine_device(c, w).threads};

    MDS_TRY(mds_engine_measure(c, w->ranks, w->rank, w->local_ranks, &m->need));
    MDS_TRY(check_memory(m));
    MDS_TRY(mds_comm_barrier(mds_group(&m->groups, MDS_AXES_ALL)));
    return mds_engine_create(&spec, &m->engine);
}

/* ---- weights ---- */

struct source {
    struct mds_ckpt_reader *reader; /* or: */
    struct mds_hf_weights *hf;
    const struct mds_params *local;
    uint64_t seed;
};

static enum mds_rc fill(void *ctx, enum mds_zero_what what, int unit, int64_t first,
                        int64_t n, float *out)
{
    const struct source *s = ctx;

    (void)what; /* moments are not asked for */
    if (s->reader)
        return mds_ckpt_reader_fill(s->reader, s->local, s->seed, MDS_CKPT_WEIGHT, unit,
                                    first, n, out);
    mds_hf_weights_fill(s->hf, s->local, s->seed, unit, first, n, out);
    return MDS_OK;
}

/* c, whole: of the whole model. */
static enum mds_rc open_source(const struct mds_infer_model *m,
                               const struct mds_model_config *c,
                               const struct mds_params *whole, struct source *s)
{
    int alone = mds_groups_size(&m->groups, MDS_AXES_TOKENS) == 1;

    if (!m->ix)
        return mds_hf_weights_open(m->path, &m->hf, c, whole, &s->hf);
    MDS_TRY(mds_ckpt_index_check_model(m->ix, whole, c->vocab, c->padded_vocab));
    return mds_ckpt_reader_create(m->ix, alone, &s->reader);
}

static enum mds_rc load_weights(struct mds_infer_model *m)
{
    struct source s = {.local = mds_engine_params(m->engine),
                       .seed = (uint64_t)m->run->config.train.seed};
    struct mds_config all = m->run->config;
    struct mds_params *whole;
    double begin = mds_clock_s();
    enum mds_rc rc;

    all.model.layers = m->layers;
    MDS_TRY(mds_engine_whole_params(&all, &whole));
    rc = open_source(m, &all.model, whole, &s);
    if (!rc)
        rc = mds_zero_load(mds_engine_zero(m->engine), fill, &s, 0);
    if (!rc && m->ix)
        rc = mds_engine_set_expert_bias(m->engine, m->ix->state.expert_bias,
                                        m->ix->state.expert_biases);
    mds_ckpt_reader_destroy(s.reader);
    mds_hf_weights_close(s.hf);
    mds_params_destroy(whole);
    if (!rc)
        mds_info("loaded %s in %.2f s", m->path, mds_clock_s() - begin);
    return rc;
}

enum mds_rc mds_infer_model_start(struct mds_infer_model *m,
                                  const struct mds_world *world)
{
    m->world = *world;
    mds_comm_set_check(m->run->config.train.comm_check);
    MDS_TRY(open_device(m));
    MDS_TRY(mds_groups_create(&m->run->config.parallel, world->ranks, world->rank,
                              m->dev, &m->groups));
    MDS_TRY(build_engine(m));
    return load_weights(m);
}

enum mds_rc mds_infer_model_may_leave(struct mds_infer_model *m)
{
    double caught = mds_stop_caught();

    MDS_TRY(mds_comm_all_reduce_f64(mds_group(&m->groups, MDS_AXES_ALL), &caught, 1,
                                    MDS_COMM_MAX));
    m->left = caught != 0;
    return m->left ? mds_fail(MDS_EUSER, "a signal ended it") : MDS_OK;
}

void mds_infer_model_log_memory(const struct mds_infer_model *m)
{
    int64_t host = mds_dev_ledger(m->host)->memory.total_peak;
    struct mds_str table = {0};
    char text[32];

    mds_mem_table(&mds_dev_ledger(m->dev)->memory, &table);
    if (table.s)
        mds_debug("memory of rank %d by purpose:\n%s", m->world.rank, table.s);
    if (host > 0)
        mds_debug("host memory of rank %d: %s", m->world.rank,
                  mds_format_bytes((double)host, text, sizeof text));
    mds_str_fini(&table);
}

void mds_infer_model_close(struct mds_infer_model *m)
{
    mds_engine_destroy(m->engine);
    mds_groups_fini(&m->groups);
    mds_dev_destroy(m->host);
    mds_dev_destroy(m->dev);
    mds_ckpt_index_destroy(m->ix);
    mds_config_run_destroy(m->run);
}
