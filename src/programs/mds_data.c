/* mds_data: make, describe and print token files. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "base/str.h"
#include "base/units.h"
#include "config.h"
#include "data/make.h"
#include "data/source.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
    "usage: mds_data make --tokenizer NAME --output FILE.h5 INPUT...\n"
    "       mds_data info FILE\n"
    "       mds_data dump [--from N] [--count N] [--ids | --text] FILE\n"
    "\n"
    "make  turns inputs into a token file\n"
    "  --tokenizer codon       FASTA, plain or .gz -> 64 codons, <unk>, <eod>\n"
    "              nucleotide  FASTA, plain or .gz -> A C G T N, <eod>\n"
    "              bytes       any file -> its 256 bytes, <eod>; a document each\n"
    "  --output FILE.h5        where the tokens go; appears when complete\n"
    "  --frame 0|1|2|all       codon: reading frame(s), a document each (default 0)\n"
    "  --strand forward|reverse|both\n"
    "                          FASTA: strand(s), a document each (default forward)\n"
    "  INPUT                   files; - is standard input\n"
    "\n"
    "info  prints documents, tokens, vocabulary, provenance and unigram entropy of a\n"
    "      token file or of a Megatron .bin/.idx pair\n"
    "\n"
    "dump  prints tokens of the same, a document a line\n"
    "  --from N                first token (default 0)\n"
    "  --count N               how many (default: all)\n"
    "  --ids                   numbers (default where the file has no words)\n"
    "  --text                  words\n"
    "\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 done, 1 failed.\n";

/* Values past ASCII, so that no option has a one-letter form. */
enum { TOKENIZER = 256, OUTPUT, FRAME, STRAND, FROM, COUNT, IDS, TEXT, HELP, VERSION };

struct arguments {
    int tokenizer; /* enum mds_tokenizer, -1: not given */
    const char *output, *frame, *strand;
    int64_t from, count; /* count -1: all */
    int ids, text;
    char **files;
    int n_files;
};

static const struct option make_options[] = {
    {"tokenizer", required_argument, NULL, TOKENIZER},
    {"output", required_argument, NULL, OUTPUT},
    {"frame", required_argument, NULL, FRAME},
    {"strand", required_argument, NULL, STRAND},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {0},
};
static const struct option info_options[] = {
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {0},
};
static const struct option dump_options[] = {
    {"from", required_argument, NULL, FROM},
    {"count", required_argument, NULL, COUNT},
    {"ids", no_argument, NULL, IDS},
    {"text", no_argument, NULL, TEXT},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {0},
};

/* ---- arguments ------------------------------------------------------------------- */

/* "KIND 'given' is unknown; did you mean 'x'?" or the list of what there is. */
static enum mds_rc unknown(const char *kind, const char *given,
                           const char *const *names, size_t n)
{
    const char *nearest = mds_str_nearest(given, names, n);
    struct mds_str all = {0};

    for (size_t i = 0; i < n; i++)
        mds_str_add(&all, "%s%s", i > 0 ? ", " : "", names[i]);
    if (nearest)
        mds_fail(MDS_EUSER, "unknown %s '%s': did you mean %s?", kind, given, nearest);
    else
        mds_fail(MDS_EUSER, "unknown %s '%s': there is %s", kind, given,
                 all.s ? all.s : "none");
    mds_str_fini(&all);
    return MDS_EUSER;
}

static enum mds_rc unknown_option(const char *given, const struct option *options)
{
    const char *names[8];
    char spelled[8][16], name[64];
    size_t n = 0;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    for (; options[n].name; n++) {
        snprintf(spelled[n], sizeof spelled[n], "--%s", options[n].name);
        names[n] = spelled[n];
    }
    return unknown("option", name, names, n);
}

static int find(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
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

static int finish(enum mds_rc rc)
{
    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = mds_fail(MDS_EIO, "standard output: %s", strerror(errno));
    if (rc)
        mds_error("%s", mds_fail_text());
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

static enum mds_rc take(int option, char *value, struct arguments *a)
{
    switch (option) {
    case TOKENIZER:
        a->tokenizer = find(value, mds_tokenizer_names, MDS_TOKENIZERS);
        if (a->tokenizer < 0)
            return unknown("tokenizer", value, mds_tokenizer_names, MDS_TOKENIZERS);
        break;
    case OUTPUT:
        a->output = value;
        break;
    case FRAME:
        a->frame = value;
        break;
    case STRAND:
        a->strand = value;
        break;
    case FROM:
        return take_count("--from", value, &a->from);
    case COUNT:
        return take_count("--count", value, &a->count);
    case IDS:
        a->ids = 1;
        break;
    case TEXT:
        a->text = 1;
        break;
    case HELP:
        fputs(usage_text, stdout);
        exit(finish(MDS_OK));
    case VERSION:
        puts("mds_data (" PACKAGE_NAME ") " PACKAGE_VERSION);
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
        const char *given = argv[optind - 1];

        if (c == ':')
            return mds_fail(MDS_EUSER, "%s: a value is missing", given);
        if (c == '?')
            return unknown_option(given, options);
        MDS_TRY(take(c, optarg, a));
    }
    a->files = argv + optind;
    a->n_files = argc - optind;
    return MDS_OK;
}

/* ---- make ------------------------------------------------------------------------ */

static enum mds_rc choose_frames(const struct arguments *a, unsigned *frames)
{
    static const char *const names[] = {"0", "1", "2", "all"};
    int i = a->frame ? find(a->frame, names, 4) : 0;

    if (i < 0)
        return unknown("--frame", a->frame, names, 4);
    if (a->frame && a->tokenizer != MDS_TOKENIZER_CODON)
        return mds_fail(MDS_EUSER, "--frame is for --tokenizer codon, not %s",
                        mds_tokenizer_names[a->tokenizer]);
    *frames = i == 3 ? 7 : 1u << i;
    return MDS_OK;
}

static enum mds_rc choose_strands(const struct arguments *a, unsigned *strands)
{
    static const char *const names[] = {"forward", "reverse", "both"};
    int i = a->strand ? find(a->strand, names, 3) : 0;

    if (i < 0)
        return unknown("--strand", a->strand, names, 3);
    if (a->strand && a->tokenizer == MDS_TOKENIZER_BYTES)
        return mds_fail(MDS_EUSER, "--strand is for FASTA, not --tokenizer bytes");
    *strands = (unsigned)i + 1; /* MDS_STRAND_FORWARD, _REVERSE, both */
    return MDS_OK;
}

static enum mds_rc check_make(const struct arguments *a, struct mds_make *m)
{
    if (a->tokenizer < 0)
        return mds_fail(MDS_EUSER, "make: --tokenizer codon, nucleotide or bytes is "
                                   "missing");
    if (!a->output)
        return mds_fail(MDS_EUSER, "make: --output FILE.h5 is missing");
    if (a->n_files == 0)
        return mds_fail(MDS_EUSER, "make: no input given");
    MDS_TRY(choose_frames(a, &m->frames));
    MDS_TRY(choose_strands(a, &m->strands));
    m->tokenizer = (enum mds_tokenizer)a->tokenizer;
    m->output = a->output;
    m->inputs = (const char *const *)a->files;
    m->n_inputs = a->n_files;
    return MDS_OK;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void report_make(const struct mds_make *m, const struct mds_make_stats *s)
{
    if (s->skipped > 0)
        mds_warn("%lld record%s too short for a single token left out",
                 (long long)s->skipped, plural(s->skipped));
    if (s->unknown * 10 > s->tokens)
        mds_warn("%.0f %% of the tokens stand for ambiguous bases (N)",
                 100.0 * (double)s->unknown / (double)s->tokens);
    printf("%s: %lld token%s (%s, %lld words), %lld document%s from %lld record%s of "
           "%d file%s\n",
           m->output, (long long)s->tokens, plural(s->tokens),
           mds_tokenizer_names[m->tokenizer],
           (long long)mds_tokenizer_vocab(m->tokenizer), (long long)s->documents,
           plural(s->documents), (long long)s->records, plural(s->records), m->n_inputs,
           plural(m->n_inputs));
}

static enum mds_rc run_make(const struct arguments *a, const char *command)
{
    struct mds_make m = {.command = command};
    struct mds_make_stats stats;
    struct mds_str options = {0};
    enum mds_rc rc;

    MDS_TRY(check_make(a, &m));
    if (m.tokenizer == MDS_TOKENIZER_CODON)
        mds_str_add(&options, "frame %s, ", a->frame ? a->frame : "0");
    if (m.tokenizer != MDS_TOKENIZER_BYTES)
        mds_str_add(&options, "strand %s", a->strand ? a->strand : "forward");
    m.options = options.s ? options.s : "";
    rc = options.failed ? MDS_EMEM : mds_make_tokens(&m, &stats);
    mds_str_fini(&options);
    if (!rc)
        report_make(&m, &stats);
    return rc;
}

/* ---- info ------------------------------------------------------------------------ */

static const char *word(const struct mds_source *s, int64_t id, char buf[24])
{
    if (s->words)
        return s->words[id];
    snprintf(buf, 24, "%lld", (long long)id);
    return buf;
}

static void print_top(const struct mds_source *s, const int64_t *counts)
{
    enum { SHOWN = 10 };
    int64_t limit = INT64_MAX, limit_id = -1;
    char buf[24];

    printf("%-12s", "most common");
    for (int i = 0; i < SHOWN; i++) {
        int64_t best = -1;

        /* The next after (limit, limit_id), in falling count and rising id. */
        for (int64_t id = 0; id < s->vocab; id++)
            if (counts[id] > 0 &&
                (counts[id] < limit || (counts[id] == limit && id > limit_id)) &&
                (best < 0 || counts[id] > counts[best]))
                best = id;
        if (best < 0)
            break;
        printf("%s %s %.2f %%", i > 0 ? "," : "", word(s, best, buf),
               100.0 * (double)counts[best] / (double)s->tokens);
        limit = counts[best];
        limit_id = best;
    }
    printf("\n");
}

static enum mds_rc longest_document(struct mds_source *s, int64_t *longest)
{
    enum { BLOCK = 1024 };
    int64_t starts[BLOCK + 1];

    *longest = 0;
    for (int64_t first = 0; first < s->documents; first += BLOCK) {
        int64_t n = s->documents - first < BLOCK ? s->documents - first : BLOCK;

        MDS_TRY(mds_source_starts(s, first, n + 1, starts));
        for (int64_t i = 0; i < n; i++)
            if (starts[i + 1] - starts[i] > *longest)
                *longest = starts[i + 1] - starts[i];
    }
    return MDS_OK;
}

static enum mds_rc print_info(struct mds_source *s, int64_t *counts)
{
    struct mds_str provenance = {0};
    int64_t longest;
    double entropy;
    enum mds_rc rc;

    MDS_TRY(mds_source_count(s, 0, s->tokens, counts));
    MDS_TRY(longest_document(s, &longest));
    rc = mds_source_provenance(s, &provenance);
    if (!rc && provenance.failed)
        rc = MDS_EMEM;
    if (!rc) {
        entropy = mds_entropy(counts, s->vocab);
        printf("%-12s %s (%s)\n", "file", s->path, s->ops->name);
        printf("%-12s %lld (longest %lld tokens)\n", "documents",
               (long long)s->documents, (long long)longest);
        printf("%-12s %lld\n", "tokens", (long long)s->tokens);
        printf("%-12s %lld words%s\n", "vocabulary", (long long)s->vocab,
               s->vocab_seen ? " at least (the largest id + 1)" : "");
        printf("%-12s %s\n", "tokenizer", s->tokenizer ? s->tokenizer : "not stated");
        printf("%-12s %.4f nats/token (perplexity %.2f)\n", "entropy", entropy,
               exp(entropy));
        print_top(s, counts);
        fputs(provenance.s ? provenance.s : "", stdout);
    }
    mds_str_fini(&provenance);
    return rc;
}

static enum mds_rc open_only(const struct arguments *a, const char *command,
                             struct mds_source **out)
{
    if (a->n_files != 1)
        return mds_fail(MDS_EUSER, "%s: give one file, not %d", command, a->n_files);
    return mds_source_open(a->files[0], out);
}

static enum mds_rc run_info(const struct arguments *a)
{
    struct mds_source *s;
    int64_t *counts;
    enum mds_rc rc = MDS_EMEM;

    MDS_TRY(open_only(a, "info", &s));
    counts = mds_zalloc((size_t)s->vocab, sizeof *counts);
    if (counts)
        rc = print_info(s, counts);
    free(counts);
    mds_source_close(s);
    return rc;
}

/* ---- dump ------------------------------------------------------------------------ */

enum { DUMP_BLOCK = 4096 };

static void print_text(const struct mds_source *s, const int32_t *ids, int64_t n,
                       int *line_begun)
{
    int bytes = s->tokenizer && strcmp(s->tokenizer, "bytes") == 0;
    int spaced = !bytes && !(s->tokenizer && strcmp(s->tokenizer, "nucleotide") == 0);

    for (int64_t i = 0; i < n; i++) {
        if (ids[i] == s->eod)
            putchar('\n');
        else if (bytes)
            putchar(ids[i]);
        else
            printf("%s%s", spaced && *line_begun ? " " : "", s->words[ids[i]]);
        *line_begun = ids[i] != s->eod;
    }
}

static void print_ids(const struct mds_source *s, const int32_t *ids, int64_t n,
                      int *line_begun)
{
    for (int64_t i = 0; i < n; i++) {
        printf("%s%ld", *line_begun ? " " : "", (long)ids[i]);
        *line_begun = ids[i] != s->eod;
        if (!*line_begun)
            putchar('\n');
    }
}

static enum mds_rc dump(struct mds_source *s, int64_t from, int64_t count, int text)
{
    int32_t ids[DUMP_BLOCK];
    int line_begun = 0;

    while (count > 0 && !ferror(stdout)) {
        int64_t n = count < DUMP_BLOCK ? count : DUMP_BLOCK;

        MDS_TRY(mds_source_read(s, from, n, ids));
        (text ? print_text : print_ids)(s, ids, n, &line_begun);
        from += n;
        count -= n;
    }
    if (line_begun)
        putchar('\n');
    return MDS_OK;
}

static enum mds_rc dump_checked(const struct arguments *a, struct mds_source *s)
{
    int text = a->text || (!a->ids && s->words);
    int64_t left = s->tokens - a->from;

    if (a->ids && a->text)
        return mds_fail(MDS_EUSER, "dump: --ids or --text, not both");
    if (text && !s->words)
        return mds_fail(MDS_EUSER, "%s: has no words to print: use --ids", s->path);
    if (left < 0)
        return mds_fail(MDS_EUSER, "%s: --from %lld is beyond its %lld tokens", s->path,
                        (long long)a->from, (long long)s->tokens);
    return dump(s, a->from, a->count >= 0 && a->count < left ? a->count : left, text);
}

static enum mds_rc run_dump(const struct arguments *a)
{
    struct mds_source *s;
    enum mds_rc rc;

    MDS_TRY(open_only(a, "dump", &s));
    rc = dump_checked(a, s);
    mds_source_close(s);
    return rc;
}

/* ---- main ------------------------------------------------------------------------ */

static int usage_error(void)
{
    mds_error("%s (mds_data --help tells more)", mds_fail_text());
    return EXIT_FAILURE;
}

/* The command line as typed, for the file's provenance. */
static void join(int argc, char **argv, struct mds_str *out)
{
    for (int i = 0; i < argc; i++)
        mds_str_add(out, "%s%s", i > 0 ? " " : "", argv[i]);
}

int main(int argc, char **argv)
{
    static const char *const commands[] = {"make", "info", "dump"};
    static const struct option *const options[] = {make_options, info_options,
                                                   dump_options};
    struct arguments a = {.tokenizer = -1, .count = -1};
    struct mds_str line = {0};
    int command = argc > 1 ? find(argv[1], commands, 3) : -1;
    enum mds_rc rc;

    if (argc > 1 && command < 0 && argv[1][0] != '-') {
        unknown("command", argv[1], commands, 3);
        return usage_error();
    }
    join(argc, argv, &line);
    if (command < 0) {
        if (!parse(argc, argv, info_options, &a))
            mds_fail(MDS_EUSER, "no command given: make, info or dump");
        rc = MDS_EUSER;
    } else {
        rc = parse(argc - 1, argv + 1, options[command], &a);
    }
    if (rc) {
        mds_str_fini(&line);
        return usage_error();
    }
    rc = command == 0   ? run_make(&a, line.s)
         : command == 1 ? run_info(&a)
                        : run_dump(&a);
    mds_str_fini(&line);
    return finish(rc);
}
