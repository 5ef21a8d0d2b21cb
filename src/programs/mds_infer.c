/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_infer: what a trained model says of sequences. */
#include "base/events.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/scheduler.h"
#include "base/str.h"
#include "comm/comm.h"
#include "config.h"
#include "infer/command.h"
#include "infer/genome.h"
#include "programs/ranks.h"
#include "programs/subcommands.h"
#include "train/dry_run.h"
#include "transport/stop.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int has_word(const struct mds_invocation *c, const char *word)
{
    for (size_t i = 0; i < c->operand_count; i++)
        if (strcmp(c->operand[i], word) == 0)
            return 1;
    return 0;
}

/* ranks 0: as many as the layout needs. */
static enum mds_rc prepare(struct mds_infer_command *c, struct mds_infer_model *m,
                           int64_t ranks)
{
    struct mds_infer_need need = {0};

    MDS_TRY(mds_infer_command_check_outputs(c));
    MDS_TRY(mds_infer_command_find(c, m));
    MDS_TRY(mds_infer_command_measure(c, m, &need));
    return mds_infer_model_resolve(m, &need, ranks);
}

/* Rank 0 makes the index of --fasta, if there is none, and the others wait. */
static enum mds_rc make_index(const char *fasta, const struct mds_world *w)
{
    struct mds_comm *world;
    enum mds_rc rc;

    if (!fasta)
        return MDS_OK;
    if (w->rank == 0)
        MDS_TRY(mds_genome_index(fasta));
    MDS_TRY(mds_comm_create_world(w->ranks, "index", &world));
    rc = mds_comm_barrier(world);
    mds_comm_destroy(world);
    return rc;
}

/* Without MPI, so that it works on a login node. */
static enum mds_rc dry_run(struct mds_infer_command *c, const char *fasta)
{
    struct mds_infer_model m = {.path = ""};
    enum mds_rc rc = fasta ? mds_genome_index(fasta) : MDS_OK;

    if (!rc)
        rc = prepare(c, &m, 0);
    if (!rc)
        rc = mds_dry_run(&m.run->config, stdout);
    mds_infer_model_close(&m);
    return rc;
}

static void init_log(const struct mds_world *w, const struct mds_infer_model *m)
{
    enum mds_log_level level = MDS_LOG_INFO;

    if (m)
        mds_log_level_parse(m->run->config.output.log_level, &level);
    mds_log_init(w->rank, w->ranks, w->host, level);
}

static void record_start(const struct mds_infer_model *m, const char *output)
{
    const struct mds_config *k = &m->run->config;
    struct mds_str layout = {0};
    struct mds_event e;

    if (m->world.rank > 0)
        return;
    mds_axes_format(mds_axes, k->parallel.size, &layout);
    mds_event_begin(&e, "started");
    mds_event_add_text(&e, "layout", layout.s);
    mds_event_add_int(&e, "ranks", m->world.ranks);
    mds_event_add_text(&e, "version", PACKAGE_VERSION);
    mds_event_add_int(&e, "seq_length", k->model.seq_length);
    mds_event_add_text(&e, "device", mds_dev_name(m->dev));
    mds_event_add_text(&e, "job", mds_scheduler_job());
    mds_event_add_text(&e, "load", m->path);
    mds_event_add_text(&e, "output", output);
    (void)mds_event_end(&e);
    mds_str_fini(&layout);
}

static void record_end(const struct mds_infer_model *m, int status)
{
    struct mds_event e;

    if (m->world.rank > 0)
        return;
    mds_event_begin(&e, "finished");
    mds_event_add_text(&e, "reason", m->left ? "signal" : "done");
    mds_event_add_int(&e, "status", status);
    (void)mds_event_end(&e);
}

/* Signals end it between steps, where another job can go on. */
static enum mds_rc run_command(const struct mds_infer_command *c,
                               struct mds_infer_model *m)
{
    enum mds_rc rc;

    if (c->verb != MDS_INFER_GENERATE)
        mds_stop_watch();
    rc = mds_infer_command_run(c, m);
    mds_stop_ignore();
    return m->left ? MDS_OK : rc;
}

static void log_left(enum mds_infer_verb verb, const char *output)
{
    if (verb == MDS_INFER_SCORE && output)
        mds_info("a signal ended it; the same command with --resume goes on with %s",
                 output);
    else
        mds_info("a signal ended it; not everything is written");
}

static enum mds_rc run(const struct mds_invocation *i, enum mds_infer_verb verb)
{
    const struct mds_infer_options *o = i->settings.values;
    struct mds_infer_command c = {.verb = verb,
                                  .settings = &i->settings,
                                  .operand = i->operand,
                                  .operands = i->operand_count,
                                  .files = mds_invocation_name_count(i)};
    struct mds_infer_model m = {.path = ""};
    struct mds_world world = {.ranks = 1};
    const char *events;
    int status;
    enum mds_rc rc;

    MDS_TRY(mds_infer_command_check(&c));
    if (has_word(i, "--dry-run"))
        return dry_run(&c, o->fasta);
    events = mds_infer_events_path(i->operand, i->operand_count);
    if (events)
        mds_events_open(events);
    rc = mds_world_init(&world);
    init_log(&world, NULL);
    if (!rc)
        rc = make_index(o->fasta, &world);
    if (!rc)
        rc = prepare(&c, &m, world.ranks);
    if (!rc) {
        init_log(&world, &m);
        mds_comm_set_timeout_s(m.run->config.parallel.timeout_s);
        rc = mds_infer_model_start(&m, &world);
    }
    if (!rc) {
        record_start(&m, o->output);
        rc = run_command(&c, &m);
    }
    if (!rc) /* has a time limit; MPI_Finalize would wait for a stuck rank forever */
        rc = mds_comm_barrier(mds_group(&m.groups, MDS_AXES_ALL));
    if (rc)
        mds_ranks_fail(&world, rc);
    status = m.left ? MDS_EXIT_UNFINISHED : MDS_EXIT_DONE;
    record_end(&m, status);
    if (m.left)
        log_left(verb, o->output);
    mds_infer_model_log_memory(&m);
    mds_infer_model_close(&m);
    mds_ranks_flush_output(&world);
    mds_log_repeat_warnings();
    mds_world_end(&world, status);
}

static enum mds_rc run_score(const struct mds_invocation *c)
{
    return run(c, MDS_INFER_SCORE);
}

static enum mds_rc run_embed(const struct mds_invocation *c)
{
    return run(c, MDS_INFER_EMBED);
}

static enum mds_rc run_generate(const struct mds_invocation *c)
{
    return run(c, MDS_INFER_GENERATE);
}

static const struct mds_subcommand subcommands[] = {
    {"score", "score --load FOLDER [option]... FILE... [mds_pretrain's options]",
     "Prints, for each record of FASTA, document of a token file or line of JSON with "
     "a \"text\", as tab-separated values: its name, its length in bases, the tokens "
     "scored, their log-likelihood in nats, that per token and per base, and the "
     "perplexity. The first token has nothing before it, and is not scored, nor are "
     "tokens with an ambiguous base.",
     "Model score", .most = SIZE_MAX, .run = run_score, .passes_unknown = 1},
    {"embed",
     "embed --load FOLDER --output FILE [option]... FILE... [mds_pretrain's options]",
     "Writes the hidden states of sequences, which score would read, behind one block "
     "of "
     "the model to HDF5: /hidden, /start (the row where each sequence begins) and "
     "/name. "
     "A row is the mean of a sequence's tokens, unless --pool says otherwise.",
     "Model embed", .most = SIZE_MAX, .run = run_embed, .passes_unknown = 1},
    {"generate", "generate --load FOLDER [option]... FILE... [mds_pretrain's options]",
     "Continues prompts: records of FASTA, documents of a token file or lines of JSON "
     "with a \"text\". Prints what follows each, as FASTA if the model's tokens are of "
     "bases, else as lines of JSON.\n"
     "With --complete it prints, for each record, how much of its hidden end the model "
     "generates as it is.",
     "Model generate", .most = SIZE_MAX, .run = run_generate, .passes_unknown = 1},
    {0},
};

int main(int argc, char **argv)
{
    static const struct mds_program program = {&mds_infer_options, subcommands, NULL};
    struct mds_infer_options values = {0};

    return mds_program_run(&program, argc, argv, &values);
}
