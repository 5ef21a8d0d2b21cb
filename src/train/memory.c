/* SPDX-License-Identifier: BSD-3-Clause */
/* Check that the run fits into memory; if it does not, say what would help. */
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "ckpt/reader.h"
#include "train/run.h"

#include <stdio.h>
#include <string.h>

void mds_run_memory_table(const struct mds_mem_account *m, FILE *f)
{
    struct mds_str table = {0};

    mds_mem_table(m, &table);
    if (!table.failed)
        fputs(table.s, f);
    mds_str_fini(&table);
}

int64_t mds_run_host_bytes(const struct mds_engine_need *n)
{
    return n->host_bytes + n->zero.memory_bytes + n->copy_bytes;
}

/* Bytes of everything together, for the CPU, where device and host are one memory. */
static int64_t total_need_bytes(const struct run *r)
{
    const struct mds_engine_need *n = &r->need;
    int64_t attention = r->config->train.flash_attn ? 0 : n->attention_bytes;

    return n->state_bytes + n->step_bytes + mds_run_host_bytes(n) + attention;
}

int64_t mds_run_load_bytes(const struct mds_config *c)
{
    int loads = c->checkpoint.load || c->train.on_nonfinite == MDS_NONFINITE_ROLLBACK;

    return loads ? mds_ckpt_reader_bytes() : 0;
}

int64_t mds_run_file_bytes(const struct mds_config *c, const struct mds_engine_need *n)
{
    return mds_max(mds_run_load_bytes(c), n->whole_bytes);
}

void mds_run_print_memory(const struct run *r)
{
    int64_t now, peak;
    int64_t predicted = r->memory_before + total_need_bytes(r) + r->need.whole_bytes;
    char had[32], thought[32];

    printf("memory of rank 0 by purpose:\n");
    mds_run_memory_table(&mds_dev_ledger(r->dev)->memory, stdout);
    mds_host_memory_used(&now, &peak);
    if (strcmp(mds_dev_name(r->dev), "cpu") != 0)
        return;
    printf("  process: peak %s, predicted %s\n",
           mds_format_bytes((double)peak, had, sizeof had),
           mds_format_bytes((double)predicted, thought, sizeof thought));
}

/* Print one line if the changed configuration would need clearly less memory. */
static void print_advice(const struct run *r, const struct mds_config *changed,
                         const char *setting)
{
    const struct mds_world *w = r->spec->world;
    struct mds_engine_need need;
    double was = (double)r->need.memory.total_peak, now;
    char text[32];

    if (mds_engine_measure(changed, w->ranks, w->rank, w->local_ranks, &need))
        return;
    now = (double)need.memory.total_peak;
    if (now < 0.99 * was)
        fprintf(stderr, "  %-40s %s instead\n", setting,
                mds_format_bytes(now, text, sizeof text));
}

static int is_on_gpus(const struct run *r)
{
    return strcmp(mds_dev_name(r->dev), "cuda") == 0;
}

/* Offload blocks' activations to the host; only where the device has its own memory. */
static void advise_offloading(const struct run *r)
{
    struct mds_config c = *r->config;
    int64_t blocks = mds_stage_blocks(&c), n = mds_max_offload_layers(blocks);
    char setting[64];

    if (!is_on_gpus(r) || mds_recompute_of(&c.train.act) != MDS_RECOMPUTE_NONE ||
        mds_act_slots(&c.train.act, blocks) <= blocks - n)
        return;
    c.train.act.offload_layers = n;
    snprintf(setting, sizeof setting, "--cpu-offloading-num-layers %lld", (long long)n);
    print_advice(r, &c, setting);
}

/* The levels of --activation-memory.  On the CPU, skip those that only move more to the
 * host: it is the same memory. */
static void advise_levels(const struct run *r)
{
    int level = 0, kinds = mds_act_kinds_on_host(&r->config->train.act);
    struct mds_config c = *r->config;

    while (mds_config_next_level(r->config, &level, &c)) {
        struct mds_str is = {0}, setting = {0};

        mds_act_describe(&c.train.act, &is);
        mds_str_add(&setting, "--activation-memory %d (%s)", level - 1,
                    is.len ? is.s + strlen(", ") : "blocks keep all");
        if (setting.s &&
            (is_on_gpus(r) || mds_act_kinds_on_host(&c.train.act) <= kinds))
            print_advice(r, &c, setting.s);
        mds_str_fini(&setting);
        mds_str_fini(&is);
    }
}

static void advise_all(const struct run *r)
{
    struct mds_config c = *r->config;

    advise_offloading(r);
    if (!r->config->train.activation_memory)
        advise_levels(r);
    if (c.batch.micro > 1) {
        c.batch.accumulation *= c.batch.micro;
        c.batch.micro = 1;
        print_advice(r, &c, "--micro-batch-size 1");
        c = *r->config;
    }
    if (c.train.act.loss_tile == 0 || c.train.act.loss_tile > 1024) {
        c.train.act.loss_tile = 1024;
        print_advice(r, &c, "--loss-tile 1024");
        c = *r->config;
    }
    if (c.parallel.zero_stage < 3 && mds_groups_size(&r->groups, MDS_AXES_TOKENS) > 1) {
        c.parallel.zero_stage = 3;
        print_advice(r, &c, "--zero-stage 3");
        c = *r->config;
    }
    if (c.model.seq_length > 1) {
        c.model.seq_length /= 2;
        print_advice(r, &c, "half the --seq-length");
    }
}

static void print_gpu_overhead(const struct run *r, FILE *f)
{
    char text[32];

    if (is_on_gpus(r))
        fprintf(f, "  plus NCCL and attention %s\n",
                mds_format_bytes((double)r->need.overhead_bytes, text, sizeof text));
}

/* What a rank needs of one memory, and what it may use. */
struct memory {
    const char *name;
    int64_t need_bytes, have_bytes;
};

enum { MEMORIES = 2 };

/* GPU memory and host memory; on the CPU the same one twice. */
static void list_memories(const struct run *r, struct memory p[MEMORIES])
{
    const struct mds_engine_need *n = &r->need;
    int64_t file = mds_run_file_bytes(r->config, n),
            there = mds_dev_memory_bytes(r->dev);

    if (!is_on_gpus(r)) {
        p[0] = p[1] = (struct memory){"memory", total_need_bytes(r) + file, there};
        return;
    }
    p[0] = (struct memory){"GPU memory",
                           n->state_bytes + n->step_bytes + n->overhead_bytes, there};
    p[1] = (struct memory){"host memory", mds_run_host_bytes(n) + file,
                           mds_host_memory_available() / r->spec->world->local_ranks};
}

static enum mds_rc fail_out_of_memory(const struct run *r, const struct memory *p)
{
    char need[32], have[32];

    mds_format_bytes((double)p->need_bytes, need, sizeof need);
    mds_format_bytes((double)p->have_bytes, have, sizeof have);
    if (is_rank0(r)) {
        fprintf(stderr, "memory each rank needs, by purpose:\n");
        mds_run_memory_table(&r->need.memory, stderr);
        print_gpu_overhead(r, stderr);
        advise_all(r);
    }
    return mds_fail(
        MDS_EMEM,
        "%s: each rank needs %s, and %s has %s for each of its %d; use "
        "more memory, fewer ranks a node, a smaller model, or %s",
        p->name, need, r->spec->world->host, have, r->spec->world->local_ranks,
        is_rank0(r) ? "a setting above" : "settings that --dry-run finds small enough");
}

enum mds_rc mds_run_check_memory(const struct run *r)
{
    struct memory p[MEMORIES];
    char need[32], have[32];

    list_memories(r, p);
    for (int i = 0; i < MEMORIES; i++) {
        if (p[i].need_bytes > p[i].have_bytes)
            return fail_out_of_memory(r, &p[i]);
        mds_debug("%s per rank: %s of %s", p[i].name,
                  mds_format_bytes((double)p[i].need_bytes, need, sizeof need),
                  mds_format_bytes((double)p[i].have_bytes, have, sizeof have));
    }
    return MDS_OK;
}

/* *all: 1 if r->need fits on every rank.  Collective. */
static enum mds_rc fits_on_all_ranks(const struct run *r, int *all)
{
    struct memory p[MEMORIES];
    double lacks;

    list_memories(r, p);
    lacks = p[0].need_bytes > p[0].have_bytes || p[1].need_bytes > p[1].have_bytes;
    MDS_TRY(mds_comm_all_reduce_f64(mds_group(&r->groups, MDS_AXES_ALL), &lacks, 1,
                                    MDS_COMM_MAX));
    *all = lacks == 0;
    return MDS_OK;
}

static enum mds_rc measure_need(struct run *r)
{
    const struct mds_world *w = r->spec->world;

    return mds_engine_measure(r->config, w->ranks, w->rank, w->local_ranks, &r->need);
}

static enum mds_rc choose_activation_level(struct run *r)
{
    const struct mds_config *asked = r->config;
    struct mds_str text = {0};
    int level = 0, all = 0;

    r->chosen = *asked;
    r->config = &r->chosen;
    while (!all && mds_config_next_level(asked, &level, &r->chosen)) {
        MDS_TRY(measure_need(r));
        MDS_TRY(fits_on_all_ranks(r, &all));
    }
    mds_act_text(&r->config->train.act, 0, &text);
    if (is_rank0(r))
        mds_info("activation memory: level %d, %s", level - 1,
                 text.len ? text.s : "blocks keep all");
    mds_str_fini(&text);
    return MDS_OK;
}

enum mds_rc mds_run_measure(struct run *r)
{
    return r->config->train.act_is_open ? choose_activation_level(r) : measure_need(r);
}
