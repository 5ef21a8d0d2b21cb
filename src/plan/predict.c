#include "plan/predict.h"
#include "engine/engine.h"
#include "metrics/flops.h"
#include "pipeline/split.h"
#include "plan/time.h"

/* ---- the dry run ---- */

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
static enum mds_rc step(struct mds_engine *e, struct mds_dev *dev,
                        const struct mds_groups *g, struct mds_rehearsal *out)
{
    const struct mds_comm *groups[MDS_GROUPS];
    struct mds_comm_stats before[MDS_GROUPS];
    struct mds_step_result result;
    struct mds_ledger start;
    enum mds_rc rc;

    rc = mds_zero_start(mds_engine_zero(e), 0);
    mds_groups_list(g, groups);
    start = *mds_dev_ledger(dev);
    for (int i = 0; i < MDS_GROUPS; i++)
        before[i] = *mds_comm_stats(groups[i]);
    if (!rc)
        rc = mds_engine_backward(e, 1, 0, NULL, &result);
    if (!rc)
        rc = mds_engine_update(e, 0);
    out->ledger = *mds_dev_ledger(dev);
    subtract(&out->ledger, &start);
    for (int i = 0; i < MDS_GROUPS; i++) {
        out->comm[i] = *mds_comm_stats(groups[i]);
        subtract_stats(&out->comm[i], &before[i]);
    }
    return rc;
}

static enum mds_rc rehearse(const struct mds_config *c, const struct mds_groups *g,
                            struct mds_rehearsal *out)
{
    const struct mds_dev_spec dry = {.name = "dry"};
    struct mds_dev *dev = NULL, *host = NULL;
    struct mds_engine *e = NULL;
    int64_t whole_bytes = 0;
    enum mds_rc rc = mds_dev_create(&dry, &dev);

    if (!rc)
        rc = mds_dev_create(&dry, &host);
    if (!rc)
        rc = mds_engine_create_dry(c, dev, host, g, &e);
    if (!rc)
        rc = step(e, dev, g, out);
    if (!rc)
        rc = mds_engine_whole_bytes(e, &whole_bytes);
    if (!rc) {
        struct mds_zero_host z = mds_zero_host_bytes(mds_engine_zero(e));

        out->host_weights = z.weights;
        out->host_bytes =
            z.memory_bytes + mds_dev_ledger(host)->memory.total_peak + whole_bytes;
    }
    mds_engine_destroy(e);
    mds_dev_destroy(host);
    mds_dev_destroy(dev);
    return rc;
}

/* ---- both ---- */

/* A tenth is the system's.  A machine without a queue is this host, whatever the
 * profile says. */
static int64_t host_limit(const struct mds_machine *m, int per_node)
{
    if (mds_machine_is_here(m))
        return mds_host_memory_available() / per_node;
    return m->node.memory / 10 * 9 / per_node;
}

static int64_t device_limit(const struct mds_machine *m, int per_node)
{
    return m->node.gpus > 0 ? m->gpu.memory : host_limit(m, per_node);
}

static void limit(const struct mds_machine *m, int per_node, struct mds_estimate *e)
{
    e->device_limit = device_limit(m, per_node);
    e->host_limit = host_limit(m, per_node);
    e->host_need = e->host_bytes + (m->node.gpus > 0 ? 0 : e->device_bytes);
    e->fits = e->device_bytes <= e->device_limit && e->host_need <= e->host_limit;
}

double mds_estimate_part(const struct mds_estimate *e)
{
    double device = (double)e->device_bytes / (double)e->device_limit;
    double host = (double)e->host_need / (double)e->host_limit;

    return device > host ? device : host;
}

static void rate(const struct mds_config *c, int world, struct mds_estimate *e)
{
    const struct mds_flops_model f = mds_flops_model_of(&c->model);
    int64_t tokens = c->batch.global * c->model.seq_length;

    e->parameters = mds_flops_matmul_params(&f);
    e->tokens_s = (double)tokens / e->step_s / world;
    e->model_flops =
        mds_flops_megatron(&f, tokens, mds_recompute_of(&c->train)) / e->step_s / world;
}

/* Take over of `of` what is worse. */
static void merge(struct mds_estimate *e, const struct mds_estimate *of)
{
    const struct mds_estimate *quicker = of->step_s > e->step_s ? e : of;
    struct mds_estimate worse = quicker == of ? *e : *of;
    const struct mds_estimate *larger = of->device_bytes > e->device_bytes ? of : e;

    worse.step_s += quicker->idle_s - worse.idle_s; /* it idles while others work */
    worse.idle_s = quicker->idle_s;
    worse.memory = larger->memory;
    worse.beside = larger->beside;
    worse.device_bytes = larger->device_bytes;
    if (of->host_bytes > e->host_bytes)
        worse.host_bytes = of->host_bytes;
    *e = worse;
}

static struct mds_beside beside(const struct mds_machine *m, int per_node,
                                const struct mds_groups *g, const struct mds_ledger *l)
{
    const struct mds_comm_channels n = {(int)m->overhead.channels,
                                        (int)m->overhead.peer_channels};

    if (m->node.gpus == 0)
        return (struct mds_beside){.libraries = m->overhead.bytes};
    return (struct mds_beside){.libraries = m->overhead.bytes,
                               .messages = mds_groups_nccl_bytes(g, per_node, n),
                               .attention = l->scratch_bytes};
}

static enum mds_rc predict_rank(const struct mds_config *c, int world, int rank,
                                int per_node, const struct mds_machine *m,
                                struct mds_estimate *e)
{
    struct mds_groups groups = {0};
    struct mds_rehearsal r = {0};
    enum mds_rc rc;

    MDS_TRY(mds_groups_create(&c->parallel, world, rank, NULL, &groups));
    mds_groups_spans(&groups, r.span);
    rc = rehearse(c, &groups, &r);
    if (!rc)
        *e = (struct mds_estimate){.memory = r.ledger.memory,
                                   .beside = beside(m, per_node, &groups, &r.ledger),
                                   .host_bytes = r.host_bytes};
    mds_groups_fini(&groups);
    if (rc)
        return rc;
    e->device_bytes = e->memory.total_peak + e->beside.libraries + e->beside.messages +
                      e->beside.attention;
    mds_plan_time(m, c, per_node, &r, e);
    return MDS_OK;
}

/* Blocks of a stage. */
static int64_t blocks_of(const struct mds_config *c, int stage)
{
    const struct mds_parallel_config *p = &c->parallel;
    int chunks = p->virtual_stages > 1 ? (int)p->virtual_stages : 1, first, n;
    int64_t sum = 0;

    for (int i = 0; i < chunks; i++)
        if (!mds_pipe_layers((int)c->model.layers, (int)p->pipeline, chunks, stage, i,
                             &first, &n))
            sum += n;
    return sum;
}

/* The first stage keeps the most activations, the last has the logits, and of others
 * the first that has more blocks than those before it, the most of all. */
int mds_predict_ranks(const struct mds_config *c, int world,
                      int rank[MDS_PREDICT_RANKS])
{
    int stages = (int)c->parallel.pipeline, fullest = 0, n = 0;

    for (int s = 1; s < stages - 1; s++)
        if (blocks_of(c, s) > blocks_of(c, fullest))
            fullest = s;
    rank[n++] = 0;
    if (stages > 1)
        rank[n++] = world - 1;
    if (fullest > 0)
        rank[n++] = world / stages * fullest;
    return n;
}

enum mds_rc mds_predict(const struct mds_config *c, int world, int per_node,
                        const struct mds_machine *m, struct mds_estimate *out)
{
    struct mds_estimate e, other;
    int rank[MDS_PREDICT_RANKS], n = mds_predict_ranks(c, world, rank);

    MDS_TRY(predict_rank(c, world, rank[0], per_node, m, &e));
    for (int i = 1; i < n; i++) {
        MDS_TRY(predict_rank(c, world, rank[i], per_node, m, &other));
        merge(&e, &other);
    }
    limit(m, per_node, &e);
    rate(c, world, &e);
    *out = e;
    return MDS_OK;
}
