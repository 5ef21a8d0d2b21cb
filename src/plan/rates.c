/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/rates.h"
#include "kernels/attention_scratch.h"

#include <math.h>

/* ---- attention ---- */

/* Queries in a call of the backward pass with a window, or 0: all keys of a query that
 * it sees, and no others, are computed.  So it is by the kernels for compute capability
 * 9.0. */
static double window_block(const struct mds_machine *m,
                           const struct mdsk_attention_shape *s, int backward)
{
    if (!backward || s->window == 0 || s->window >= s->Sq || m->node.gpus == 0 ||
        m->gpu.capability == 9.0)
        return 0;
    return (double)mdsk_attention_window_bwd_block(s);
}

/* Launches of a backward pass, or of a block of one with a window: with sums of keys'
 * gradients 27 to 69 us on an H200 (bench/results/gpu-2026-11-24.txt). */
enum { BACKWARD_LAUNCHES = 6 };

/* The ledger counts whole rows, but packed documents do not attend to each other: a row
 * takes as long as its tokens in sequences of the documents' mean length.  FLOP/s are
 * those of a causal sequence in which a query sees as many keys as in the call.  With a
 * window, cuDNN's backward pass computes the scores of a block of queries with all keys
 * that any of them sees: counting all of them, an H200 reached 490e12 and 517e12 FLOP/s
 * in blocks of 8192 queries (head size 128, bench/results/gpu-2026-11-23.txt). */
double mds_rates_attention_s(const struct mds_rates *r,
                             const struct mdsk_attention_shape *s, double flops,
                             int backward)
{
    const struct mds_flops_model *f = &r->flops;
    const struct mds_pairs row = mds_pairs_whole_row(f->seq, f->window);
    double share = s->window > 0 ? f->seen.local / row.local : f->seen.global;
    double block = window_block(r->machine, s, backward);
    double launches = backward ? BACKWARD_LAUNCHES - 1 : 0;
    /* twice the keys of a query, in the mean: counted, and computed */
    double counted =
        flops / ((backward ? 5 : 2) * (double)(s->B * s->A * s->D * s->Sq));
    double computed = counted * share;

    if (block > 0) {
        computed = 2 * (block + (double)s->window *
                                    (1 - block / ((double)s->Sq * f->seen.global)));
        launches = BACKWARD_LAUNCHES * (double)(s->B * s->Sq) / block;
    }
    return launches * r->machine->rates.call_s +
           flops * computed / counted /
               mds_machine_attention_flops(r->machine, (double)s->D, computed,
                                           backward);
}

/* ---- a rank ---- */

/* Seconds of an operation that is not memory-bound. */
static double flops_s(const struct mds_rates *r, enum mds_op op, const void *args,
                      double flops)
{
    const struct mds_machine *m = r->machine;
    double narrow = m->rates.matmul_flops, wide = m->rates.matmul_fp32_flops, s;

    if (op == MDS_OP_ATTENTION_FWD)
        s = mds_rates_attention_s(r, &((const struct mdsk_attention_fwd *)args)->shape,
                                  flops, 0);
    else if (op == MDS_OP_ATTENTION_BWD)
        s = mds_rates_attention_s(r, &((const struct mdsk_attention_bwd *)args)->shape,
                                  flops, 1);
    else if (op == MDS_OP_FP8_GEMM && m->rates.matmul_fp8_flops > 0)
        s = flops / m->rates.matmul_fp8_flops;
    else
        s = flops / narrow;
    return r->config->train.type == MDS_TYPE_F32 ? s * narrow / wide : s;
}

static double op_s(void *ctx, enum mds_op op, const void *args, struct mdsk_cost cost)
{
    const struct mds_rates *r = ctx;

    return fmax(cost.flops > 0 ? flops_s(r, op, args, cost.flops) : 0,
                cost.bytes / r->machine->rates.memory_bytes_s) +
           r->machine->rates.call_s;
}

/* ---- its host ---- */

/* One way, while all GPUs of a node copy: neighbours may share a link, and all share
 * the memory. */
static double copy_s(void *ctx, int64_t bytes)
{
    const struct mds_rates *r = ctx;
    const struct mds_machine *m = r->machine;
    double shared = fmin((double)m->links.host_gpus, r->per_node);

    return (double)bytes / fmin(m->links.host_bytes_s / shared,
                                m->links.host_memory_bytes_s / r->per_node);
}

/* Ranks of a node share its disk. */
static double disk_s(void *ctx, int64_t bytes)
{
    const struct mds_rates *r = ctx;

    return (double)bytes * r->per_node / r->machine->links.disk_bytes_s;
}

/* With a rank's share of the cores and of their memory: of a weight three states, a
 * gradient and what is rounded, 18 bytes, are written and read; of states in a file 12
 * pass the disk both ways meanwhile. */
static double update_s(void *ctx, int64_t weights)
{
    const struct mds_rates *r = ctx;
    const struct mds_machine *m = r->machine;
    double cores = fmin(m->links.core_bytes_s * (double)m->node.cores,
                        m->links.host_memory_bytes_s);
    double disk = r->config->parallel.offload_optimizer == MDS_PLACE_NVME
                      ? disk_s(ctx, 2 * 12 * weights)
                      : 0;

    return fmax(2 * 18 * (double)weights * r->per_node / cores, disk);
}

/* ---- its messages ---- */

/* NCCL's kernels take some of the GPU from computing beside them, and more from the
 * products of tensor ranks, which are short.  Source: steps on one, two and four H200,
 * bench/results/plan-2026-11-21.txt, tests/unit/predict.c. */
static const double exposed_beside = 0.35, between_chunks = 0.6;

static void set_group(const struct mds_network *net, struct mds_rank_span span,
                      unsigned axes, struct mds_comm_rates *out)
{
    *out = (struct mds_comm_rates){
        .network = mds_span_in_node(span, net->per_node) < span.size,
        .in_turn = axes == MDS_AXIS_PIPELINE,
        .beside = axes == MDS_AXIS_TENSOR ? between_chunks : exposed_beside};
    for (int k = 0; span.size > 1 && k < MDS_COMM_KINDS; k++) {
        enum mds_comm_kind kind = (enum mds_comm_kind)k;

        out->of[k].call_s = mds_network_call_s(net, span, kind, 0);
        out->of[k].byte_s =
            (mds_network_call_s(net, span, kind, 1 << 30) - out->of[k].call_s) /
            (1 << 30);
        out->of[k].shared = mds_network_shared(net, span, kind);
    }
}

void mds_rates_set(struct mds_rates *r, const struct mds_machine *m,
                   const struct mds_config *c, int per_node, struct mds_dev *dev,
                   const struct mds_groups *g)
{
    const struct mds_network net = mds_network_of(m, c, per_node);

    *r = (struct mds_rates){.machine = m,
                            .config = c,
                            .per_node = per_node,
                            .flops = mds_flops_model_of(c),
                            .dev = {r, op_s, copy_s, update_s, disk_s}};
    mds_dev_set_rates(dev, &r->dev);
    for (int i = 0; i < g->n; i++) {
        set_group(&net, mds_groups_span(g, &g->made[i]), g->made[i].axes, &r->group[i]);
        r->group[i].dev = dev;
        mds_comm_set_rates(g->made[i].comm, &r->group[i]);
    }
}
