/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/infer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "infer/command.h"
#include "infer/genome.h"
#include "launch/argv.h"
#include "launch/infer_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- a command line of mds_infer, read as it reads it ---- */

struct infer_line {
    struct mds_argv argv;
    struct mds_infer_options values;
    struct mds_option_set set;
    struct mds_option *rows;
    struct mds_settings settings;
    struct mds_infer_command command; /* borrows all of them: the line may not move */
};

static enum mds_rc find_verb(const char *word, enum mds_infer_verb *out)
{
    for (int i = 0; word && mds_infer_verbs[i].name; i++)
        if (strcmp(word, mds_infer_verbs[i].name) == 0) {
            *out = (enum mds_infer_verb)i;
            return MDS_OK;
        }
    return mds_fail(MDS_EUSER,
                    "--program mds_infer: behind -- write score, embed or generate, "
                    "and its options%s%s",
                    word ? ", not " : "", word ? word : "");
}

static enum mds_rc read_words(struct infer_line *l)
{
    struct mds_diag diag = {0};
    enum mds_rc rc;

    mds_settings_read_args(&l->settings, (int)l->argv.n, l->argv.v, &diag);
    mds_settings_check_paths(&l->settings, &diag);
    rc = mds_diag_result(&diag);
    mds_diag_fini(&diag);
    if (!rc && l->settings.action)
        rc = mds_fail(MDS_EUSER, "options that only print, such as --help, need no "
                                 "launcher: call mds_infer itself");
    return rc;
}

static size_t count_files(const struct mds_infer_command *c)
{
    size_t n = 0;

    while (n < c->operands && strncmp(c->operand[n], "--", 2) != 0)
        n++;
    return n;
}

static enum mds_rc infer_line_read(struct infer_line *out, const struct mds_argv *words)
{
    struct mds_infer_command *c = &out->command;

    *out = (struct infer_line){.set = mds_infer_options};
    mds_argv_add(&out->argv, "mds_infer");
    mds_argv_add_words(&out->argv, words->n, words->v);
    if (out->argv.failed)
        return mds_fail(MDS_EMEM, "no host memory for arguments");
    MDS_TRY(find_verb(out->argv.v[1], &c->verb));
    MDS_TRY(mds_option_set_select(&mds_infer_options, mds_infer_verbs[c->verb].groups,
                                  &out->rows));
    out->set.options = out->rows;
    out->set.others = mds_infer_options.options;
    out->set.passes_unknown = 1;
    MDS_TRY(mds_settings_init(&out->settings, &out->set, &out->values));
    MDS_TRY(read_words(out));
    c->settings = &out->settings;
    c->operand = out->settings.operands + 1;
    c->operands = out->settings.operand_count - 1;
    c->files = count_files(c);
    for (size_t i = c->files; i < c->operands; i++)
        if (strcmp(c->operand[i], "--dry-run") == 0)
            return mds_fail(MDS_EUSER, "--dry-run: use `mds_launch plan`, or call "
                                       "mds_infer itself");
    return mds_infer_command_check(c);
}

static void infer_line_close(struct infer_line *l)
{
    if (l->rows)
        mds_settings_fini(&l->settings);
    free(l->rows);
    mds_argv_fini(&l->argv);
}

/* Jobs of an array take every n-th, so the largest are dealt out first. */
static int by_size(const void *a, const void *b)
{
    struct stat x = {0}, y = {0};

    if (stat(*(char *const *)a, &x) || stat(*(char *const *)b, &y))
        return 0;
    return (x.st_size < y.st_size) - (x.st_size > y.st_size);
}

/* The subcommand and mds_infer's options, its files, and mds_pretrain's options. */
static void split_line(struct infer_line *l, struct mds_infer_plan *p)
{
    struct mds_infer_command *c = &l->command;
    char **operand = l->settings.operands + 1;
    size_t next = 0;

    for (size_t i = 1; i < l->argv.n; i++)
        if (next < c->operands && operand[next] == l->argv.v[i])
            next++;
        else
            mds_argv_add(&p->own, "%s", l->argv.v[i]);
    if (p->jobs > 1)
        qsort(operand, c->files, sizeof *operand, by_size);
    mds_argv_add_words(&p->files, c->files, operand);
    mds_argv_add_words(&p->passed, c->operands - c->files, operand + c->files);
}

int mds_launch_infers(const struct mds_launch_options *o)
{
    const char *slash = o->program ? strrchr(o->program, '/') : NULL;

    return o->program && strcmp(slash ? slash + 1 : o->program, "mds_infer") == 0;
}

void mds_infer_plan_close(struct mds_infer_plan *p)
{
    mds_argv_fini(&p->own);
    mds_argv_fini(&p->files);
    mds_argv_fini(&p->passed);
    mds_argv_fini(&p->output);
    mds_infer_model_close(&p->model);
}

/* ---- what the user asks for ---- */

/* A job that goes on needs --resume, which does no harm in the first one.  A file of
 * embed is complete, or not there. */
static void add_resume(struct infer_line *line, struct mds_infer_plan *p)
{
    struct mds_infer_options *o = &line->values;

    p->resumes = line->command.verb == MDS_INFER_SCORE
                     ? o->output && !o->overwrite && !o->per_token && !o->track
                     : line->command.verb == MDS_INFER_EMBED && !o->overwrite &&
                           mds_infer_command_has_many_outputs(&line->command);
    if (p->resumes && !o->resume)
        mds_argv_add(&p->own, "--resume");
    o->resume |= p->resumes;
}

static enum mds_rc list_outputs(const struct infer_line *line, struct mds_infer_plan *p)
{
    const struct mds_infer_command *c = &line->command;
    size_t n = mds_infer_command_has_many_outputs(c) ? c->files : 1;

    for (size_t i = 0; line->values.output && i < n; i++) {
        char *name = mds_infer_command_output(c, i);

        if (!name)
            return mds_fail(MDS_EMEM, "no host memory for the name of an output");
        mds_argv_add(&p->output, "%s", name);
        free(name);
    }
    return MDS_OK;
}

static void add_device(const struct mds_launch *l, const struct mds_config_run *asked,
                       struct mds_argv *out)
{
    if (l->machine->node.gpus > 0 &&
        mds_settings_of(&asked->settings, "train.device")->level == MDS_LEVEL_DEFAULT)
        mds_argv_add_split(out, "--device cuda");
}

/* ---- how much there is ---- */

static double bytes_of(const struct mds_argv *files)
{
    struct stat st;
    double sum = 0;

    for (size_t i = 0; i < files->n; i++)
        if (stat(files->v[i], &st) == 0)
            sum += (double)st.st_size;
    return sum;
}

static void estimate_tokens(struct mds_infer_plan *p)
{
    double all = bytes_of(&p->files), read = (double)p->need.read_bytes;

    p->tokens = (double)p->need.tokens;
    p->sequences = p->generates ? (double)p->need.sequences : 0;
    p->new_tokens = (double)p->need.new_tokens;
    if (mds_max(p->need.tokens, p->need.sequences) >= INT64_MAX / 2) {
        p->tokens = p->sequences = 0; /* standard input */
    } else if (p->need.cut && read > 0) {
        p->tokens *= all / read;
        p->sequences *= all / read;
        p->new_tokens *= all / read;
    }
}

static enum mds_rc measure(const struct mds_launch *l, struct infer_line *line,
                           const struct mds_infer_model *m, struct mds_infer_plan *p)
{
    char part[32], all[32], tokens[32];

    if (line->values.fasta)
        MDS_TRY(mds_genome_index(line->values.fasta));
    p->generates = line->command.verb == MDS_INFER_GENERATE;
    p->need.until_s = mds_clock_s() + l->options->plan_s;
    MDS_TRY(mds_infer_command_measure(&line->command, m, &p->need));
    estimate_tokens(p);
    if (p->need.cut)
        mds_info("%.3g s were enough for %s of %s of the files: their longest sequence "
                 "has %s tokens so far; with more --plan-seconds all are read here",
                 l->options->plan_s,
                 mds_format_bytes((double)p->need.read_bytes, part, sizeof part),
                 mds_format_bytes(bytes_of(&p->files), all, sizeof all),
                 mds_format_count((double)p->need.longest, tokens, sizeof tokens));
    return MDS_OK;
}

/* ---- a plan ---- */

/* A job has no standard input. */
static enum mds_rc check_job_inputs(const struct infer_line *line)
{
    const struct mds_infer_command *c = &line->command;
    int any = line->values.vcf && strcmp(line->values.vcf, "-") == 0;

    for (size_t i = 0; i < c->files; i++)
        any |= strcmp(c->operand[i], "-") == 0;
    return any ? mds_fail(MDS_EUSER, "-: a job has no standard input to read; name a "
                                     "file")
               : MDS_OK;
}

/* Each job of an array has files, and outputs, of its own. */
static enum mds_rc check_array(const struct infer_line *line,
                               const struct mds_infer_plan *p)
{
    if (p->jobs == 1)
        return MDS_OK;
    if (!mds_infer_command_has_many_outputs(&line->command))
        return mds_fail(MDS_EUSER,
                        "--array %lld: its jobs cannot write one --output; give one "
                        "with a {}, which stands for the name of an input",
                        (long long)p->jobs);
    if (p->files.n < (size_t)p->jobs)
        return mds_fail(MDS_EUSER,
                        "--array %lld: there are only %zu files to share; give %zu at "
                        "most",
                        (long long)p->jobs, p->files.n, p->files.n);
    return MDS_OK;
}

static enum mds_rc read_asked(const struct mds_launch *l, struct infer_line *line,
                              struct mds_infer_model *m, struct mds_infer_plan *p)
{
    MDS_TRY(infer_line_read(line, &l->asked));
    if (p->jobs > 0)
        MDS_TRY(check_job_inputs(line));
    p->jobs = mds_max(p->jobs, 1);
    split_line(line, p);
    add_resume(line, p);
    MDS_TRY(check_array(line, p));
    MDS_TRY(list_outputs(line, p));
    MDS_TRY(mds_infer_command_check_outputs(&line->command));
    MDS_TRY(mds_infer_command_find(&line->command, m));
    add_device(l, m->run, &p->passed);
    MDS_TRY(mds_launch_check_device(l, m->run));
    MDS_TRY(measure(l, line, m, p));
    MDS_TRY(mds_infer_layout_choose(l, &line->command, p->tokens / (double)p->jobs,
                                    m->run, p));
    return p->best < 0 ? MDS_OK
                       : mds_infer_command_check_begun(&line->command, &p->model);
}

enum mds_rc mds_infer_plan_make(const struct mds_launch *l, int64_t jobs,
                                struct mds_infer_plan *out)
{
    struct mds_infer_model m = {.path = ""};
    struct infer_line line = {.rows = NULL};
    enum mds_rc rc;

    *out = (struct mds_infer_plan){.best = -1, .jobs = jobs};
    rc = read_asked(l, &line, &m, out);
    mds_infer_model_close(&m);
    infer_line_close(&line);
    return rc;
}

void mds_infer_plan_arguments(const struct mds_infer_plan *p, struct mds_argv *out)
{
    mds_argv_add_words(out, p->own.n, p->own.v);
    mds_argv_add_words(out, p->files.n, p->files.v);
    mds_argv_add_words(out, p->passed.n, p->passed.v);
}

int64_t mds_infer_plan_written(const struct mds_infer_plan *p)
{
    return (int64_t)bytes_of(&p->output);
}

enum mds_rc mds_infer_plan_command(const struct mds_launch_options *o, int argc,
                                   char *const *argv)
{
    struct mds_infer_plan p = {.best = -1};
    struct mds_launch l;
    enum mds_rc rc;

    MDS_TRY(mds_launch_open(o, 1, argc, argv, &l));
    rc = mds_infer_plan_make(&l, 0, &p);
    if (!rc) {
        printf("mds_infer %s, %zu file%s, %lld rank%s: %lld node%s of %s\n", p.own.v[0],
               p.files.n, mds_plural((int64_t)p.files.n), (long long)l.ranks,
               mds_plural(l.ranks), (long long)l.nodes, mds_plural(l.nodes),
               l.machine->name);
        mds_infer_plan_print(&l, &p, stdout);
        rc = mds_infer_plan_check(&l, &p);
    }
    mds_infer_plan_close(&p);
    mds_launch_close(&l);
    return rc;
}
