/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_infer: what a trained model says of sequences. */
#include "base/log.h"
#include "base/stream.h"
#include "comm/comm.h"
#include "config.h"
#include "infer/embed.h"
#include "infer/generate.h"
#include "infer/genome.h"
#include "infer/variants.h"
#include "io/output.h"
#include "programs/ranks.h"
#include "programs/subcommands.h"
#include "train/dry_run.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    char *load, *tokenizer, *output, *per_token, *track, *vcf, *fasta, *feature;
    int64_t batch_tokens, window, layer, pool_window;
    int strand, score_eod, overwrite, resume, pool, half, variant_at;
    int64_t new_tokens, samples, top_k, seed;
    double temperature, top_p, complete;
};

/* Headings of --help. */
static const char model[] = "Model";
static const char score[] = "score";
static const char embed[] = "embed";
static const char generate[] = "generate";
static const char general[] = "General";

static const char *const types[] = {"f32", "f16", NULL};
static const char *const places[] = {"middle", "end", NULL};

#define AT(field) ((ptrdiff_t)offsetof(struct options, field))

static const struct mds_option rows[] = {
    {model, NULL, "--load", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(load), "folder",
     .help =
         "needed: a folder of checkpoints (its newest), one checkpoint, or a folder "
         "of Hugging Face's transformers",
     .path = MDS_PATH_FOLDER},
    {model, NULL, "--tokenizer", NULL, MDS_OPT_STRING, NULL, 0, 0, mds_tokenizer_names,
     AT(tokenizer), NULL,
     .help = "of an imported model, which does not say; unset: the checkpoint's"},
    {model, NULL, "--fasta", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(fasta), "file",
     .help = "read regions of this FASTA file, plain or compressed by bgzip, which the "
             "files name: BED, or GFF3; or what --vcf is of; its index .fai is made if "
             "it is missing",
     .path = MDS_PATH_FILE},
    {model, NULL, "--feature", NULL, MDS_OPT_STRING, "gene", 0, 0, NULL, AT(feature),
     "type", .help = "of the features of GFF3 to read"},
    {model, NULL, "--batch-tokens", NULL, MDS_OPT_COUNT, "16384", 1, 1e10, NULL,
     AT(batch_tokens), "tokens",
     .help = "evaluated at a time by each copy of the model, at least one sequence"},
    {model, NULL, "--output", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(output),
     "file", .help = "of results; unset: standard output (embed needs it)",
     .path = MDS_PATH_FILE},
    {model, NULL, "--overwrite", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(overwrite),
     NULL, .help = "replace outputs that exist; unset: an error"},
    {model, NULL, "--resume", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(resume), NULL,
     .help = "score: go on behind what --output has already, if that is of the same "
             "model, files and options; embed: leave it if it is complete"},

    {score, NULL, "--strand", NULL, MDS_OPT_ENUM, "forward", 0, 0, mds_infer_strands,
     AT(strand), NULL,
     .help = "which strand to read: as given, its reverse complement, or the mean of "
             "both"},
    {score, NULL, "--score-eod", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(score_eod),
     NULL, .help = "also how likely the sequence ends where it does"},
    {score, NULL, "--per-token", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(per_token),
     "file",
     .help = "HDF5 with the log-likelihood of each token (/loglik, /start, /name), of "
             "the strand that is read first",
     .path = MDS_PATH_FILE},
    {score, NULL, "--track", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(track), "file",
     .help =
         "bedGraph with the log-likelihood of each base, at its place in the genome",
     .path = MDS_PATH_FILE},
    {score, NULL, "--vcf", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(vcf), "file",
     .help =
         "variants (VCF or BCF) to score instead of sequences, in those of --fasta; "
         "--output FILE.vcf, .vcf.gz or .bcf writes them with INFO LLR, LLR_FWD, "
         "LLR_RC and JSD, any other a table",
     .path = MDS_PATH_FILE},
    {score, NULL, "--window", NULL, MDS_OPT_COUNT, "0", 0, 1e10, NULL, AT(window),
     "bases",
     .help = "around each variant; 0: 8192, or as many as the model was trained on if "
             "these are less"},
    {score, NULL, "--variant-at", NULL, MDS_OPT_ENUM, "middle", 0, 0, places,
     AT(variant_at), NULL,
     .help = "where a variant stands in its window; end: the last that is read of "
             "each strand, so that all context is before it"},

    {embed, NULL, "--layer", NULL, MDS_OPT_COUNT, "0", 0, 1e6, NULL, AT(layer), "block",
     .help = "whose output to write, from 1; 0: the last one's, and the final norm"},
    {embed, NULL, "--pool", NULL, MDS_OPT_ENUM, "mean", 0, 0, mds_infer_pools, AT(pool),
     NULL,
     .help = "a row for each sequence, the mean of its tokens or its last token; or a "
             "row for each token"},
    {embed, NULL, "--pool-window", NULL, MDS_OPT_COUNT, "0", 0, 1e12, NULL,
     AT(pool_window), "tokens",
     .help = "pool so many tokens, one stretch after the other; 0: all of a sequence"},
    {embed, NULL, "--output-type", NULL, MDS_OPT_ENUM, "f32", 0, 0, types, AT(half),
     NULL, .help = "of the numbers in the file"},

    {generate, NULL, "--max-new-tokens", NULL, MDS_OPT_COUNT, "256", 1, 1e10, NULL,
     AT(new_tokens), "tokens", .help = "behind each prompt, unless <eod> comes before"},
    {generate, NULL, "--num-samples", NULL, MDS_OPT_INT, "1", 1, 1e6, NULL, AT(samples),
     "number", .help = "of each prompt"},
    {generate, NULL, "--temperature", NULL, MDS_OPT_REAL, "0", 0, 1e3, NULL,
     AT(temperature), "number",
     .help =
         "logits are divided by it before a token is drawn; 0: the likeliest token"},
    {generate, NULL, "--top-k", NULL, MDS_OPT_COUNT, "0", 0, 1e9, NULL, AT(top_k),
     "tokens", .help = "draw one of the likeliest so many; 0: of all"},
    {generate, NULL, "--top-p", NULL, MDS_OPT_REAL, "1", 1e-9, 1, NULL, AT(top_p),
     "share",
     .help = "draw one of the fewest likeliest tokens that have this probability "
             "together"},
    {generate, NULL, "--seed", NULL, MDS_OPT_INT, "1234", 0, 9e15, NULL, AT(seed),
     "number",
     .help = "of what is drawn: the same one draws the same, in any layout and batch"},
    {generate, NULL, "--complete", NULL, MDS_OPT_REAL, "0", 0, 1e10, NULL, AT(complete),
     "share",
     .help = "hide this share of each record's tokens, or from 1 on so many, generate "
             "them, and print how many bases are the same"},

    MDS_OPT_HELP_AND_VERSION(general),
    {.help = NULL},
};

static const struct mds_option_alias aliases[] = {{"-o", "--output", NULL, NULL},
                                                  {.name = NULL}};

static const struct mds_option_set options = {
    .program = "mds_infer",
    .version = PACKAGE_VERSION,
    .synopsis = "SUBCOMMAND [option]... FILE... [mds_pretrain's options]",
    .about =
        "Reads sequences with a trained model. score prints how likely they are, embed "
        "writes hidden states, generate continues them.\n"
        "mds_pretrain's options of layout, numbers and memory follow the files, such "
        "as --context-parallel-size 4, --dtype bf16 or --dry-run; start several ranks "
        "with mpiexec. Variables of the environment are not read.",
    .options = rows,
    .aliases = aliases,
    .operands = "file",
};

/* ---- one subcommand -------------------------------------------------------------- */

static int has_word(const struct mds_invocation *c, const char *word)
{
    for (size_t i = 0; i < c->operand_count; i++)
        if (strcmp(c->operand[i], word) == 0)
            return 1;
    return 0;
}

static enum mds_rc find_model(const struct mds_invocation *c, struct mds_infer_model *m)
{
    const struct options *o = c->settings.values;
    size_t names = mds_invocation_name_count(c);

    if (!o->load)
        return mds_fail(MDS_EUSER, "--load is missing: the model, a folder of "
                                   "checkpoints or of Hugging Face's transformers");
    if (names == 0 && !o->vcf)
        return mds_fail(MDS_EUSER, "no file to read; name it before mds_pretrain's "
                                   "options");
    if (names > 0 && o->vcf)
        return mds_fail(MDS_EUSER, "'%s' and --vcf: score sequences, or variants",
                        c->operand[0]);
    if (o->vcf && !o->fasta)
        return mds_fail(MDS_EUSER,
                        "--vcf and --fasta go together: the variants, and the "
                        "sequences that they are in");
    if (o->vcf && (o->per_token || o->track || o->score_eod))
        return mds_fail(MDS_EUSER,
                        "--per-token, --track and --score-eod are for sequences: leave "
                        "them out with --vcf");
    return mds_infer_model_find(m, o->load, o->tokenizer,
                                (int)(c->operand_count - names + 1),
                                c->operand + names - 1);
}

/* What to do. */
struct task {
    int has_variants, embeds, generates;
    struct mds_infer_embed embed;
    struct mds_infer_generate generate;
    struct mds_infer_score sequences;
    struct mds_infer_variants variants;
};

static struct mds_infer_inputs inputs_of(const struct mds_invocation *c)
{
    const struct options *o = c->settings.values;

    return (struct mds_infer_inputs){.path = c->operand,
                                     .n = mds_invocation_name_count(c),
                                     .fasta = o->fasta,
                                     .feature = o->feature};
}

static struct task task_of(const struct mds_invocation *c)
{
    const struct options *o = c->settings.values;

    return (struct task){.has_variants = o->vcf != NULL,
                         .embed = {.inputs = inputs_of(c),
                                   .output = o->output,
                                   .pool = o->pool,
                                   .window = o->pool_window,
                                   .half = o->half,
                                   .overwrite = o->overwrite,
                                   .resume = o->resume},
                         .generate = {.inputs = inputs_of(c),
                                      .output = o->output,
                                      .new_tokens = o->new_tokens,
                                      .samples = o->samples,
                                      .sampling = {.temperature = o->temperature,
                                                   .top_k = o->top_k,
                                                   .top_p = o->top_p,
                                                   .seed = (uint64_t)o->seed},
                                      .complete = o->complete,
                                      .overwrite = o->overwrite},
                         .sequences = {.inputs = inputs_of(c),
                                       .output = o->output,
                                       .per_token = o->per_token,
                                       .track = o->track,
                                       .strand = o->strand,
                                       .score_eod = o->score_eod,
                                       .overwrite = o->overwrite,
                                       .resume = o->resume},
                         .variants = {.vcf = o->vcf,
                                      .fasta = o->fasta,
                                      .output = o->output,
                                      .window = o->window,
                                      .strand = o->strand,
                                      .at_end = o->variant_at,
                                      .overwrite = o->overwrite,
                                      .resume = o->resume}};
}

static enum mds_rc measure(struct task *t, const struct mds_infer_model *m,
                           struct mds_infer_need *need)
{
    if (t->generates)
        return mds_infer_generate_measure(&t->generate, m, need);
    return t->has_variants ? mds_infer_variants_measure(&t->variants, m, need)
                           : mds_infer_score_measure(&t->sequences, m, need);
}

/* No output may replace an input, with --overwrite neither. */
static enum mds_rc check_outputs(const struct mds_invocation *c)
{
    const struct options *o = c->settings.values;
    const struct mds_infer_inputs in = inputs_of(c);
    const char *const output[] = {o->output, o->per_token, o->track};

    for (int k = 0; k < 3; k++) {
        MDS_TRY(mds_output_check_apart(output[k], o->vcf));
        MDS_TRY(mds_output_check_apart(output[k], o->fasta));
        for (size_t i = 0; i < in.n; i++)
            MDS_TRY(mds_output_check_apart(output[k], in.path[i]));
    }
    return MDS_OK;
}

/* ranks 0: as many as the layout needs. */
static enum mds_rc prepare(const struct mds_invocation *c, struct task *t,
                           struct mds_infer_model *m, int64_t ranks)
{
    const struct options *o = c->settings.values;
    struct mds_infer_need need = {.batch_tokens = o->batch_tokens};

    MDS_TRY(check_outputs(c));
    MDS_TRY(find_model(c, m));
    if (t->embeds)
        MDS_TRY(mds_infer_model_want_hidden(m, o->layer));
    if (t->generates)
        MDS_TRY(mds_infer_model_want_generation(m));
    if (t->has_variants)
        mds_infer_model_want_logits(m);
    MDS_TRY(measure(t, m, &need));
    return mds_infer_model_resolve(m, &need, ranks);
}

/* Rank 0 makes the index of --fasta, if there is none, and the others wait. */
static enum mds_rc make_index(const struct mds_invocation *c, const struct mds_world *w)
{
    const struct options *o = c->settings.values;
    struct mds_comm *world;
    enum mds_rc rc;

    if (!o->fasta)
        return MDS_OK;
    if (w->rank == 0)
        MDS_TRY(mds_genome_index(o->fasta));
    MDS_TRY(mds_comm_create_world(w->ranks, "index", &world));
    rc = mds_comm_barrier(world);
    mds_comm_destroy(world);
    return rc;
}

/* Without MPI, so that it works on a login node. */
static enum mds_rc dry_run(const struct mds_invocation *c, struct task *t)
{
    const struct options *o = c->settings.values;
    struct mds_infer_model m = {.path = ""};
    enum mds_rc rc = o->fasta ? mds_genome_index(o->fasta) : MDS_OK;

    if (!rc)
        rc = prepare(c, t, &m, 0);
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

static enum mds_rc run_task(const struct task *t, struct mds_infer_model *m)
{
    if (t->embeds)
        return mds_infer_embed_run(&t->embed, m);
    if (t->generates)
        return mds_infer_generate_run(&t->generate, m);
    return t->has_variants ? mds_infer_variants_run(&t->variants, m)
                           : mds_infer_score_run(&t->sequences, m);
}

static enum mds_rc run(const struct mds_invocation *c, struct task t)
{
    struct mds_infer_model m = {.path = ""};
    struct mds_world world = {.ranks = 1};
    enum mds_rc rc;

    if (has_word(c, "--dry-run"))
        return dry_run(c, &t);
    rc = mds_world_init(&world);
    init_log(&world, NULL);
    if (!rc)
        rc = make_index(c, &world);
    if (!rc)
        rc = prepare(c, &t, &m, world.ranks);
    if (!rc) {
        init_log(&world, &m);
        mds_comm_set_timeout_s(m.run->config.parallel.timeout_s);
        rc = mds_infer_model_start(&m, &world);
    }
    if (!rc)
        rc = run_task(&t, &m);
    if (!rc) /* has a time limit; MPI_Finalize would wait for a stuck rank forever */
        rc = mds_comm_barrier(mds_group(&m.groups, MDS_AXES_ALL));
    if (rc)
        mds_ranks_fail(&world, rc);
    mds_infer_model_log_memory(&m);
    mds_infer_model_close(&m);
    mds_ranks_flush_output(&world);
    mds_log_repeat_warnings();
    mds_world_end(&world, EXIT_SUCCESS);
}

static enum mds_rc run_score(const struct mds_invocation *c)
{
    const struct options *o = c->settings.values;

    if (o->resume && (!o->output || o->overwrite || o->per_token || o->track))
        return mds_fail(MDS_EUSER,
                        "--resume goes on with the table or VCF of --output; "
                        "%s",
                        o->output ? "leave out --overwrite, --per-token and --track"
                                  : "name it");
    return run(c, task_of(c));
}

static enum mds_rc run_embed(const struct mds_invocation *c)
{
    const struct options *o = c->settings.values;
    struct task t = task_of(c);

    t.embeds = 1;
    if (!o->output)
        return mds_fail(MDS_EUSER, "--output is missing: the HDF5 file to write");
    if (o->resume && o->overwrite)
        return mds_fail(MDS_EUSER, "--resume leaves an output that is complete, and "
                                   "--overwrite replaces it: leave out one of them");
    if (o->pool_window > 0 && o->pool == MDS_INFER_POOL_NONE)
        return mds_fail(MDS_EUSER, "--pool-window and --pool none: a row for a window, "
                                   "or for each token");
    return run(c, t);
}

/* Whether the command line has an option. */
static int is_given(const struct mds_invocation *c, const char *flag)
{
    const struct mds_settings *s = &c->settings;

    for (size_t i = 0; i < s->rows; i++)
        if (s->set->options[i].flag && strcmp(s->set->options[i].flag, flag) == 0)
            return s->of[i].level == MDS_LEVEL_CLI;
    return 0;
}

/* Options that would do nothing. */
static enum mds_rc check_generate(const struct mds_invocation *c)
{
    static const char *const drawn[] = {"--top-k", "--top-p", "--seed", "--num-samples",
                                        NULL};
    const struct options *o = c->settings.values;

    if (o->resume)
        return mds_fail(MDS_EUSER, "--resume is for score and embed; leave it out");
    if (o->complete >= 1 && o->complete != (double)(int64_t)o->complete)
        return mds_fail(MDS_EUSER,
                        "--complete %g: give a share below 1, or a number of tokens",
                        o->complete);
    if (o->complete > 0 &&
        (is_given(c, "--max-new-tokens") || is_given(c, "--temperature")))
        return mds_fail(
            MDS_EUSER, "--complete generates as many tokens as it hides, the likeliest "
                       "ones: leave out --max-new-tokens and --temperature");
    for (int i = 0; drawn[i] && o->temperature == 0; i++)
        if (is_given(c, drawn[i]))
            return mds_fail(MDS_EUSER,
                            "%s: nothing is drawn without --temperature: the likeliest "
                            "token comes next; give both, or neither",
                            drawn[i]);
    return MDS_OK;
}

static enum mds_rc run_generate(const struct mds_invocation *c)
{
    struct task t = task_of(c);

    t.generates = 1;
    MDS_TRY(check_generate(c));
    return run(c, t);
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
    static const struct mds_program program = {&options, subcommands, NULL};
    struct options values = {0};

    return mds_program_run(&program, argc, argv, &values);
}
