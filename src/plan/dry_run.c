/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/dry_run.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "engine/engine.h"
#include "optim/muon.h"
#include "plan/rates.h"

#include <stdlib.h>
#include <string.h>

/* ---- a dry run ---- */

/* The forward pass of a global batch. */
static enum mds_rc evaluate(struct mds_engine *e, const struct mds_config *c)
{
    struct mds_kind_losses *losses =
        mds_zalloc((size_t)c->batch.accumulation, sizeof *losses);
    enum mds_rc rc =
        losses ? mds_engine_eval(e, NULL, c->batch.accumulation, losses) : MDS_EMEM;

    free(losses);
    return rc;
}

/* A step of so many micro-batches; of a run that only evaluates, an evaluation. */
static enum mds_rc step_or_evaluate(struct mds_engine *e, const struct mds_config *c,
                                    int64_t micro_batches)
{
    struct mds_step_result result;

    if (c->train.skip_train)
        return evaluate(e, c);
    MDS_TRY(mds_engine_backward(e, 1, 0, micro_batches, NULL, &result));
    return mds_engine_update(e, 0);
}

static enum mds_time time_of(unsigned axes)
{
    switch (axes) {
    case MDS_AXIS_TENSOR:
        return MDS_TIME_TENSOR;
    case MDS_AXIS_ULYSSES:
    case MDS_AXIS_RING:
        return MDS_TIME_SEQUENCE;
    case MDS_AXIS_PIPELINE:
    case MDS_GROUP_ENDS:
        return MDS_TIME_PIPELINE;
    default:
        return MDS_TIME_DATA;
    }
}

/* What the clock has counted so far. */
static void read_clock(struct mds_dev *dev, const struct mds_groups *g,
                       double s[MDS_TIMES])
{
    const struct mds_dev_clock *clock = mds_dev_clock(dev);

    memset(s, 0, MDS_TIMES * sizeof *s);
    s[MDS_TIME_COMPUTE] = clock->compute_s;
    s[MDS_TIME_HOST] = clock->host_s;
    for (int i = 0; i < g->n; i++)
        s[time_of(g->made[i].axes)] += mds_comm_exposed_s(g->made[i].comm);
}

/* A step begins with what the update before it left in flight; at ZeRO stage 3 also
 * with the order of weights, which a step of two micro-batches learns. */
static enum mds_rc warm_up(struct mds_engine *e, const struct mds_config *c,
                           const struct mds_groups *g)
{
    const struct mds_parallel_config *p = &c->parallel;
    int shards = mds_groups_size(g, MDS_AXES_TOKENS) > 1 ? (int)p->zero_stage : 0;

    if (c->train.skip_train)
        return MDS_OK;
    if (shards == 3)
        return step_or_evaluate(
            e, c, mds_min(mds_max(p->pipeline, 2), c->batch.accumulation));
    return shards > 0 || p->offload_optimizer != MDS_PLACE_DEVICE
               ? mds_engine_update(e, 0)
               : MDS_OK;
}

/* n tokens from `first` on, of all batches that are on their way: adds `times` that. */
static enum mds_rc time_tokens(struct mds_engine *e, const struct mds_config *c,
                               struct mds_dev *dev, const struct mds_groups *g,
                               int64_t first, int64_t n, double times,
                               double s[MDS_TIMES])
{
    const struct mds_engine_tokens t = {.B = c->batch.micro, .first = first, .n = n};
    double before[MDS_TIMES], after[MDS_TIMES];

    read_clock(dev, g, before);
    MDS_TRY(mds_engine_decode(e, &t, NULL));
    MDS_TRY(mds_engine_decode_end(e));
    read_clock(dev, g, after);
    for (int i = 0; i < MDS_TIMES; i++)
        s[i] += times * (double)c->batch.accumulation * (after[i] - before[i]);
    return MDS_OK;
}

/* What takes the most memory; and the times of all pieces of the longest prompt, and of
 * a token in the mean: both grow with what is before them. */
static enum mds_rc generate(struct mds_engine *e, const struct mds_config *c,
                            struct mds_dev *dev, const struct mds_groups *g,
                            struct mds_dry_step *out)
{
    int64_t piece = c->train.prefill, last = c->model.seq_length - 1;
    int64_t prompt = mds_min(mds_max(c->train.prompt, piece), c->model.seq_length);
    double pieces = (double)prompt / (double)piece;

    MDS_TRY(mds_engine_decode_dry(e));
    MDS_TRY(time_tokens(e, c, dev, g, 0, piece, pieces / 2, out->prompt_s));
    MDS_TRY(
        time_tokens(e, c, dev, g, prompt - piece, piece, pieces / 2, out->prompt_s));
    MDS_TRY(time_tokens(e, c, dev, g, mds_min(prompt, last), 1, 0.5, out->s));
    return time_tokens(e, c, dev, g, last, 1, 0.5, out->s);
}

/* Run one step, and time it without what the start of a run does. */
static enum mds_rc run_engine_step(struct mds_engine *e, const struct mds_config *c,
                                   struct mds_dev *dev, const struct mds_groups *g,
                                   int timed, struct mds_dry_step *out)
{
    double before[MDS_TIMES];

    MDS_TRY(mds_zero_init_weights(mds_engine_zero(e), 0));
    if (c->train.prefill > 0)
        return generate(e, c, dev, g, out);
    if (timed)
        MDS_TRY(warm_up(e, c, g));
    read_clock(dev, g, before);
    MDS_TRY(step_or_evaluate(e, c, c->batch.accumulation));
    read_clock(dev, g, out->s);
    for (int i = 0; i < MDS_TIMES; i++)
        out->s[i] -= before[i];
    return MDS_OK;
}

static enum mds_rc dry_run_on_groups(const struct mds_config *c,
                                     const struct mds_dry_rank *k,
                                     const struct mds_groups *g, int timed,
                                     struct mds_dry_step *out)
{
    const struct mds_dev_spec dry = {.name = "dry"};
    struct mds_dev *dev = NULL, *host = NULL;
    struct mds_engine *e = NULL;
    struct mds_rates rates;
    int64_t whole_bytes = 0;
    enum mds_rc rc = mds_dev_create(&dry, &dev);

    if (!rc)
        rc = mds_dev_create(&dry, &host);
    if (!rc)
        rc = mds_engine_create_dry(c, dev, host, g, &e);
    if (!rc && timed)
        mds_rates_set(&rates, k->machine, c, k->per_node, dev, g);
    if (!rc)
        rc = run_engine_step(e, c, dev, g, timed, out);
    if (!rc)
        rc = mds_engine_whole_bytes(e, &whole_bytes);
    if (!rc) {
        out->memory = mds_dev_ledger(dev)->memory;
        out->scratch_bytes = mds_dev_ledger(dev)->scratch_bytes;
        out->host_bytes = mds_zero_host_bytes(mds_engine_zero(e)).memory_bytes +
                          mds_dev_ledger(host)->memory.total_peak + whole_bytes;
    }
    mds_engine_destroy(e);
    mds_dev_destroy(host);
    mds_dev_destroy(dev);
    return rc;
}

static enum mds_rc dry_run(const struct mds_config *c, const struct mds_dry_rank *k,
                           int timed, struct mds_dry_step *out)
{
    const struct mds_comm_channels n = {(int)k->machine->overhead.channels,
                                        (int)k->machine->overhead.peer_channels};
    struct mds_groups groups = {0};
    enum mds_rc rc;

    *out = (struct mds_dry_step){0};
    MDS_TRY(mds_groups_create(&c->parallel, k->world, k->rank, NULL, &groups));
    rc = dry_run_on_groups(c, k, &groups, timed, out);
    if (!rc)
        out->nccl_bytes = mds_groups_nccl_bytes(&groups, k->per_node, n);
    mds_groups_fini(&groups);
    return rc;
}

enum mds_rc mds_plan_dry_run(const struct mds_config *c, const struct mds_dry_rank *k,
                             struct mds_dry_step *out)
{
    return dry_run(c, k, 1, out);
}

/* ---- extrapolation ---- */

static int64_t extrapolate_line(int64_t a, int64_t b, double at)
{
    return a + (int64_t)((double)(b - a) * at);
}

static struct mds_mem_account extrapolate_memory(const struct mds_mem_account *a,
                                                 const struct mds_mem_account *b,
                                                 double at)
{
    struct mds_mem_account out = {0};

    for (int t = 0; t < MDS_MEM_TAGS; t++) {
        out.now[t] = extrapolate_line(a->now[t], b->now[t], at);
        out.peak[t] = extrapolate_line(a->peak[t], b->peak[t], at);
        out.at_total_peak[t] =
            extrapolate_line(a->at_total_peak[t], b->at_total_peak[t], at);
    }
    out.total_now = extrapolate_line(a->total_now, b->total_now, at);
    out.total_peak = extrapolate_line(a->total_peak, b->total_peak, at);
    return out;
}

/* Set *a to the point `at` on the line through a (at 0) and b (at 1).  NCCL's memory
 * does not grow with the model. */
static void extrapolate_step(struct mds_dry_step *a, const struct mds_dry_step *b,
                             double at)
{
    a->memory = extrapolate_memory(&a->memory, &b->memory, at);
    a->scratch_bytes = mds_max(a->scratch_bytes, b->scratch_bytes);
    a->host_bytes = extrapolate_line(a->host_bytes, b->host_bytes, at);
    a->nccl_bytes = mds_max(a->nccl_bytes, b->nccl_bytes);
    for (int i = 0; i < MDS_TIMES; i++) {
        a->s[i] += (b->s[i] - a->s[i]) * at;
        a->prompt_s[i] += (b->prompt_s[i] - a->prompt_s[i]) * at;
    }
}

/* ---- which counts are extrapolated ---- */

/* A count in the configuration in which the step's ledger is linear: the full count,
 * and the two that are run instead.  high 0: the full count is run. */
struct samples {
    int64_t full, low, high;
};

/* Of the full count, from low in units of high - low. */
static double distance(struct samples s)
{
    return (double)(s.full - s.low) / (double)(s.high - s.low);
}

/* Blocks of the fullest stage. */
static int64_t max_blocks(const struct mds_config *c)
{
    return mds_ceil_div(c->model.layers, c->parallel.pipeline);
}

/* For a number of blocks that save something: 0 and `most` blocks are run. */
static struct samples sample_kept(int64_t n, int64_t most)
{
    return (struct samples){n, 0, n > 0 && n < most ? most : 0};
}

static int64_t common_multiple(int64_t n, int64_t m)
{
    return n / mds_gcd(n, m) * m;
}

/* Ranks of a pipeline stage. */
static int64_t stage_ranks(const struct mds_config *c)
{
    const struct mds_parallel_config *p = &c->parallel;

    return p->tensor * p->ulysses * p->ring * p->data;
}

/* After so many blocks everything is as before: those that have one kept input, the
 * units that have the host's buffers in turn (optim/host_update.c, swap.c), blocks
 * with a window and without, or with experts, and those whose matrices are dealt to
 * ranks together (optim/muon.h). */
static int64_t block_period(const struct mds_config *c)
{
    int64_t n = mds_act_group(&c->train.act);

    if (c->parallel.offload_optimizer != MDS_PLACE_DEVICE)
        n = common_multiple(n, 4);
    if (c->optim.kind == MDS_MUON)
        n = common_multiple(n, mds_muon_window(stage_ranks(c)));
    if (c->model.window_skip)
        n = common_multiple(n, c->model.window_skip_freq > 0 ? c->model.window_skip_freq
                                                             : c->model.layers);
    return common_multiple(n, mds_model_expert_period(&c->model));
}

/* If some saved inputs stay on the device and each serves several blocks, the ledger is
 * not linear. */
static int inputs_are_irregular(const struct mds_config *c)
{
    return c->train.act.device_inputs > 0 && mds_act_group(&c->train.act) > 1;
}

/* Blocks of a stage: few, but enough to have a first, a last and some between, and all
 * those that are not in FP8. */
static struct samples sample_blocks(const struct mds_config *c)
{
    const struct mds_fp8_config *f = &c->model.fp8;
    int64_t n = c->model.layers / c->parallel.pipeline, more = block_period(c);
    int64_t apart = f->format && f->first_last_bf16 ? f->start_bf16 + f->end_bf16 : 0;
    int64_t low = mds_round_up(mds_max(more, 2 + apart), more) + n % more;

    if (c->parallel.virtual_stages > 1 || mds_act_slots(&c->train.act, n) < n ||
        (c->train.host_caches > 0 && c->train.host_caches < max_blocks(c)) ||
        2 * low + more >= n)
        return (struct samples){n, 0, 0};
    return (struct samples){n, low, low + more};
}

/* Micro-batches: enough to fill the pipeline, which takes as many as there are
 * stages. */
static struct samples sample_batches(const struct mds_config *c)
{
    int64_t n = c->batch.accumulation, p = c->parallel.pipeline;
    int64_t low = 2 * p + n % p;

    if (c->parallel.virtual_stages > 1 || 2 * low + p >= n)
        return (struct samples){n, 0, 0};
    return (struct samples){n, low, low + p};
}

enum { KEPT_ATTENTION, KEPT_INPUTS, BLOCKS, BATCHES, COUNTS };

static struct samples samples_of(const struct mds_config *c, int what)
{
    switch (what) {
    case KEPT_ATTENTION:
        return sample_kept(c->train.act.keep_attention, max_blocks(c));
    case KEPT_INPUTS:
        /* all but one: with none on the host there are no buffers for copies */
        return sample_kept(c->train.act.device_inputs, max_blocks(c) - 1);
    case BLOCKS:
        return sample_blocks(c);
    default:
        return sample_batches(c);
    }
}

/* Options that mean all blocks, or all but some, still do after the change. */
static void set_block_count(struct mds_config *c, int64_t n)
{
    struct mds_activations *a = &c->train.act;
    int64_t before = max_blocks(c);

    c->model.layers = n * c->parallel.pipeline + c->model.layers % c->parallel.pipeline;
    a->keep_attention = mds_min(a->keep_attention, max_blocks(c));
    a->device_inputs =
        mds_max(mds_min(a->device_inputs, before) - before + max_blocks(c), 0);
}

static struct mds_config config_with_count(const struct mds_config *c, int what,
                                           int64_t n)
{
    struct mds_config out = *c;

    if (what == KEPT_ATTENTION)
        out.train.act.keep_attention = n;
    else if (what == KEPT_INPUTS)
        out.train.act.device_inputs = n;
    else if (what == BLOCKS)
        set_block_count(&out, n);
    else {
        out.batch.global = c->batch.global / c->batch.accumulation * n;
        out.batch.accumulation = n;
    }
    return out;
}

enum mds_rc mds_plan_dry_run_lower_bound(const struct mds_config *c,
                                         const struct mds_dry_rank *k,
                                         struct mds_dry_step *out)
{
    struct samples blocks, batches = samples_of(c, BATCHES);
    struct mds_config part = *c, more;
    struct mds_dry_step other;

    if (batches.high > 0)
        part = config_with_count(&part, BATCHES, batches.low);
    part.train.act.keep_attention = part.train.act.device_inputs = 0;
    blocks = samples_of(&part, BLOCKS);
    if (blocks.high == 0)
        return dry_run(&part, k, 0, out);
    more = config_with_count(&part, BLOCKS, blocks.high);
    part = config_with_count(&part, BLOCKS, blocks.low);
    MDS_TRY(dry_run(&part, k, 0, out));
    MDS_TRY(dry_run(&more, k, 0, &other));
    extrapolate_step(out, &other, distance(blocks));
    return MDS_OK;
}

int mds_plan_can_extrapolate(const struct mds_config *c)
{
    if (inputs_are_irregular(c))
        return 0;
    return samples_of(c, BLOCKS).high > 0 || samples_of(c, BATCHES).high > 0;
}

static enum mds_rc extrapolate_dry_run(const struct mds_config *c,
                                       const struct mds_dry_rank *k, int from,
                                       struct mds_dry_step *out)
{
    struct mds_config low, high;
    struct mds_dry_step other;
    struct samples at = {0};

    while (from < COUNTS && (at = samples_of(c, from)).high == 0)
        from++;
    if (from == COUNTS)
        return mds_plan_dry_run(c, k, out);
    low = config_with_count(c, from, at.low);
    high = config_with_count(c, from, at.high);
    MDS_TRY(extrapolate_dry_run(&low, k, from + 1, out));
    MDS_TRY(extrapolate_dry_run(&high, k, from + 1, &other));
    extrapolate_step(out, &other, distance(at));
    return MDS_OK;
}

enum mds_rc mds_plan_dry_run_extrapolated(const struct mds_config *c,
                                          const struct mds_dry_rank *k,
                                          struct mds_dry_step *out)
{
    return mds_plan_can_extrapolate(c) ? extrapolate_dry_run(c, k, 0, out)
                                       : mds_plan_dry_run(c, k, out);
}
