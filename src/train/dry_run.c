/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/dry_run.h"
#include "base/clock.h"
#include "base/units.h"
#include "ckpt/configuration.h"
#include "data/dataset.h"
#include "train/run.h"

static void print_coordinates(const struct mds_config *c, const struct mds_groups *g,
                              FILE *f)
{
    const char *comma = " ";

    fprintf(f, "dry run of rank %lld of %d\n", (long long)c->train.dry_rank,
            g->grid.world);
    for (int i = g->grid.axes - 1; i >= 0; i--) {
        unsigned axis = mds_axis_bits(mds_axes, i);
        int n = mds_groups_size(g, axis);

        if (!mds_axes[i].within || n > 1) {
            fprintf(f, "%s %s %d of %d", comma, mds_axes[i].name,
                    mds_groups_rank(g, axis), n);
            comma = ",";
        }
    }
    fprintf(f, "\n  %lld micro-batch%s of %lld sequence%s of %lld tokens a step\n\n",
            (long long)c->batch.accumulation, c->batch.accumulation == 1 ? "" : "es",
            (long long)c->batch.micro, mds_plural(c->batch.micro),
            (long long)c->model.seq_length);
}

/* Everything else here is of the largest step. */
static void print_batches(const struct mds_config *c, FILE *f)
{
    struct mds_str text = {0};

    mds_config_batches_text(c, &text);
    if (text.s)
        fprintf(f, "  the largest of steps of %s\n\n", text.s);
    mds_str_fini(&text);
}

/* The same totals as the run itself will come to, on these ranks. */
static enum mds_rc print_length(const struct mds_config *c, FILE *f)
{
    const struct mds_extent *length = &c->train.length;
    struct mds_extent done, end;

    if (mds_extent_unit(length) == MDS_UNITS)
        return MDS_OK;
    MDS_TRY(mds_ckpt_find_progress(c, &done));
    fprintf(f, "  length");
    for (int u = 0; u < MDS_UNITS; u++)
        if (length->in[u])
            fprintf(f, " %lld %s, %lld of them done;", (long long)length->in[u],
                    mds_unit_names[u], (long long)done.in[u]);
    end = mds_config_end(c, length, &done);
    fprintf(f, " %lld steps left\n\n",
            (long long)(end.in[MDS_STEPS] - done.in[MDS_STEPS]));
    return MDS_OK;
}

static void print_memory(const struct mds_config *c, const struct mds_engine_need *n,
                         FILE *f)
{
    int64_t load_bytes = mds_run_load_bytes(c);
    int64_t bytes = mds_run_host_bytes(n) + mds_run_file_bytes(c, n);
    char host[32], file[32], copy[32], load[32], whole[32];

    mds_run_memory_table(&n->memory, f);
    mds_format_bytes((double)bytes, host, sizeof host);
    mds_format_bytes((double)n->zero.file_bytes, file, sizeof file);
    fprintf(f, "  host memory %s, files %s\n", host, file);
    if (n->copy_bytes > 0)
        fprintf(f, "  of host memory %s for saving in the background\n",
                mds_format_bytes((double)n->copy_bytes, copy, sizeof copy));
    if (load_bytes > 0)
        fprintf(f, "  of host memory %s at most for reading a checkpoint\n",
                mds_format_bytes((double)load_bytes, load, sizeof load));
    if (n->whole_bytes > 0)
        fprintf(f, "  of host memory %s at most for whole tensors (exports)\n",
                mds_format_bytes((double)n->whole_bytes, whole, sizeof whole));
}

static int ranks_a_node(const struct mds_groups *g)
{
    return g->grid.world < 8 ? g->grid.world : 8;
}

/* GPU memory that the ledger does not count. */
static void print_gpu_overhead(const struct mds_dev *dev, const struct mds_groups *g,
                               FILE *f)
{
    const int per_node = ranks_a_node(g);
    int64_t nccl = mds_groups_nccl_bytes(g, per_node, MDS_COMM_CHANNELS);
    char messages[32], attention[32];

    mds_format_bytes((double)nccl, messages, sizeof messages);
    mds_format_bytes((double)mds_dev_ledger(dev)->scratch_bytes, attention,
                     sizeof attention);
    fprintf(f, "  also on a GPU: attention %s, NCCL %s with %d rank%s per node\n",
            attention, messages, per_node, mds_plural(per_node));
}

/* Checkpoint size of all ranks together.  A rank with nothing to save writes no file.
 */
static enum mds_rc print_checkpoint(const struct mds_config *c,
                                    const struct mds_engine_need *n, FILE *f)
{
    const double rate = 2e9;
    char all[32], own[32], time[32];
    double bytes;

    MDS_TRY(mds_run_checkpoint_bytes(c, &bytes));
    fprintf(f, "  checkpoint %s in %lld files at most, %s of this rank; %s at 2 GB/s\n",
            mds_format_bytes(bytes, all, sizeof all), (long long)c->train.dry_world + 1,
            mds_format_bytes((double)n->save_bytes, own, sizeof own),
            mds_format_seconds(bytes / rate, time, sizeof time));
    return MDS_OK;
}

/* Tokens of a micro-batch on this rank. */
static int64_t tokens_here(const struct mds_config *c)
{
    return c->batch.micro * c->model.seq_length /
           (c->parallel.ulysses * c->parallel.ring);
}

/* Bytes by tag, on the device and on the host. */
struct growth {
    double device[MDS_MEM_TAGS], host[MDS_MEM_TAGS];
};

/* Bytes per token at the peak, from dry runs of the sequence and of half of it.
 * Returns 0 if half the sequence is not possible. */
static int measure_growth(const struct mds_config *c, const struct mds_groups *g,
                          const struct mds_engine_need *n, struct growth *out)
{
    struct mds_config half = *c;
    struct mds_engine_need less;
    double tokens = (double)tokens_here(c) / 2;

    half.model.seq_length /= 2;
    if (c->model.seq_length % (4 * (int64_t)g->grid.world) ||
        mds_engine_measure(&half, g->grid.world, (int)c->train.dry_rank,
                           ranks_a_node(g), &less))
        return 0;
    for (int t = 0; t < MDS_MEM_TAGS; t++) {
        out->device[t] =
            (double)(n->memory.at_total_peak[t] - less.memory.at_total_peak[t]) /
            tokens;
        out->host[t] =
            (double)(n->host.at_total_peak[t] - less.host.at_total_peak[t]) / tokens;
    }
    return 1;
}

/* How much of that each block on this rank accounts for, from a dry run with half the
 * blocks.  Returns 0 if that is not possible, or blocks are of two kinds. */
static int block_growth_of(const struct mds_config *c, const struct mds_groups *g,
                           const struct growth *whole, struct growth *out)
{
    struct mds_config half = *c;
    struct mds_engine_need n;
    double blocks = (double)c->model.layers / (double)c->parallel.pipeline / 2;

    half.model.layers /= 2;
    if (!mds_act_halve(&half.train.act) ||
        c->model.layers % (2 * c->parallel.pipeline) ||
        c->parallel.virtual_stages > 1 ||
        mds_model_expert_layers(&c->model) % c->model.layers ||
        mds_engine_measure(&half, g->grid.world, (int)c->train.dry_rank,
                           ranks_a_node(g), &n) ||
        !measure_growth(&half, g, &n, out))
        return 0;
    for (int t = 0; t < MDS_MEM_TAGS; t++) {
        out->device[t] = (whole->device[t] - out->device[t]) / blocks;
        out->host[t] = (whole->host[t] - out->host[t]) / blocks;
    }
    return 1;
}

static void print_growth_line(const char *name, double device, double host,
                              const double block[2], FILE *f)
{
    fprintf(f, "  %-12s %15.1f %12.1f", name, device, host);
    if (block)
        fprintf(f, "   %15.1f %12.1f", block[0], block[1]);
    fprintf(f, "\n");
}

static void print_growth(const struct mds_config *c, const struct mds_groups *g,
                         const struct mds_engine_need *n, FILE *f)
{
    struct growth all, block = {{0}, {0}};
    double sum[2] = {0, 0}, block_sum[2] = {0, 0};
    int blocks;

    if (!measure_growth(c, g, n, &all))
        return;
    blocks = block_growth_of(c, g, &all, &block);
    fprintf(f, "  %-12s %15s %12s", "bytes a token", "device", "host");
    fprintf(f, "%s\n", blocks ? "  a block: device         host" : "");
    for (int t = 0; t < MDS_MEM_TAGS; t++) {
        double of_block[] = {block.device[t], block.host[t]};

        sum[0] += all.device[t];
        sum[1] += all.host[t];
        block_sum[0] += of_block[0];
        block_sum[1] += of_block[1];
        if (all.device[t] != 0 || all.host[t] != 0)
            print_growth_line(mds_mem_tag_name((enum mds_mem_tag)t), all.device[t],
                              all.host[t], blocks ? of_block : NULL, f);
    }
    print_growth_line("all", sum[0], sum[1], blocks ? block_sum : NULL, f);
    fprintf(f, "\n");
}

static void print_operations(const struct mds_ledger *l, FILE *f)
{
    struct mdsk_cost all = {0, 0};
    char flops[32], bytes[32];

    fprintf(f, "  %-18s %10s %14s %14s\n", "operation", "calls", "FLOPs", "bytes");
    for (int i = 0; i < MDS_OPS; i++) {
        if (l->op[i].calls == 0)
            continue;
        all.flops += l->op[i].cost.flops;
        all.bytes += l->op[i].cost.bytes;
        fprintf(f, "  %-18s %10lld %14s %14s\n", mds_op_name((enum mds_op)i),
                (long long)l->op[i].calls,
                mds_format_count(l->op[i].cost.flops, flops, sizeof flops),
                mds_format_bytes(l->op[i].cost.bytes, bytes, sizeof bytes));
    }
    fprintf(f, "  %-18s %10s %14s %14s\n\n", "all", "",
            mds_format_count(all.flops, flops, sizeof flops),
            mds_format_bytes(all.bytes, bytes, sizeof bytes));
}

/* The ledger counts whole rows; where documents are apart attention computes less. */
static void print_documents(const struct mds_config *c, const struct mds_ledger *l,
                            FILE *f)
{
    struct mds_flops_model model = mds_flops_model_of(c);
    double share, attention, all = 0;
    char flops[32], left[32];

    model.seen = mds_data_seen(&c->data, c->model.seq_length, c->model.window);
    share = mds_flops_documents_share(&model);
    if (share == 0 || share >= 1)
        return;
    for (int i = 0; i < MDS_OPS; i++)
        all += l->op[i].cost.flops;
    attention =
        l->op[MDS_OP_ATTENTION_FWD].cost.flops + l->op[MDS_OP_ATTENTION_BWD].cost.flops;
    fprintf(
        f,
        "  documents: attention computes %.3g %% of these FLOPs, %s; all operations "
        "%s\n\n",
        100 * share, mds_format_count(attention * share, flops, sizeof flops),
        mds_format_count(all - attention * (1 - share), left, sizeof left));
}

static void print_group_traffic(const struct mds_comm *c, FILE *f)
{
    const struct mds_comm_stats *s = mds_comm_stats(c);
    char payload[32], wire[32];

    for (int k = 0; k < MDS_COMM_KINDS; k++)
        if (s->of[k].calls > 0)
            fprintf(f, "  %-10s %6d  %-16s %10lld %14s %14s\n", mds_comm_tag(c),
                    mds_comm_size(c), mds_comm_kind_name((enum mds_comm_kind)k),
                    (long long)s->of[k].calls,
                    mds_format_bytes((double)s->of[k].payload_bytes, payload,
                                     sizeof payload),
                    mds_format_bytes((double)s->of[k].wire_bytes, wire, sizeof wire));
}

static void print_communication(const struct mds_groups *g, FILE *f)
{
    fprintf(f, "  %-10s %6s  %-16s %10s %14s %14s\n", "group", "ranks", "collective",
            "calls", "payload", "on the wire");
    for (int i = 0; i < g->n; i++)
        print_group_traffic(g->made[i].comm, f);
}

static enum mds_rc dry_run_step(const struct mds_config *c, struct mds_dev *dev,
                                const struct mds_groups *g, FILE *f)
{
    struct mds_engine_need need;
    double begin = mds_clock_s();

    MDS_TRY(mds_engine_dry_run(c, dev, g, &need));
    print_coordinates(c, g, f);
    print_batches(c, f);
    MDS_TRY(print_length(c, f));
    print_memory(c, &need, f);
    print_gpu_overhead(dev, g, f);
    if (!c->train.skip_train)
        MDS_TRY(print_checkpoint(c, &need, f));
    fputc('\n', f);
    print_growth(c, g, &need, f);
    print_operations(mds_dev_ledger(dev), f);
    print_documents(c, mds_dev_ledger(dev), f);
    print_communication(g, f);
    if (c->train.show_step)
        MDS_TRY(mds_engine_show_step(c, g, f));
    fprintf(f, "\nsimulated in %.3f s\n", mds_clock_s() - begin);
    return MDS_OK;
}

enum mds_rc mds_dry_run(const struct mds_config *config, FILE *f)
{
    const struct mds_dev_spec spec = {.name = "dry"};
    struct mds_groups groups = {0};
    struct mds_dev *dev = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_dev_create(&spec, &dev));
    rc = mds_groups_create(&config->parallel, (int)config->train.dry_world,
                           (int)config->train.dry_rank, NULL, &groups);
    if (!rc)
        rc = dry_run_step(config, dev, &groups, f);
    mds_groups_fini(&groups);
    mds_dev_destroy(dev);
    return rc;
}
