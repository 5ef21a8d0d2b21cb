#include "plan/predict.h"
#include "base/alloc.h"
#include "engine/engine.h"
#include "metrics/flops.h"

#include <math.h>
#include <stdlib.h>

enum { GROUPS = 7 };

/* What one step left in the ledgers. */
struct rehearsal {
    struct mds_ledger ledger;
    struct mds_comm_stats comm[GROUPS];
    int64_t host_bytes;
    int64_t offloaded_bytes; /* of host_bytes: optimizer states and resting weights */
};

/* Where a rank's group lies among the nodes. */
struct span {
    int size, stride; /* ranks, and how far apart in rank order */
};

/* ---- the dry run ---- */

static void list_groups(const struct mds_groups *g, const struct mds_comm *of[GROUPS])
{
    of[0] = g->tp;
    of[1] = g->ulysses;
    of[2] = g->ring;
    of[3] = g->data;
    of[4] = g->pipe;
    of[5] = g->ends;
    of[6] = g->world;
}

/* a -= b, of what is counted. */
static void subtract(struct mds_ledger *a, const struct mds_ledger *b)
{
    for (int i = 0; i < MDS_OPS; i++) {
        a->op[i].calls -= b->op[i].calls;
        a->op[i].cost.flops -= b->op[i].cost.flops;
        a->op[i].cost.bytes -= b->op[i].cost.bytes;
    }
}

static void subtract_stats(struct mds_comm_stats *a, const struct mds_comm_stats *b)
{
    for (int k = 0; k < MDS_COMM_KINDS; k++) {
        a->of[k].calls -= b->of[k].calls;
        a->of[k].wire_bytes -= b->of[k].wire_bytes;
    }
}

/* The step alone: what the start of a run does is not in it. */
static enum mds_rc step(struct mds_engine *e, const struct mds_config *c,
                        struct mds_dev *dev, const struct mds_groups *g,
                        struct rehearsal *out)
{
    size_t rows = (size_t)(c->batch.accumulation * c->batch.micro);
    int32_t *token =
        mds_zalloc(rows * (size_t)(c->model.seq_length + 1), sizeof *token);
    const struct mds_comm *groups[GROUPS];
    struct mds_comm_stats before[GROUPS];
    struct mds_step_result result;
    struct mds_ledger start;
    enum mds_rc rc;

    if (!token)
        return MDS_EMEM;
    rc = mds_zero_start(mds_engine_zero(e), 0);
    list_groups(g, groups);
    start = *mds_dev_ledger(dev);
    for (int i = 0; i < GROUPS; i++)
        before[i] = *mds_comm_stats(groups[i]);
    if (!rc)
        rc = mds_engine_backward(e, 1, 0, token, &result);
    if (!rc)
        rc = mds_engine_update(e, 0);
    free(token);
    out->ledger = *mds_dev_ledger(dev);
    subtract(&out->ledger, &start);
    for (int i = 0; i < GROUPS; i++) {
        out->comm[i] = *mds_comm_stats(groups[i]);
        subtract_stats(&out->comm[i], &before[i]);
    }
    return rc;
}

static enum mds_rc rehearse(const struct mds_config *c, const struct mds_groups *g,
                            struct rehearsal *out)
{
    const struct mds_engine_need plenty = {.state_bytes = INT64_C(1) << 52,
                                           .step_bytes = INT64_C(1) << 52,
                                           .host_bytes = INT64_C(1) << 52};
    const struct mds_dev_spec dry = {.name = "dry"};
    struct mds_engine_spec spec = {
        .config = c, .groups = g, .need = &plenty, .threads = 1};
    struct mds_engine *e = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_dev_create(&dry, &spec.dev));
    rc = mds_dev_create(&dry, &spec.host);
    if (rc)
        goto destroy_dev;
    rc = mds_engine_create(&spec, &e);
    if (!rc)
        rc = step(e, c, spec.dev, g, out);
    if (!rc) {
        struct mds_zero_host z = mds_zero_host_bytes(mds_engine_zero(e));

        out->offloaded_bytes = z.memory_bytes + z.file_bytes;
        out->host_bytes = z.memory_bytes + mds_dev_ledger(spec.host)->memory.total_peak;
    }
    mds_engine_destroy(e);
    mds_dev_destroy(spec.host);
destroy_dev:
    mds_dev_destroy(spec.dev);
    return rc;
}

/* ---- time ---- */

static double bigger(double a, double b)
{
    return a > b ? a : b;
}

/* What an operation that computes is bound by, if not by memory. */
static double flops_rate(const struct mds_machine *m, const struct mds_config *c,
                         int op)
{
    double narrow = m->rates.matmul_flops, wide = m->rates.matmul_fp32_flops;
    int is_wide = c->train.type == MDS_TYPE_F32;

    if (op == MDS_OP_ATTENTION_FWD || op == MDS_OP_ATTENTION_BWD)
        return m->rates.attention_flops * (is_wide ? wide / narrow : 1);
    return is_wide ? wide : narrow;
}

static int is_copy(int op)
{
    return op == MDS_OP_COPY_IN || op == MDS_OP_COPY_OUT;
}

static double compute_s(const struct mds_machine *m, const struct mds_config *c,
                        const struct mds_ledger *l)
{
    double s = 0;

    for (int op = 0; op < MDS_OPS; op++)
        if (!is_copy(op))
            s += bigger(l->op[op].cost.flops / flops_rate(m, c, op),
                        l->op[op].cost.bytes / m->rates.memory_bytes_s) +
                 (double)l->op[op].calls * m->rates.call_s;
    return s;
}

/* Copies over the link (charged at both ends), and the host's own update, which reads
 * and writes what was offloaded once. */
static double host_s(const struct mds_machine *m, int per_node,
                     const struct rehearsal *r)
{
    double bytes = (r->ledger.op[MDS_OP_COPY_IN].cost.bytes +
                    r->ledger.op[MDS_OP_COPY_OUT].cost.bytes) /
                   2;

    return bytes / m->links.host_bytes_s +
           2 * (double)r->offloaded_bytes * per_node / m->links.host_memory_bytes_s;
}

/* Of a group's members, how many share a node. */
static int in_a_node(struct span s, int per_node)
{
    int n = per_node / s.stride;

    if (n < 1)
        return 1;
    return n < s.size ? n : s.size;
}

/* Bytes a second of one rank.  Inside a node: its link.  Beyond: the node's adapters
 * are shared by the groups that cross there; of a ring's bytes each node sends what one
 * member does, of an all-to-all what all do. */
static double link_rate(const struct mds_machine *m, struct span s, int per_node,
                        enum mds_comm_kind kind)
{
    int here = in_a_node(s, per_node);
    double share, beyond;

    if (here == s.size)
        return m->links.gpu_bytes_s;
    share = m->links.net_bytes_s / per_node;
    if (kind == MDS_COMM_ALL_TO_ALL) {
        beyond = (double)(s.size - here) / (s.size - 1);
        return share / beyond;
    }
    if (kind != MDS_COMM_SEND && kind != MDS_COMM_RECV)
        share *= here;
    return share < m->links.gpu_bytes_s ? share : m->links.gpu_bytes_s;
}

static double group_s(const struct mds_machine *m, struct span s, int per_node,
                      const struct mds_comm_stats *stats)
{
    double hops = s.size > 1 ? ceil(log2(s.size)) : 0, sum = 0;

    for (int k = 0; k < MDS_COMM_KINDS; k++)
        sum += (double)stats->of[k].wire_bytes /
                   link_rate(m, s, per_node, (enum mds_comm_kind)k) +
               (double)stats->of[k].calls * hops * m->links.latency_s;
    return sum;
}

/* Times of a rank, all but the waiting for other stages. */
static void time_rank(const struct mds_machine *m, const struct mds_config *c,
                      int per_node, const struct rehearsal *r, struct mds_estimate *e)
{
    const struct mds_parallel_config *p = &c->parallel;
    int tp = (int)p->tensor, u = (int)p->ulysses, ring = (int)p->ring;
    int stage = tp * u * ring * (int)p->data;
    const struct span spans[GROUPS] = {
        {tp, 1},
        {u, tp},
        {ring, tp * u},
        {u * ring * (int)p->data, tp},
        {(int)p->pipeline, stage},
        {p->pipeline > 1 ? 2 : 1, stage},
        {stage * (int)p->pipeline, 1},
    };
    double s[GROUPS];

    for (int i = 0; i < GROUPS; i++)
        s[i] = group_s(m, spans[i], per_node, &r->comm[i]);
    e->compute_s = compute_s(m, c, &r->ledger);
    e->tensor_s = s[0];
    e->sequence_s = s[1] + s[2];
    e->data_s = s[3] + s[6];
    if (c->train.overlap_grad_reduce)
        e->data_s = bigger(0, e->data_s - e->compute_s / 2);
    e->pipeline_s = s[4] + s[5];
    e->host_s = host_s(m, per_node, r);
}

/* A stage idles for (p-1)/(m v) of its work: Narayanan et al. 2021, arXiv:2104.04473,
 * section 2.2. */
static void add_idle(const struct mds_config *c, struct mds_estimate *e)
{
    const struct mds_parallel_config *p = &c->parallel;
    double v = p->virtual_stages > 0 ? (double)p->virtual_stages : 1;
    double passes = e->compute_s + e->tensor_s + e->sequence_s + e->pipeline_s;

    e->idle_s =
        passes * (double)(p->pipeline - 1) / ((double)c->batch.accumulation * v);
    e->step_s = passes + e->data_s + e->host_s + e->idle_s;
}

/* ---- both ---- */

int64_t mds_device_limit(const struct mds_machine *m, int per_node)
{
    return m->node.gpus > 0 ? m->gpu.memory : mds_host_limit(m, per_node);
}

/* A tenth is the system's.  A machine without a queue is this host, whatever the
 * profile says. */
int64_t mds_host_limit(const struct mds_machine *m, int per_node)
{
    if (m->batch.scheduler == MDS_SCHEDULER_NONE && m->node.count == 1)
        return mds_host_memory_available() / per_node;
    return m->node.memory / 10 * 9 / per_node;
}

static void limit(const struct mds_machine *m, int per_node, struct mds_estimate *e)
{
    e->device_limit = mds_device_limit(m, per_node);
    e->host_limit = mds_host_limit(m, per_node);
    e->fits = e->device_bytes <= e->device_limit &&
              e->host_bytes + (m->node.gpus > 0 ? 0 : e->device_bytes) <= e->host_limit;
}

static void rate(const struct mds_config *c, int world, struct mds_estimate *e)
{
    static const enum mds_flops_recompute recompute[] = {
        [MDS_RECOMPUTE_NONE] = MDS_FLOPS_RECOMPUTE_NONE,
        [MDS_RECOMPUTE_SELECTIVE] = MDS_FLOPS_RECOMPUTE_SELECTIVE,
        [MDS_RECOMPUTE_FULL] = MDS_FLOPS_RECOMPUTE_FULL,
    };
    const struct mds_model_config *m = &c->model;
    const struct mds_flops_model f = {.layers = m->layers,
                                      .hidden = m->hidden,
                                      .heads = m->heads,
                                      .kv_heads = m->kv_heads,
                                      .head_dim = m->head_dim,
                                      .ffn = m->ffn_hidden,
                                      .swiglu = m->swiglu,
                                      .seq = m->seq_length,
                                      .padded_vocab = m->padded_vocab};
    int64_t tokens = c->batch.global * m->seq_length;

    e->parameters = mds_flops_matmul_params(&f);
    e->tokens_s = (double)tokens / e->step_s / world;
    e->model_flops = mds_flops_megatron(&f, tokens, recompute[c->train.recompute]) /
                     e->step_s / world;
}

/* Take over of `of` what is worse. */
static void merge(struct mds_estimate *e, const struct mds_estimate *of)
{
    struct mds_estimate worse = of->step_s > e->step_s ? *of : *e;
    const struct mds_estimate *larger = of->device_bytes > e->device_bytes ? of : e;

    worse.memory = larger->memory;
    worse.device_bytes = larger->device_bytes;
    if (of->host_bytes > e->host_bytes)
        worse.host_bytes = of->host_bytes;
    *e = worse;
}

static enum mds_rc predict_rank(const struct mds_config *c, int world, int rank,
                                int per_node, const struct mds_machine *m,
                                struct mds_estimate *e)
{
    struct mds_groups groups = {0};
    struct rehearsal r = {0};
    enum mds_rc rc;

    MDS_TRY(mds_groups_create(&c->parallel, world, rank, NULL, &groups));
    rc = rehearse(c, &groups, &r);
    mds_groups_fini(&groups);
    if (rc)
        return rc;
    *e = (struct mds_estimate){.memory = r.ledger.memory,
                               .device_bytes =
                                   r.ledger.memory.total_peak + m->overhead.bytes,
                               .host_bytes = r.host_bytes};
    time_rank(m, c, per_node, &r, e);
    add_idle(c, e);
    return MDS_OK;
}

enum mds_rc mds_predict(const struct mds_config *c, int world, int per_node,
                        const struct mds_machine *m, struct mds_estimate *out)
{
    struct mds_estimate e, last;

    /* The first stage keeps the most activations, the last has the logits. */
    MDS_TRY(predict_rank(c, world, 0, per_node, m, &e));
    if (c->parallel.pipeline > 1) {
        MDS_TRY(predict_rank(c, world, world - 1, per_node, m, &last));
        merge(&e, &last);
    }
    limit(m, per_node, &e);
    rate(c, world, &e);
    *out = e;
    return MDS_OK;
}
