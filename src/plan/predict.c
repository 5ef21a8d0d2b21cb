/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/predict.h"
#include "base/minmax.h"
#include "base/units.h"
#include "metrics/flops.h"
#include "pipeline/split.h"
#include "plan/dry_run.h"

/* A tenth is left to the system.  For a machine without a batch system, which is this
 * host, the memory that is free now counts. */
static int64_t host_limit(const struct mds_machine *m, int per_node)
{
    if (mds_machine_is_local(m))
        return mds_host_memory_available() / per_node;
    return m->node.memory / 10 * 9 / per_node;
}

static int64_t device_limit(const struct mds_machine *m, int per_node)
{
    return m->node.gpus > 0 ? m->gpu.memory : host_limit(m, per_node);
}

static void set_memory_limits(const struct mds_machine *m, int per_node,
                              struct mds_estimate *e)
{
    e->device_limit = device_limit(m, per_node);
    e->host_limit = host_limit(m, per_node);
    e->host_need = e->host_bytes + (m->node.gpus > 0 ? 0 : e->device_bytes);
    e->fits = e->device_bytes <= e->device_limit && e->host_need <= e->host_limit;
}

double mds_estimate_memory_fraction(const struct mds_estimate *e)
{
    double device = (double)e->device_bytes / (double)e->device_limit;
    double host = (double)e->host_need / (double)e->host_limit;

    return device > host ? device : host;
}

void mds_estimate_memory_text(const struct mds_estimate *e, char need[32],
                              char have[32])
{
    int on_host = e->device_bytes <= e->device_limit && e->host_need > e->host_limit;

    mds_format_bytes((double)(on_host ? e->host_need : e->device_bytes), need, 32);
    mds_format_bytes((double)(on_host ? e->host_limit : e->device_limit), have, 32);
}

static void set_throughput(const struct mds_config *c, int world,
                           struct mds_estimate *e)
{
    struct mds_flops_model f = mds_flops_model_of(c);
    int64_t tokens = c->batch.global * c->model.seq_length;

    e->parameters = mds_flops_matmul_params(&f);
    e->tokens_s = (double)tokens / e->step_s / world;
    e->model_flops = mds_flops_causal(&f, tokens) / e->step_s / world;
    if (c->train.skip_train)
        e->model_flops /= 3; /* the forward pass alone */
}

/* Keep the worse of both: the slower step, and the larger memory. */
static void keep_worse_of(struct mds_estimate *e, const struct mds_estimate *of)
{
    const struct mds_estimate *quicker = of->step_s > e->step_s ? e : of;
    struct mds_estimate worse = quicker == of ? *e : *of;
    const struct mds_estimate *larger = of->device_bytes > e->device_bytes ? of : e;

    worse.step_s += quicker->idle_s - worse.idle_s; /* it idles while others work */
    worse.idle_s = quicker->idle_s;
    worse.prompt_s = e->prompt_s > of->prompt_s ? e->prompt_s : of->prompt_s;
    worse.memory = larger->memory;
    worse.untracked = larger->untracked;
    worse.device_bytes = larger->device_bytes;
    if (of->host_bytes > e->host_bytes)
        worse.host_bytes = of->host_bytes;
    *e = worse;
}

/* What an estimate is made for, and how. */
struct prediction {
    const struct mds_config *c;
    const struct mds_machine *m;
    int world, per_node;
    enum mds_predict_how how;
};

static struct mds_untracked untracked_bytes(const struct mds_machine *m,
                                            const struct mds_dry_step *r)
{
    if (m->node.gpus == 0)
        return (struct mds_untracked){.libraries = m->overhead.bytes};
    return (struct mds_untracked){.libraries = m->overhead.bytes,
                                  .messages = r->nccl_bytes,
                                  .attention = r->scratch_bytes};
}

/* A stage idles for (p-1)/(m v) of its work: Narayanan et al. 2021, arXiv:2104.04473,
 * section 2.2.  In generation batches go round, so it does if there are fewer of them
 * than stages. */
static double idle_share(const struct mds_config *c)
{
    const struct mds_parallel_config *p = &c->parallel;
    double v = p->virtual_stages > 0 ? (double)p->virtual_stages : 1;
    int64_t batches = c->batch.accumulation, idle = p->pipeline - batches;

    return c->train.prefill > 0 ? (double)mds_max(idle, 0) / (double)batches
                                : (double)(p->pipeline - 1) / ((double)batches * v);
}

static void set_times(const struct mds_config *c, const double s[MDS_TIMES],
                      struct mds_estimate *e)
{
    double passes;

    e->compute_s = s[MDS_TIME_COMPUTE];
    e->tensor_s = s[MDS_TIME_TENSOR];
    e->sequence_s = s[MDS_TIME_SEQUENCE];
    e->data_s = s[MDS_TIME_DATA];
    e->pipeline_s = s[MDS_TIME_PIPELINE];
    e->host_s = s[MDS_TIME_HOST];
    passes = e->compute_s + e->tensor_s + e->sequence_s + e->pipeline_s;
    e->idle_s = passes * idle_share(c);
    e->step_s = passes + e->data_s + e->host_s + e->idle_s;
}

static enum mds_rc predict_rank(const struct prediction *p, int rank,
                                struct mds_estimate *e)
{
    const struct mds_machine *m = p->m;
    const struct mds_dry_rank k = {p->world, rank, p->per_node, m};
    static enum mds_rc (*const dry_run[])(const struct mds_config *,
                                          const struct mds_dry_rank *,
                                          struct mds_dry_step *) = {
        mds_plan_dry_run, mds_plan_dry_run_extrapolated, mds_plan_dry_run_lower_bound};
    struct mds_dry_step r;

    MDS_TRY(dry_run[p->how](p->c, &k, &r));
    *e = (struct mds_estimate){.memory = r.memory,
                               .untracked = untracked_bytes(m, &r),
                               .host_bytes = r.host_bytes};
    e->device_bytes = e->memory.total_peak + e->untracked.libraries +
                      e->untracked.messages + e->untracked.attention;
    set_times(p->c, r.prompt_s, e);
    e->prompt_s = e->step_s;
    set_times(p->c, r.s, e);
    return MDS_OK;
}

/* Parameters of the blocks of a pipeline stage, all model chunks together. */
static int64_t params_of_stage(const struct mds_config *c, int stage)
{
    const struct mds_parallel_config *p = &c->parallel;
    int chunks = p->virtual_stages > 1 ? (int)p->virtual_stages : 1, first, n;
    int64_t sum = 0;

    for (int i = 0; i < chunks; i++)
        if (!mds_pipe_layers((int)c->model.layers, (int)p->pipeline, chunks, stage, i,
                             &first, &n))
            for (int l = first; l < first + n; l++)
                sum += mds_model_block_params(&c->model, l);
    return sum;
}

/* The first stage saves the most activations, the last has the logits, and between them
 * the first with the most parameters, if it has more than the first stage. */
int mds_predict_ranks(const struct mds_config *c, int world,
                      int rank[MDS_PREDICT_RANKS])
{
    int stages = (int)c->parallel.pipeline, fullest = 0, n = 0;

    for (int s = 1; s < stages - 1; s++)
        if (params_of_stage(c, s) > params_of_stage(c, fullest))
            fullest = s;
    rank[n++] = 0;
    if (stages > 1)
        rank[n++] = world - 1;
    if (fullest > 0)
        rank[n++] = world / stages * fullest;
    return n;
}

enum mds_rc mds_predict_as(enum mds_predict_how how, const struct mds_config *c,
                           int world, int per_node, const struct mds_machine *m,
                           struct mds_estimate *out)
{
    const struct prediction p = {c, m, world, per_node, how};
    struct mds_estimate e, other;
    int rank[MDS_PREDICT_RANKS], n = mds_predict_ranks(c, world, rank);

    MDS_TRY(predict_rank(&p, rank[0], &e));
    for (int i = 1; i < n; i++) {
        MDS_TRY(predict_rank(&p, rank[i], &other));
        keep_worse_of(&e, &other);
    }
    e.extrapolated = how != MDS_PREDICT_FULL && mds_plan_can_extrapolate(c);
    set_memory_limits(m, per_node, &e);
    set_throughput(c, world, &e);
    *out = e;
    return MDS_OK;
}

enum mds_rc mds_predict(const struct mds_config *c, int world, int per_node,
                        const struct mds_machine *m, struct mds_estimate *out)
{
    return mds_predict_as(MDS_PREDICT_FULL, c, world, per_node, m, out);
}

enum mds_rc mds_predict_level(struct mds_config *c, int world, int per_node,
                              const struct mds_machine *m, struct mds_estimate *e,
                              int *level)
{
    const struct mds_config asked = *c;
    int next = 0;

    *level = -1;
    if (!c->train.act_is_open)
        return mds_predict(c, world, per_node, m, e);
    while (mds_config_next_level(&asked, &next, c)) {
        *level = next - 1;
        MDS_TRY(mds_predict(c, world, per_node, m, e));
        if (e->fits)
            break;
    }
    return MDS_OK;
}
