/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/command.h"
#include "base/alloc.h"
#include "base/str.h"
#include "infer/origin.h"
#include "io/folder.h"
#include "io/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct mds_infer_verb_row mds_infer_verbs[] = {{"score", "Model score"},
                                                     {"embed", "Model embed"},
                                                     {"generate", "Model generate"},
                                                     {0}};

static const struct mds_infer_options *options_of(const struct mds_infer_command *c)
{
    return c->settings->values;
}

/* ---- options that do not go together ---- */

static enum mds_rc check_score(const struct mds_infer_options *o)
{
    if (o->resume && (!o->output || o->overwrite || o->per_token || o->track))
        return mds_fail(MDS_EUSER,
                        "--resume goes on with the table or VCF of --output; "
                        "%s",
                        o->output ? "leave out --overwrite, --per-token and --track"
                                  : "name it");
    return MDS_OK;
}

static enum mds_rc check_embed(const struct mds_infer_options *o)
{
    if (!o->output)
        return mds_fail(MDS_EUSER, "--output is missing: the HDF5 file to write");
    if (o->resume && o->overwrite)
        return mds_fail(MDS_EUSER, "--resume leaves an output that is complete, and "
                                   "--overwrite replaces it: leave out one of them");
    if (o->pool_window > 0 && o->pool == MDS_INFER_POOL_NONE)
        return mds_fail(MDS_EUSER, "--pool-window and --pool none: a row for a window, "
                                   "or for each token");
    return MDS_OK;
}

/* Whether the command line has an option. */
static int is_given(const struct mds_infer_command *c, const char *flag)
{
    const struct mds_settings *s = c->settings;

    for (size_t i = 0; i < s->rows; i++)
        if (s->set->options[i].flag && strcmp(s->set->options[i].flag, flag) == 0)
            return s->of[i].level == MDS_LEVEL_CLI;
    return 0;
}

/* Options that would do nothing. */
static enum mds_rc check_generate(const struct mds_infer_command *c)
{
    static const char *const drawn[] = {"--top-k", "--top-p", "--seed", "--num-samples",
                                        NULL};
    const struct mds_infer_options *o = options_of(c);

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

static enum mds_rc check_inputs(const struct mds_infer_command *c)
{
    const struct mds_infer_options *o = options_of(c);

    if (!o->load)
        return mds_fail(MDS_EUSER, "--load is missing: the model, a folder of "
                                   "checkpoints or of Hugging Face's transformers");
    if (c->files == 0 && !o->vcf)
        return mds_fail(MDS_EUSER, "no file to read; name it before mds_pretrain's "
                                   "options");
    if (c->files > 0 && o->vcf)
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
    return MDS_OK;
}

enum mds_rc mds_infer_command_check(const struct mds_infer_command *c)
{
    const struct mds_infer_options *o = options_of(c);

    MDS_TRY(c->verb == MDS_INFER_SCORE   ? check_score(o)
            : c->verb == MDS_INFER_EMBED ? check_embed(o)
                                         : check_generate(c));
    return check_inputs(c);
}

/* ---- outputs ---- */

static const char braces[] = "{}";

int mds_infer_command_has_many_outputs(const struct mds_infer_command *c)
{
    const struct mds_infer_options *o = options_of(c);

    return o->output && strstr(o->output, braces) != NULL;
}

/* How often the task is done, each time with one output. */
static size_t count_tasks(const struct mds_infer_command *c)
{
    return mds_infer_command_has_many_outputs(c) && c->files > 0 ? c->files : 1;
}

/* "a/genes.fa.gz" has genes. */
static void add_stem(struct mds_str *out, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot;
    int n = (int)strlen(name);

    if (n > 3 && strcmp(name + n - 3, ".gz") == 0)
        n -= 3;
    dot = memrchr(name, '.', (size_t)n);
    mds_str_add(out, "%.*s", dot && dot > name ? (int)(dot - name) : n, name);
}

static char *expand(const char *pattern, const char *input)
{
    struct mds_str out = {0};
    const char *at;

    if (!pattern)
        return NULL;
    while ((at = strstr(pattern, braces))) {
        mds_str_add(&out, "%.*s", (int)(at - pattern), pattern);
        add_stem(&out, input);
        pattern = at + strlen(braces);
    }
    mds_str_add(&out, "%s", pattern);
    if (out.failed) {
        mds_str_fini(&out);
        return NULL;
    }
    return out.s;
}

static const char *input_of(const struct mds_infer_command *c, size_t i)
{
    return c->files > 0 ? c->operand[i] : options_of(c)->vcf;
}

char *mds_infer_command_output(const struct mds_infer_command *c, size_t i)
{
    return expand(options_of(c)->output, input_of(c, i));
}

/* What the outputs of one input are. */
struct outputs {
    char *table, *per_token, *track;
};

static void free_outputs(struct outputs *o)
{
    free(o->table);
    free(o->per_token);
    free(o->track);
}

static enum mds_rc name_outputs(const struct mds_infer_command *c, size_t i,
                                struct outputs *out)
{
    const struct mds_infer_options *o = options_of(c);

    *out = (struct outputs){.table = mds_infer_command_output(c, i),
                            .per_token = expand(o->per_token, input_of(c, i)),
                            .track = expand(o->track, input_of(c, i))};
    if (!out->table == !o->output && !out->per_token == !o->per_token &&
        !out->track == !o->track)
        return MDS_OK;
    free_outputs(out);
    return mds_fail(MDS_EMEM, "no host memory for the name of an output");
}

/* A job is not to wait for its turn only to find no folder. */
static enum mds_rc check_folder(const char *output)
{
    const char *slash = output ? strrchr(output, '/') : NULL;
    char folder[MDS_PATH_SIZE];
    struct stat s;

    if (!slash || slash == output)
        return MDS_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - output), output);
    return stat(folder, &s) == 0 && S_ISDIR(s.st_mode)
               ? MDS_OK
               : mds_fail(MDS_EUSER, "%s: there is no folder %s; make it first", output,
                          folder);
}

/* No output may replace an input, with --overwrite neither. */
static enum mds_rc check_outputs_of(const struct mds_infer_command *c,
                                    const struct outputs *of, const struct stat *inputs)
{
    const struct mds_infer_options *o = options_of(c);
    const char *const all[] = {of->table, of->per_token, of->track};

    for (int k = 0; k < 3; k++)
        if (all[k]) {
            MDS_TRY(check_folder(all[k]));
            MDS_TRY(mds_output_check_apart(all[k], inputs, c->files + 2));
        }
    return of->table && !o->resume ? mds_output_check_new(of->table, o->overwrite)
                                   : MDS_OK;
}

/* An output and its input. */
struct named {
    char *output;
    const char *input;
};

static int by_output(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->output, ((const struct named *)b)->output);
}

static enum mds_rc check_names(struct named *list, size_t n)
{
    qsort(list, n, sizeof *list, by_output);
    for (size_t i = 1; i < n; i++)
        if (by_output(&list[i - 1], &list[i]) == 0)
            return mds_fail(MDS_EUSER,
                            "%s and %s would both be written to %s; rename one",
                            list[i - 1].input, list[i].input, list[i].output);
    return MDS_OK;
}

static void stat_inputs(const struct mds_infer_command *c, struct stat *out)
{
    const struct mds_infer_options *o = options_of(c);
    const char *const others[] = {o->vcf, o->fasta};

    for (size_t i = 0; i < c->files + 2; i++) {
        const char *path = i < 2 ? others[i] : c->operand[i - 2];

        if (path && stat(path, &out[i]))
            out[i] = (struct stat){0};
    }
}

static enum mds_rc check_each_output(const struct mds_infer_command *c)
{
    size_t n = count_tasks(c), named = 0;
    struct stat *inputs = mds_zalloc(c->files + 2, sizeof *inputs);
    struct named *list = mds_zalloc(n, sizeof *list);
    enum mds_rc rc = inputs && list ? MDS_OK : MDS_EMEM;

    if (!rc)
        stat_inputs(c, inputs);
    for (size_t i = 0; !rc && i < n; i++) {
        struct outputs of;

        rc = name_outputs(c, i, &of);
        if (rc)
            break;
        rc = check_outputs_of(c, &of, inputs);
        if (of.table) {
            list[named++] = (struct named){of.table, input_of(c, i)};
            of.table = NULL;
        }
        free_outputs(&of);
    }
    if (!rc)
        rc = check_names(list, named);
    while (named > 0)
        free(list[--named].output);
    free(list);
    free(inputs);
    return rc;
}

enum mds_rc mds_infer_command_check_outputs(const struct mds_infer_command *c)
{
    const struct mds_infer_options *o = options_of(c);
    const char *const others[] = {o->per_token, o->track};
    static const char *const flags[] = {"--per-token", "--track"};
    int many = mds_infer_command_has_many_outputs(c);

    for (int k = 0; k < 2; k++)
        if (others[k] && (strstr(others[k], braces) != NULL) != many)
            return mds_fail(MDS_EUSER,
                            "%s %s: needs a {} if --output has one, and only then",
                            flags[k], others[k]);
    return check_each_output(c);
}

/* ---- what to do ---- */

struct task {
    struct mds_infer_embed embed;
    struct mds_infer_generate generate;
    struct mds_infer_score sequences;
    struct mds_infer_variants variants;
};

static struct mds_infer_inputs inputs_of(const struct mds_infer_command *c)
{
    const struct mds_infer_options *o = options_of(c);

    return (struct mds_infer_inputs){
        .path = c->operand, .n = c->files, .fasta = o->fasta, .feature = o->feature};
}

static struct task task_of(const struct mds_infer_command *c,
                           struct mds_infer_inputs inputs, const struct outputs *out)
{
    const struct mds_infer_options *o = options_of(c);

    return (struct task){.embed = {.inputs = inputs,
                                   .output = out->table,
                                   .pool = o->pool,
                                   .window = o->pool_window,
                                   .half = o->half,
                                   .overwrite = o->overwrite,
                                   .resume = o->resume},
                         .generate = {.inputs = inputs,
                                      .output = out->table,
                                      .new_tokens = o->new_tokens,
                                      .samples = o->samples,
                                      .sampling = {.temperature = o->temperature,
                                                   .top_k = o->top_k,
                                                   .top_p = o->top_p,
                                                   .seed = (uint64_t)o->seed},
                                      .complete = o->complete,
                                      .overwrite = o->overwrite},
                         .sequences = {.inputs = inputs,
                                       .output = out->table,
                                       .per_token = out->per_token,
                                       .track = out->track,
                                       .strand = o->strand,
                                       .score_eod = o->score_eod,
                                       .overwrite = o->overwrite,
                                       .resume = o->resume},
                         .variants = {.vcf = o->vcf,
                                      .fasta = o->fasta,
                                      .output = out->table,
                                      .window = c->window ? c->window : o->window,
                                      .strand = o->strand,
                                      .at_end = o->variant_at,
                                      .overwrite = o->overwrite,
                                      .resume = o->resume}};
}

enum mds_rc mds_infer_command_find(const struct mds_infer_command *c,
                                   struct mds_infer_model *m)
{
    const struct mds_infer_options *o = options_of(c);

    MDS_TRY(mds_infer_model_find(m, o->load, o->tokenizer,
                                 (int)(c->operands - c->files + 1),
                                 c->operand + c->files - 1));
    if (c->verb == MDS_INFER_EMBED)
        return mds_infer_model_want_hidden(m, o->layer);
    if (c->verb == MDS_INFER_GENERATE)
        return mds_infer_model_want_generation(m);
    if (o->vcf)
        mds_infer_model_want_logits(m);
    return o->marginal_bases ? mds_infer_model_want_marginals(m) : MDS_OK;
}

enum mds_rc mds_infer_command_measure(struct mds_infer_command *c,
                                      const struct mds_infer_model *m,
                                      struct mds_infer_need *need)
{
    const struct mds_infer_options *o = options_of(c);
    const struct outputs named = {o->output, o->per_token, o->track};
    struct task t = task_of(c, inputs_of(c), &named);

    need->batch_tokens = o->batch_tokens;
    if (c->verb == MDS_INFER_GENERATE)
        return mds_infer_generate_measure(&t.generate, m, need);
    if (!o->vcf)
        return mds_infer_score_measure(&t.sequences, m, need);
    MDS_TRY(mds_infer_variants_measure(&t.variants, m, need));
    c->window = t.variants.window;
    return MDS_OK;
}

static enum mds_rc run_task(const struct mds_infer_command *c, const struct task *t,
                            struct mds_infer_model *m)
{
    if (c->verb == MDS_INFER_EMBED)
        return mds_infer_embed_run(&t->embed, m);
    if (c->verb == MDS_INFER_GENERATE)
        return mds_infer_generate_run(&t->generate, m);
    return t->variants.vcf ? mds_infer_variants_run(&t->variants, m)
                           : mds_infer_score_run(&t->sequences, m);
}

/* What rank 0 will find, where the task goes on with an output. */
static enum mds_rc check_begun(const struct mds_infer_command *c, const struct task *t,
                               struct mds_infer_model *m)
{
    struct mds_str lines = {0};
    enum mds_rc rc;
    int begun;

    if (c->verb == MDS_INFER_EMBED)
        mds_infer_embed_origin(&t->embed, m, &lines);
    else if (t->variants.vcf)
        mds_infer_variants_origin(&t->variants, m, &lines);
    else
        mds_infer_score_origin(&t->sequences, m, &lines);
    rc = mds_infer_origin_check(t->embed.output, &lines, &begun);
    mds_str_fini(&lines);
    return rc;
}

/* Call do_task for each. */
static enum mds_rc
each_task(const struct mds_infer_command *c, struct mds_infer_model *m,
          enum mds_rc (*do_task)(const struct mds_infer_command *c,
                                 const struct task *t, struct mds_infer_model *m))
{
    size_t n = count_tasks(c);

    for (size_t i = 0; i < n; i++) {
        struct mds_infer_inputs inputs = inputs_of(c);
        struct outputs out;
        struct task t;
        enum mds_rc rc;

        MDS_TRY(name_outputs(c, i, &out));
        if (n > 1) {
            inputs.path += i;
            inputs.n = 1;
        }
        t = task_of(c, inputs, &out);
        rc = do_task(c, &t, m);
        free_outputs(&out);
        MDS_TRY(rc);
    }
    return MDS_OK;
}

enum mds_rc mds_infer_command_run(const struct mds_infer_command *c,
                                  struct mds_infer_model *m)
{
    return each_task(c, m, run_task);
}

enum mds_rc mds_infer_command_check_begun(const struct mds_infer_command *c,
                                          struct mds_infer_model *m)
{
    return options_of(c)->resume ? each_task(c, m, check_begun) : MDS_OK;
}

const char *mds_infer_events_path(char *const *word, size_t n)
{
    static const char flag[] = "--events";
    const size_t length = sizeof flag - 1;
    const char *path = NULL;

    for (size_t i = 0; i < n; i++)
        if (strncmp(word[i], "--events=", length + 1) == 0)
            path = word[i] + length + 1;
        else if (strcmp(word[i], flag) == 0 && i + 1 < n)
            path = word[i + 1];
    return path;
}
