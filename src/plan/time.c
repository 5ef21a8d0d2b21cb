/* SPDX-License-Identifier: BSD-3-Clause */
/* A roofline over a step's ledger. */
#include "plan/time.h"
#include "base/minmax.h"
#include "kernels/attention.h"
#include "metrics/flops.h"
#include "parallel/tensor_parallel.h"
#include "plan/network.h"

#include <math.h>

/* ---- attention ---- */

static int64_t heads_in_call(const struct mds_config *c)
{
    int64_t groups = mds_max(c->train.act.head_groups, 1);

    return mds_max(c->model.heads / (c->parallel.tensor * c->parallel.ulysses * groups),
                   1);
}

/* Twice the keys that are computed for a query, in the mean.  With a window, cuDNN's
 * backward pass computes the scores of a block of queries with all keys that any of
 * them sees: counting all of them, an H200 reached 490e12 and 517e12 FLOP/s in blocks
 * of 8192 queries (head size 128, bench/results/gpu-2026-11-23.txt). */
static double twice_keys_computed(const struct mds_flops_model *f, int64_t window,
                                  double block)
{
    double row = (double)f->seq, length = row * f->seen.global;

    if (block == 0)
        return row * (window > 0 ? f->seen.local : f->seen.global);
    return 2 * (block + (double)window * (1 - block / length));
}

/* Queries in a call of the backward pass with a window, or 0: all keys of a query that
 * it sees, and no others, are computed.  So it is by the kernels for compute capability
 * 9.0. */
static double window_block(const struct mds_machine *m, const struct mds_config *c,
                           const struct mds_flops_model *f, int64_t window,
                           int backward)
{
    double length = (double)f->seq * f->seen.global;
    const struct mdsk_attention_shape s = {
        .A = heads_in_call(c), .Sq = (int64_t)length, .window = window};

    if (!backward || window == 0 || (double)window >= length || m->node.gpus == 0 ||
        m->gpu.capability == 9.0)
        return 0;
    return (double)mdsk_attention_window_bwd_block(&s);
}

/* The launches of a block's call, and sums of its keys' gradients, which nothing hides:
 * 27 to 69 us on an H200 (bench/results/gpu-2026-11-24.txt). */
static double launches_per_flop_s(const struct mds_machine *m,
                                  const struct mds_config *c,
                                  const struct mds_flops_model *f, double block,
                                  double keys)
{
    const double launches = 8, flops_of_score = 10;

    return launches * m->rates.call_s /
           (flops_of_score * (double)(heads_in_call(c) * f->head_dim) * block * keys);
}

/* The ledger counts whole rows, but packed documents do not attend to each other: a row
 * takes as long as its tokens in sequences of the documents' mean length.  FLOP/s are
 * those of a causal sequence in which a query sees as many keys as in one call.  With a
 * window that is all of them.  Without one, ring attention works on chunks of half a
 * rank's share, most of them with all keys of another: as many as in a causal sequence
 * of the share's length. */
double mds_plan_attention_s(const struct mds_machine *m, const struct mds_config *c,
                            double flops, int backward)
{
    const struct mds_flops_model f = mds_flops_model_of(c);
    const struct mds_pairs row = mds_pairs_whole_row(f.seq, f.window);
    const double layers[2] = {(double)(f.layers - f.local_layers),
                              (double)f.local_layers};
    const int64_t window[2] = {0, f.window};
    double counted = (double)f.seq * (layers[0] * row.global + layers[1] * row.local);
    double s = 0;

    for (int i = 0; i < 2; i++) {
        double block = window_block(m, c, &f, window[i], backward);
        double keys = twice_keys_computed(&f, window[i], block);
        double in_call = window[i] > 0 ? keys : keys / (double)c->parallel.ring;
        double per_flop =
            1 / mds_machine_attention_flops(m, (double)f.head_dim, in_call, backward);

        if (block > 0)
            per_flop += launches_per_flop_s(m, c, &f, block, keys / 2);
        s += layers[i] * flops / counted * keys * per_flop;
    }
    return s;
}

/* ---- a rank ---- */

/* Seconds of an operation that is not memory-bound. */
static double flops_s(const struct mds_machine *m, const struct mds_config *c,
                      double flops, int op)
{
    double narrow = m->rates.matmul_flops, wide = m->rates.matmul_fp32_flops, s;

    if (op == MDS_OP_ATTENTION_FWD || op == MDS_OP_ATTENTION_BWD)
        s = mds_plan_attention_s(m, c, flops, op == MDS_OP_ATTENTION_BWD);
    else if (op == MDS_OP_FP8_GEMM && m->rates.matmul_fp8_flops > 0)
        s = flops / m->rates.matmul_fp8_flops;
    else
        s = flops / narrow;
    return c->train.type == MDS_TYPE_F32 ? s * narrow / wide : s;
}

static int is_copy(int op)
{
    return op == MDS_OP_COPY_IN || op == MDS_OP_COPY_OUT;
}

static double op_s(const struct mds_machine *m, const struct mds_config *c,
                   const struct mds_ledger *l, int op)
{
    return fmax(flops_s(m, c, l->op[op].cost.flops, op),
                l->op[op].cost.bytes / m->rates.memory_bytes_s) +
           (double)l->op[op].calls * m->rates.call_s;
}

static double compute_s(const struct mds_machine *m, const struct mds_config *c,
                        const struct mds_ledger *l)
{
    double s = 0;

    for (int op = 0; op < MDS_OPS; op++)
        if (!is_copy(op))
            s += op_s(m, c, l, op);
    return s;
}

static const struct mds_traffic *traffic_along(const struct mds_dry_step *r,
                                               unsigned axes)
{
    const struct mds_traffic *t = r->traffic;

    while (t->axes != axes)
        t++;
    return t;
}

static double group_s(const struct mds_network *net, const struct mds_dry_step *r,
                      unsigned axes)
{
    const struct mds_traffic *t = traffic_along(r, axes);

    return mds_network_s(net, t->span, &t->comm);
}

/* What of s seconds of messages shows behind `cover` seconds of computing: all that
 * does not fit, and a part of what does, for NCCL's kernels take some of the GPU. */
static double exposed_s(double s, double cover, double part)
{
    return s > cover ? s - cover + cover * part : s * part;
}

/* Of messages behind the work of others, and of those behind the products of their own
 * other chunks, which are short.  Source: steps on one, two and four H200,
 * bench/results/plan-2026-11-21.txt, tests/unit/predict.c. */
static const double exposed_beside = 0.35, between_chunks = 0.6;

/* Of a step's computing, the forward passes: half of the backward ones.  Full recompute
 * makes one more. */
static double forward_s(const struct mds_config *c, double compute_s)
{
    return compute_s / (mds_recompute_of(&c->train.act) == MDS_RECOMPUTE_FULL ? 4 : 3);
}

/* Number of chunks in which tensor ranks exchange the rows of a micro-batch or tile. */
static int tensor_chunks(const struct mds_config *c)
{
    int64_t ranks = c->parallel.ulysses * c->parallel.ring;
    int64_t rows = c->batch.micro * c->model.seq_length / ranks;
    int64_t tile = c->train.act.sequence_tile;
    int64_t e = c->train.type == MDS_TYPE_F32 ? 4 : 2;

    rows = tile > 0 && tile < rows ? tile : rows;
    return mds_tp_chunks(c->parallel.tensor_chunks, rows * c->model.hidden * e);
}

/* What tensor ranks exchange.  Of a block's messages, of one size each, these wait for
 * nobody (docs/adr/0011): with Megatron's sequence parallelism two gathers and two
 * reductions backward, of four forward and six backward; without it the two reductions
 * backward, of four.  They go behind weight gradients, a third of the computing or
 * less.  The others travel in chunks behind the products of others (docs/adr/0014), in
 * tiles of the sequence half of them. */
static double tensor_s(const struct mds_config *c, double all, double compute_s)
{
    double forward = c->parallel.sequence_parallel ? 4 : 2;
    double backward = c->parallel.sequence_parallel ? 6 : 2;
    double behind = c->parallel.sequence_parallel ? 4 : 2, of = forward + backward;
    double weights = forward_s(c, compute_s), others = 1 - 1.0 / tensor_chunks(c);
    double chunked;

    if (mds_recompute_of(&c->train.act) == MDS_RECOMPUTE_FULL)
        of += forward - 1; /* recompute leaves out the MLP's last reduction */
    behind *= all / of;
    chunked = (all - behind) * (c->train.act.sequence_tile > 0 ? 0.5 : 1) * others;
    return all - behind - chunked + exposed_s(behind, weights, exposed_beside) +
           exposed_s(chunked, (compute_s - weights) * others, between_chunks);
}

/* Keys and values move around the ring, overlapped with attention on those received. */
static double ring_s(const struct mds_machine *m, const struct mds_config *c,
                     const struct mds_ledger *l, double all)
{
    double rounds = (double)c->parallel.ring;
    double attention =
        op_s(m, c, l, MDS_OP_ATTENTION_FWD) + op_s(m, c, l, MDS_OP_ATTENTION_BWD);

    return exposed_s(all, attention * (rounds - 1) / rounds, exposed_beside);
}

/* Gradients and weights.  Sums travel behind the backward pass; weights that are
 * gathered after the update (below stage 3) behind the first forward pass, at stage 3
 * ahead of the blocks that need them. */
static double data_s(const struct mds_network *net, const struct mds_config *c,
                     const struct mds_traffic *t, double compute_s)
{
    double all = mds_network_s(net, t->span, &t->comm);
    double gather =
        mds_network_collective_s(net, t->span, &t->comm, MDS_COMM_ALL_GATHER);
    double forward = forward_s(c, compute_s);

    if (!c->train.overlap_grad_reduce)
        return all;
    if (c->parallel.zero_stage == 3)
        return exposed_s(all, compute_s, exposed_beside);
    return exposed_s(all - gather, compute_s - forward, exposed_beside) +
           exposed_s(gather, forward / (double)c->batch.accumulation, exposed_beside);
}

/* Rows that go to experts of other ranks, and back, with nothing beside them; and what
 * ranks with the same experts exchange of these. */
static double experts_s(const struct mds_network *net, const struct mds_config *c,
                        const struct mds_dry_step *r, double compute_s)
{
    if (c->parallel.expert == 1)
        return 0;
    return group_s(net, r, MDS_AXIS_EXPERT) + group_s(net, r, MDS_AXES_STAGE_EXPERTS) +
           data_s(net, c, traffic_along(r, MDS_AXES_SAME_EXPERTS), compute_s);
}

/* Whether states that are elsewhere come to the device for their update, with nothing
 * beside it (docs/adr/0043). */
static int states_come_and_go(const struct mds_config *c)
{
    return c->optim.kind == MDS_MUON &&
           c->parallel.offload_optimizer != MDS_PLACE_DEVICE;
}

/* Bytes a second that all cores of a node read and write. */
static double cores_rate(const struct mds_machine *m)
{
    return fmin(m->links.core_bytes_s * (double)m->node.cores,
                m->links.host_memory_bytes_s);
}

/* The host's own update, with a rank's share of the cores and of their memory: of a
 * weight three states, a gradient and what is rounded, 18 bytes, are written and
 * read; of states in a file 12 (8 of a matrix of Muon's) pass the node's disk both ways
 * meanwhile. */
static double update_s(const struct mds_machine *m, const struct mds_config *c,
                       int per_node, const struct mds_dry_step *r)
{
    double weights = (double)r->host_weights * per_node;
    double disk =
        c->parallel.offload_optimizer == MDS_PLACE_NVME
            ? 2 * (states_come_and_go(c) ? 8 : 12) * weights / m->links.disk_bytes_s
            : 0;

    if (states_come_and_go(c))
        return disk;
    return fmax(2 * 18 * weights / cores_rate(m), disk);
}

/* What shows of an update of s seconds behind the next forward pass (docs/adr/0011):
 * its units come in the order in which that wants them, so that either the first one is
 * waited for, or the last one ends the wait with its own part of the pass still ahead.
 */
static double behind_forward(const struct mds_config *c, double s, double forward_s)
{
    double units = (double)c->model.layers / (double)c->parallel.pipeline + 2;

    return fmax(s / units, s - forward_s * (units - 1) / units);
}

/* Bytes a second between a GPU and the host, one way, while all GPUs of a node copy:
 * neighbours may share a link, and all share the memory. */
static double host_rate(const struct mds_machine *m, int per_node)
{
    double shared = fmin((double)m->links.host_gpus, per_node);

    return fmin(m->links.host_bytes_s / shared,
                m->links.host_memory_bytes_s / per_node);
}

/* What shows of all that some blocks keep, which is on the host in between: it goes
 * behind the forward passes and comes back behind the backward passes, each but for two
 * blocks (docs/long-sequences.md).  The rest of what goes are gradients for an update
 * there, or states. */
static double offload_s(const struct mds_machine *m, const struct mds_config *c,
                        int per_node, const struct mds_dry_step *r, double passes_s)
{
    double model_chunks =
        (double)c->parallel.pipeline * fmax((double)c->parallel.virtual_stages, 1);
    double behind = 1 - 2 * model_chunks / (double)c->model.layers;
    double forward = forward_s(c, passes_s);
    double rest = (states_come_and_go(c) ? 8 : 4) * (double)r->host_weights;
    double one_way =
        (r->ledger.op[MDS_OP_COPY_OUT].cost.bytes / 2 - rest) / host_rate(m, per_node);

    if (mds_act_slots(&c->train.act, c->model.layers) == c->model.layers)
        return 0;
    return fmax(one_way - behind * forward, 0) +
           fmax(one_way - behind * (passes_s - forward), 0);
}

/* Copies over the link (charged at both ends) run beside all computing, and the
 * update behind the forward pass. */
static double host_s(const struct mds_machine *m, const struct mds_config *c,
                     int per_node, const struct mds_dry_step *r, double passes_s)
{
    const struct mds_ledger *l = &r->ledger;
    double forward = forward_s(c, passes_s) / (double)c->batch.accumulation;
    double copies =
        (l->op[MDS_OP_COPY_IN].cost.bytes + l->op[MDS_OP_COPY_OUT].cost.bytes) /
        (2 * host_rate(m, per_node));
    double update = update_s(m, c, per_node, r);

    if (states_come_and_go(c)) /* through a pinned buffer, which the cores fill */
        return copies + update +
               2 * copies * host_rate(m, per_node) * per_node / cores_rate(m);
    return fmax(copies - passes_s, offload_s(m, c, per_node, r, passes_s)) +
           behind_forward(c, update, forward);
}

/* Set the times of a rank, except for waiting for other stages. */
static void set_rank_times(const struct mds_machine *m, const struct mds_config *c,
                           int per_node, const struct mds_dry_step *r,
                           struct mds_estimate *e)
{
    const struct mds_network net = mds_network_of(m, c, per_node);

    e->compute_s = compute_s(m, c, &r->ledger);
    e->tensor_s = tensor_s(c, group_s(&net, r, MDS_AXIS_TENSOR), e->compute_s);
    e->sequence_s = group_s(&net, r, MDS_AXIS_ULYSSES) +
                    ring_s(m, c, &r->ledger, group_s(&net, r, MDS_AXIS_RING));
    e->data_s = group_s(&net, r, MDS_AXES_ALL) + group_s(&net, r, MDS_AXES_STAGE) +
                data_s(&net, c, traffic_along(r, MDS_AXES_TOKENS), e->compute_s) +
                experts_s(&net, c, r, e->compute_s);
    e->pipeline_s =
        group_s(&net, r, MDS_AXIS_PIPELINE) + group_s(&net, r, MDS_GROUP_ENDS);
    e->host_s = host_s(m, c, per_node, r, e->compute_s + e->tensor_s + e->sequence_s);
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

void mds_plan_time(const struct mds_machine *m, const struct mds_config *c,
                   int per_node, const struct mds_dry_step *r, struct mds_estimate *e)
{
    set_rank_times(m, c, per_node, r, e);
    add_idle(c, e);
}
