/* SPDX-License-Identifier: BSD-3-Clause */
/* Does the run fit, and if not, what would help? */
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "ckpt/reader.h"
#include "metrics/memory.h"
#include "train/run.h"

#include <stdio.h>
#include <string.h>

/* Of the host's memory, for each of its ranks; a GPU's is a rank's alone. */
static int64_t host_share(const struct run *r)
{
    const char *device = mds_dev_resolve(r->config->output.device);

    if (strcmp(device, "cuda") == 0)
        return 0;
    return mds_host_memory_available() / r->spec->world->local_ranks;
}

struct mds_dev_spec mds_run_device(const struct run *r)
{
    int local = r->spec->world->local_ranks;
    int cores = mds_host_cores() / local;
    int threads = (int)r->config->train.threads;

    if (threads == 0)
        threads = cores > 0 ? cores : 1;
    return (struct mds_dev_spec){.name = r->config->output.device,
                                 .threads = threads,
                                 .memory_bytes = host_share(r),
                                 .local_rank = r->spec->world->local_rank,
                                 .repeatable = r->config->train.deterministic};
}

void mds_run_memory_table(const struct mds_mem_account *m, FILE *f)
{
    const char *names[MDS_MEM_TAGS];
    struct mds_str table = {0};

    for (int t = 0; t < MDS_MEM_TAGS; t++)
        names[t] = mds_mem_tag_name((enum mds_mem_tag)t);
    mds_memory_table(&table, MDS_MEM_TAGS, names, m->now, m->peak, m->total_peak);
    if (!table.failed)
        fputs(table.s, f);
    mds_str_fini(&table);
}

int64_t mds_run_host_bytes(const struct mds_engine_need *n)
{
    return n->host_bytes + n->zero.memory_bytes + n->copy_bytes;
}

/* On the cpu: all in one place. */
static int64_t sum_of_need(const struct run *r)
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
    int64_t predicted = r->memory_before + sum_of_need(r) + r->need.whole_bytes;
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

/* One line if the changed configuration would need clearly less. */
static void advise(const struct run *r, const struct mds_config *changed,
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

/* Blocks on the host, where that is another place. */
static void advise_leaving(const struct run *r)
{
    struct mds_config c = *r->config;
    int64_t blocks = mds_stage_blocks(&c), n = mds_max_offload_layers(blocks);
    char setting[64];

    if (!is_on_gpus(r) || mds_recompute_of(&c.train.act) != MDS_RECOMPUTE_NONE ||
        mds_act_slots(&c.train.act, blocks) <= blocks - n)
        return;
    mds_act_let_leave(&c.train.act, n);
    snprintf(setting, sizeof setting, "--cpu-offloading-num-layers %lld", (long long)n);
    advise(r, &c, setting);
}

/* Levels, but where the device is the host none that puts more there. */
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
            advise(r, &c, setting.s);
        mds_str_fini(&setting);
        mds_str_fini(&is);
    }
}

static void advise_all(const struct run *r)
{
    struct mds_config c = *r->config;

    advise_leaving(r);
    if (!r->config->train.activation_memory)
        advise_levels(r);
    if (c.batch.micro > 1) {
        c.batch.accumulation *= c.batch.micro;
        c.batch.micro = 1;
        advise(r, &c, "--micro-batch-size 1");
        c = *r->config;
    }
    if (c.train.act.loss_tile == 0 || c.train.act.loss_tile > 1024) {
        c.train.act.loss_tile = 1024;
        advise(r, &c, "--loss-tile 1024");
        c = *r->config;
    }
    if (c.parallel.zero_stage < 3 && mds_groups_size(&r->groups, MDS_AXES_TOKENS) > 1) {
        c.parallel.zero_stage = 3;
        advise(r, &c, "--zero-stage 3");
        c = *r->config;
    }
    if (c.model.seq_length > 1) {
        c.model.seq_length /= 2;
        advise(r, &c, "half the --seq-length");
    }
}

static void print_beside(const struct run *r, FILE *f)
{
    char text[32];

    if (is_on_gpus(r))
        fprintf(f, "  and for NCCL and attention %s\n",
                mds_format_bytes((double)r->need.beside_bytes, text, sizeof text));
}

/* What is needed of one memory, and what there is. */
struct place {
    const char *name;
    int64_t need_bytes, have_bytes;
};

enum { PLACES = 2 };

/* The device's, and where that is another the host's. */
static void list_places(const struct run *r, struct place p[PLACES])
{
    const struct mds_engine_need *n = &r->need;
    int64_t file = mds_run_file_bytes(r->config, n),
            there = mds_dev_memory_bytes(r->dev);

    if (!is_on_gpus(r)) {
        p[0] = p[1] = (struct place){"memory", sum_of_need(r) + file, there};
        return;
    }
    p[0] = (struct place){"GPU memory",
                          n->state_bytes + n->step_bytes + n->beside_bytes, there};
    p[1] = (struct place){"host memory", mds_run_host_bytes(n) + file,
                          mds_host_memory_available() / r->spec->world->local_ranks};
}

static enum mds_rc refuse(const struct run *r, const struct place *p)
{
    char need[32], have[32];

    mds_format_bytes((double)p->need_bytes, need, sizeof need);
    mds_format_bytes((double)p->have_bytes, have, sizeof have);
    if (speaks(r)) {
        fprintf(stderr, "memory a rank would need, by purpose:\n");
        mds_run_memory_table(&r->need.memory, stderr);
        print_beside(r, stderr);
        advise_all(r);
    }
    return mds_fail(
        MDS_EMEM,
        "%s: each rank needs %s, and %s has %s for each of its %d; use "
        "more memory, fewer ranks a node, a smaller model, or %s",
        p->name, need, r->spec->world->host, have, r->spec->world->local_ranks,
        speaks(r) ? "a setting above" : "settings that --dry-run finds small enough");
}

enum mds_rc mds_run_check_memory(const struct run *r)
{
    struct place p[PLACES];
    char need[32], have[32];

    list_places(r, p);
    for (int i = 0; i < PLACES; i++) {
        if (p[i].need_bytes > p[i].have_bytes)
            return refuse(r, &p[i]);
        mds_debug("%s per rank: %s of %s", p[i].name,
                  mds_format_bytes((double)p[i].need_bytes, need, sizeof need),
                  mds_format_bytes((double)p[i].have_bytes, have, sizeof have));
    }
    return MDS_OK;
}

/* On all ranks. */
static enum mds_rc fits(const struct run *r, int *all)
{
    struct place p[PLACES];
    double lacks;

    list_places(r, p);
    lacks = p[0].need_bytes > p[0].have_bytes || p[1].need_bytes > p[1].have_bytes;
    MDS_TRY(mds_comm_all_reduce_f64(mds_group(&r->groups, MDS_AXES_ALL), &lacks, 1,
                                    MDS_COMM_MAX));
    *all = lacks == 0;
    return MDS_OK;
}

static enum mds_rc measure(struct run *r)
{
    const struct mds_world *w = r->spec->world;

    return mds_engine_measure(r->config, w->ranks, w->rank, w->local_ranks, &r->need);
}

static enum mds_rc choose_level(struct run *r)
{
    const struct mds_config *asked = r->config;
    struct mds_str text = {0};
    int level = 0, all = 0;

    r->chosen = *asked;
    r->config = &r->chosen;
    while (!all && mds_config_next_level(asked, &level, &r->chosen)) {
        MDS_TRY(measure(r));
        MDS_TRY(fits(r, &all));
    }
    mds_act_text(&r->config->train.act, 0, &text);
    if (speaks(r))
        mds_info("activation memory: level %d, %s", level - 1,
                 text.len ? text.s : "blocks keep all");
    mds_str_fini(&text);
    return MDS_OK;
}

enum mds_rc mds_run_measure(struct run *r)
{
    return r->config->train.act_is_open ? choose_level(r) : measure(r);
}
