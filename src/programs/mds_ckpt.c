/* mds_ckpt: what checkpoints hold, whether they are sound, and what they weigh. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "base/str.h"
#include "base/units.h"
#include "ckpt/folder.h"
#include "ckpt/reader.h"
#include "ckpt/safetensors.h"
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage_text[] =
    "usage: mds_ckpt info [--config] [--tensors] PATH\n"
    "       mds_ckpt verify [--all] PATH\n"
    "       mds_ckpt prune --keep-last N [--keep-every M] [--dry-run] FOLDER\n"
    "       mds_ckpt export --output FILE.safetensors PATH\n"
    "\n"
    "PATH is a folder of checkpoints (of its newest, then) or one of them.\n"
    "\n"
    "info    prints iteration, size, layout and origin\n"
    "  --config                the configuration of the run instead, as YAML\n"
    "  --tensors               names and shapes of tensors as well\n"
    "\n"
    "verify  reads everything and compares all checksums\n"
    "  --all                   of every checkpoint in the folder\n"
    "\n"
    "prune   removes checkpoints, never the newest\n"
    "  --keep-last N           but the last N\n"
    "  --keep-every M          and those of iterations that M divides\n"
    "  --dry-run               only say how many\n"
    "\n"
    "export  writes the weights, f32, under the names they have here\n"
    "  --output FILE.safetensors\n"
    "                          appears when complete\n"
    "\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 done and sound, 1 failed or damaged.\n";

/* Values past ASCII, so that no option has a one-letter form. */
enum {
    CONFIG = 256,
    TENSORS,
    ALL,
    KEEP_LAST,
    KEEP_EVERY,
    DRY_RUN,
    OUTPUT,
    HELP,
    VERSION
};

struct arguments {
    int config, tensors, all, dry_run;
    int64_t keep_last, keep_every;
    const char *output;
    char *path;
};

static const struct option info_options[] = {
    {"config", no_argument, NULL, CONFIG},
    {"tensors", no_argument, NULL, TENSORS},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {0},
};
static const struct option verify_options[] = {
    {"all", no_argument, NULL, ALL},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {0},
};
static const struct option prune_options[] = {
    {"keep-last", required_argument, NULL, KEEP_LAST},
    {"keep-every", required_argument, NULL, KEEP_EVERY},
    {"dry-run", no_argument, NULL, DRY_RUN},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {0},
};
static const struct option export_options[] = {
    {"output", required_argument, NULL, OUTPUT},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {0},
};

/* ---- arguments ------------------------------------------------------------------- */

static int finish(enum mds_rc rc)
{
    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = mds_fail(MDS_EIO, "standard output: %s", strerror(errno));
    if (rc)
        mds_error("%s", mds_fail_text());
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

static enum mds_rc take_count(const char *option, const char *text, int64_t *out)
{
    int64_t value;

    if (mds_parse_count(text, &value) != 0 || value < 0)
        return mds_fail(MDS_EUSER, "%s '%s': give a whole number, 0 or more", option,
                        text);
    *out = value;
    return MDS_OK;
}

static enum mds_rc take(int option, const char *value, struct arguments *a)
{
    switch (option) {
    case CONFIG:
        a->config = 1;
        break;
    case TENSORS:
        a->tensors = 1;
        break;
    case ALL:
        a->all = 1;
        break;
    case DRY_RUN:
        a->dry_run = 1;
        break;
    case KEEP_LAST:
        return take_count("--keep-last", value, &a->keep_last);
    case KEEP_EVERY:
        return take_count("--keep-every", value, &a->keep_every);
    case OUTPUT:
        a->output = value;
        break;
    case HELP:
        fputs(usage_text, stdout);
        exit(finish(MDS_OK));
    case VERSION:
        puts("mds_ckpt (" PACKAGE_NAME ") " PACKAGE_VERSION);
        exit(finish(MDS_OK));
    }
    return MDS_OK;
}

/* argv[0] is the command, or the program where there is none. */
static enum mds_rc parse(int argc, char **argv, const struct option *options,
                         struct arguments *a)
{
    int c, at = 0;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", options, &at)) != -1) {
        if (c == ':')
            return mds_fail(MDS_EUSER, "%s: a value is missing", argv[optind - 1]);
        if (c == '?')
            return mds_fail(MDS_EUSER, "unknown option '%s'", argv[optind - 1]);
        MDS_TRY(take(c, optarg, a));
    }
    if (argc - optind > 1)
        return mds_fail(MDS_EUSER, "%s: one folder at a time", argv[optind + 1]);
    a->path = argv[optind];
    return MDS_OK;
}

/* ---- which checkpoint ------------------------------------------------------------ */

static enum mds_rc none_there(const char *dir)
{
    return mds_fail(MDS_EUSER, "%s: there is no checkpoint", dir);
}

/* One of them itself, or the newest of a folder. */
static enum mds_rc resolve(const char *given, char path[MDS_CKPT_PATH])
{
    struct stat st;
    int64_t latest;

    MDS_TRY(mds_ckpt_file(given, -1, path));
    if (stat(path, &st) == 0) {
        snprintf(path, MDS_CKPT_PATH, "%s", given);
        return MDS_OK;
    }
    MDS_TRY(mds_ckpt_latest(given, &latest));
    return latest < 0 ? none_there(given) : mds_ckpt_path(given, latest, 0, path);
}

/* ---- info ------------------------------------------------------------------------ */

static int64_t elements(const struct mds_ckpt_tensor *t)
{
    return t->rows * (t->cols ? t->cols : 1);
}

static void print_tensors(const struct mds_ckpt_index *ix)
{
    for (int64_t i = 0; i < ix->tensors; i++) {
        const struct mds_ckpt_tensor *t = &ix->tensor[i];

        printf("%-40s %" PRId64, t->name, t->rows);
        if (t->cols)
            printf(" x %" PRId64, t->cols);
        printf("\n");
    }
}

static void print_index(const struct mds_ckpt_index *ix, const char *provenance)
{
    int64_t bytes = 0, files = 0, count = 0;
    char size[32], numbers[32];

    for (int64_t i = 0; i < ix->ranks; i++) {
        bytes += ix->bytes[i];
        files += ix->bytes[i] > 0;
    }
    for (int64_t i = 0; i < ix->tensors; i++)
        count += elements(&ix->tensor[i]);
    printf("checkpoint: %s\niteration: %" PRId64 "\nsamples: %" PRId64
           "\nupdates: %" PRId64 "\nloss scale: %g\n",
           ix->path, ix->state.iteration, ix->state.samples, ix->state.updates,
           ix->state.loss_scale);
    printf("parameters: %s in %" PRId64 " tensors\nvocabulary: %" PRId64
           " words, %" PRId64 " rows\nfiles: %" PRId64 ", %s\n",
           mds_format_count((double)count, numbers, sizeof numbers), ix->tensors,
           ix->state.vocab, ix->state.padded_vocab, files,
           mds_format_bytes((double)bytes, size, sizeof size));
    fputs(provenance, stdout);
}

static enum mds_rc run_info(const struct arguments *a)
{
    char path[MDS_CKPT_PATH], *configuration, *provenance;
    struct mds_ckpt_index *ix;
    enum mds_rc rc;

    MDS_TRY(resolve(a->path, path));
    MDS_TRY(mds_ckpt_index_read(path, &ix));
    rc = mds_ckpt_index_texts(path, &configuration, &provenance);
    if (!rc && a->config)
        fputs(configuration, stdout);
    else if (!rc)
        print_index(ix, provenance);
    if (!rc && a->tensors)
        print_tensors(ix);
    if (!rc) {
        free(configuration);
        free(provenance);
    }
    mds_ckpt_index_destroy(ix);
    return rc;
}

/* ---- verify ---------------------------------------------------------------------- */

static enum mds_rc verify_files(const struct mds_ckpt_index *ix)
{
    struct mds_ckpt_reader *r;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_check_files(ix));
    MDS_TRY(mds_ckpt_reader_create(ix, &r));
    rc = MDS_OK;
    for (int64_t i = 0; !rc && i < ix->ranks; i++)
        if (ix->bytes[i] > 0)
            rc = mds_ckpt_reader_verify(r, i);
    mds_ckpt_reader_destroy(r);
    return rc;
}

static enum mds_rc verify(const char *path)
{
    struct mds_ckpt_index *ix;
    char *configuration, *provenance;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_read(path, &ix));
    rc = mds_ckpt_index_texts(path, &configuration, &provenance);
    if (!rc) {
        free(configuration);
        free(provenance);
        rc = verify_files(ix);
    }
    mds_ckpt_index_destroy(ix);
    if (!rc)
        printf("%s: sound\n", path);
    return rc;
}

/* All of them, whatever the first ones are like. */
static enum mds_rc verify_all(const char *dir)
{
    int64_t *list, n, bad = 0;
    char path[MDS_CKPT_PATH];

    MDS_TRY(mds_ckpt_list(dir, &list, &n));
    for (int64_t i = 0; i < n; i++)
        if (mds_ckpt_path(dir, list[i], 0, path) || verify(path)) {
            printf("%s\n", mds_fail_text());
            bad++;
        }
    free(list);
    if (n == 0)
        return none_there(dir);
    return bad ? mds_fail(MDS_EUSER, "%s: %" PRId64 " of %" PRId64 " are damaged", dir,
                          bad, n)
               : MDS_OK;
}

static enum mds_rc run_verify(const struct arguments *a)
{
    char path[MDS_CKPT_PATH];

    if (a->all)
        return verify_all(a->path);
    MDS_TRY(resolve(a->path, path));
    return verify(path);
}

/* ---- prune ----------------------------------------------------------------------- */

static enum mds_rc run_prune(const struct arguments *a)
{
    int64_t removed;

    if (a->keep_last < 1)
        return mds_fail(MDS_EUSER, "prune: --keep-last N, at least 1, is missing");
    MDS_TRY(mds_ckpt_prune(a->path, a->keep_last, a->keep_every, a->dry_run, &removed));
    printf("%s: %" PRId64 " %s\n", a->path, removed,
           a->dry_run ? "would be removed" : "removed");
    return MDS_OK;
}

/* ---- export ---------------------------------------------------------------------- */

static enum mds_rc declare(struct mds_st_writer *w, const struct mds_ckpt_index *ix)
{
    char iteration[32];

    snprintf(iteration, sizeof iteration, "%" PRId64, ix->state.iteration);
    MDS_TRY(mds_st_writer_metadata(w, "format", "mds"));
    MDS_TRY(mds_st_writer_metadata(w, "iteration", iteration));
    for (int64_t i = 0; i < ix->tensors; i++) {
        const struct mds_ckpt_tensor *t = &ix->tensor[i];
        int64_t shape[2] = {t->rows, t->cols};

        MDS_TRY(mds_st_writer_declare(w, t->name, MDS_ST_F32, t->cols ? 2 : 1, shape));
    }
    return MDS_OK;
}

static enum mds_rc write_weights(struct mds_st_writer *w, struct mds_ckpt_reader *r,
                                 const struct mds_ckpt_index *ix)
{
    enum mds_rc rc = declare(w, ix);

    for (int64_t i = 0; !rc && i < ix->tensors; i++) {
        size_t n = (size_t)elements(&ix->tensor[i]);
        float *values = mds_zalloc(n, sizeof *values);

        rc = values ? mds_ckpt_reader_whole(r, MDS_CKPT_WEIGHT, i, values) : MDS_EMEM;
        if (!rc)
            rc = mds_st_writer_write(w, values, n * sizeof *values);
        free(values);
    }
    return rc;
}

static enum mds_rc export(const struct mds_ckpt_index *ix, const char *output) {
    struct mds_ckpt_reader *r; struct mds_st_writer * w; enum mds_rc rc;

    MDS_TRY(mds_ckpt_reader_create(ix, &r)); rc = mds_st_writer_create(output, &w);
    if (!rc){rc = write_weights(w, r, ix); if (rc) mds_st_writer_abort(w);
             else rc = mds_st_writer_finish(w);}
mds_ckpt_reader_destroy(r);
return rc;
}

static enum mds_rc run_export(const struct arguments *a)
{
    char path[MDS_CKPT_PATH];
    struct mds_ckpt_index *ix;
    enum mds_rc rc;

    if (!a->output)
        return mds_fail(MDS_EUSER, "export: --output FILE.safetensors is missing");
    MDS_TRY(resolve(a->path, path));
    MDS_TRY(mds_ckpt_index_read(path, &ix));
    rc = mds_ckpt_index_check_files(ix);
    if (!rc)
        rc = export(ix, a->output);
    if (!rc)
        printf("%s: %" PRId64 " tensors of %s\n", a->output, ix->tensors, path);
    mds_ckpt_index_destroy(ix);
    return rc;
}

/* ---- main ------------------------------------------------------------------------ */

static const struct {
    const char *name;
    const struct option *options;
    enum mds_rc (*run)(const struct arguments *a);
} commands[] = {
    {"info", info_options, run_info},
    {"verify", verify_options, run_verify},
    {"prune", prune_options, run_prune},
    {"export", export_options, run_export},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int usage_error(void)
{
    mds_error("%s (mds_ckpt --help tells more)", mds_fail_text());
    return EXIT_FAILURE;
}

static int find(const char *name)
{
    const char *names[COMMANDS], *nearest;

    for (int i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(name, names[i]) == 0)
            return i;
    }
    nearest = mds_str_nearest(name, names, COMMANDS);
    mds_fail(MDS_EUSER, "unknown command '%s': %s%s", name,
             nearest ? "did you mean " : "there are info, verify, prune and export",
             nearest ? nearest : "");
    return -1;
}

int main(int argc, char **argv)
{
    struct arguments a = {0};
    int command;

    if (argc < 2 || argv[1][0] == '-') {
        if (!parse(argc, argv, export_options + 1, &a))
            mds_fail(MDS_EUSER, "no command given: info, verify, prune or export");
        return usage_error();
    }
    command = find(argv[1]);
    if (command < 0 || parse(argc - 1, argv + 1, commands[command].options, &a))
        return usage_error();
    if (!a.path) {
        mds_fail(MDS_EUSER, "%s: no folder given", argv[1]);
        return usage_error();
    }
    return finish(commands[command].run(&a));
}
