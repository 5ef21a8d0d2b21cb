/* mds_data: make, describe and print token files. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/status.h"
#include "base/str.h"
#include "base/units.h"
#include "data/make.h"
#include "data/source.h"
#include "programs/arguments.h"

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
    "              ids         numbers of any tokenizer, a document a line\n"
    "  --vocab-size N --eod N  ids: how many there are, and which ends a document\n"
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

struct mds_arguments {
    int tokenizer, frame, strand; /* -1: not given */
    int64_t from, count;          /* count -1: all */
    int64_t vocab, eod;           /* -1: not given */
    int ids, text;
    const char *output;
    const char *command; /* the whole line */
};

#define AT(field) offsetof(struct mds_arguments, field)

static const char *const frames[] = {"0", "1", "2", "all", NULL};
static const char *const strands[] = {"forward", "reverse", "both", NULL};

static const struct mds_argument make_arguments[] = {
    {.name = "--tokenizer", MDS_ARG_CHOICE, AT(tokenizer), mds_tokenizer_names},
    {.name = "--output", MDS_ARG_TEXT, AT(output)},
    {.name = "--vocab-size", MDS_ARG_COUNT, AT(vocab)},
    {.name = "--eod", MDS_ARG_COUNT, AT(eod)},
    {.name = "--frame", MDS_ARG_CHOICE, AT(frame), frames},
    {.name = "--strand", MDS_ARG_CHOICE, AT(strand), strands},
    {0},
};
static const struct mds_argument info_arguments[] = {{0}};
static const struct mds_argument dump_arguments[] = {
    {.name = "--from", MDS_ARG_COUNT, AT(from)},
    {.name = "--count", MDS_ARG_COUNT, AT(count)},
    {.name = "--ids", MDS_ARG_FLAG, AT(ids)},
    {.name = "--text", MDS_ARG_FLAG, AT(text)},
    {0},
};

/* ---- make ------------------------------------------------------------------------ */

static int is_fasta(int tokenizer)
{
    return tokenizer == MDS_TOKENIZER_CODON || tokenizer == MDS_TOKENIZER_NUCLEOTIDE;
}

static enum mds_rc check_vocabulary(const struct mds_arguments *a,
                                    struct mds_vocabulary *v)
{
    *v = mds_tokenizer_vocabulary((enum mds_tokenizer)a->tokenizer);
    if (a->tokenizer != MDS_TOKENIZER_IDS)
        return a->vocab < 0 && a->eod < 0
                   ? MDS_OK
                   : mds_fail(MDS_EUSER,
                              "--vocab-size and --eod are for --tokenizer ids");
    if (a->vocab < 0 || a->eod < 0)
        return mds_fail(MDS_EUSER, "--tokenizer ids needs --vocab-size, how many words "
                                   "the tokenizer has, and --eod, which of them ends a "
                                   "document");
    if (a->vocab < 1 || a->vocab > MDS_VOCAB_MAX || a->eod >= a->vocab)
        return mds_fail(
            MDS_EUSER,
            "--vocab-size %lld --eod %lld: the first must be from 1 to %lld, "
            "the other below it",
            (long long)a->vocab, (long long)a->eod, (long long)MDS_VOCAB_MAX);
    v->size = a->vocab;
    v->eod = (int32_t)a->eod;
    return MDS_OK;
}

static enum mds_rc check_make(const struct mds_arguments *a, struct mds_make *m)
{
    if (a->tokenizer < 0)
        return mds_fail(MDS_EUSER, "make: --tokenizer codon, nucleotide, bytes or ids "
                                   "is missing");
    if (!a->output)
        return mds_fail(MDS_EUSER, "make: --output FILE.h5 is missing");
    if (a->frame >= 0 && a->tokenizer != MDS_TOKENIZER_CODON)
        return mds_fail(MDS_EUSER, "--frame is for --tokenizer codon, not %s",
                        mds_tokenizer_names[a->tokenizer]);
    if (a->strand >= 0 && !is_fasta(a->tokenizer))
        return mds_fail(MDS_EUSER, "--strand is for FASTA, not --tokenizer %s",
                        mds_tokenizer_names[a->tokenizer]);
    MDS_TRY(check_vocabulary(a, &m->vocabulary));
    m->frames = a->frame < 0 ? 1 : a->frame == 3 ? 7 : 1u << a->frame;
    m->strands = a->strand < 0 ? MDS_STRAND_FORWARD : (unsigned)a->strand + 1;
    m->output = a->output;
    m->command = a->command;
    return MDS_OK;
}

static void report_make(const struct mds_make *m, const struct mds_make_stats *s)
{
    if (s->skipped > 0)
        mds_warn("%lld record%s too short for a single token left out",
                 (long long)s->skipped, mds_plural(s->skipped));
    if (s->unknown * 10 > s->tokens)
        mds_warn("%.0f %% of the tokens stand for ambiguous bases (N)",
                 100.0 * (double)s->unknown / (double)s->tokens);
    printf("%s: %lld token%s (%s, %lld words), %lld document%s from %lld record%s of "
           "%d file%s\n",
           m->output, (long long)s->tokens, mds_plural(s->tokens),
           mds_tokenizer_names[m->vocabulary.tokenizer], (long long)m->vocabulary.size,
           (long long)s->documents, mds_plural(s->documents), (long long)s->records,
           mds_plural(s->records), m->n_inputs, mds_plural(m->n_inputs));
}

static enum mds_rc run_make(const struct mds_arguments *a, int n, char **operand)
{
    struct mds_make m = {.inputs = (const char *const *)operand, .n_inputs = n};
    struct mds_make_stats stats;
    struct mds_str options = {0};
    enum mds_rc rc;

    MDS_TRY(check_make(a, &m));
    if (n == 0)
        return mds_fail(MDS_EUSER, "make: no input given");
    if (a->tokenizer == MDS_TOKENIZER_CODON)
        mds_str_add(&options, "frame %s, ", frames[a->frame < 0 ? 0 : a->frame]);
    if (is_fasta(a->tokenizer))
        mds_str_add(&options, "strand %s", strands[a->strand < 0 ? 0 : a->strand]);
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
        int64_t n = mds_min(s->documents - first, BLOCK);

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

static enum mds_rc count_and_print(struct mds_source *s)
{
    int64_t *counts, largest = -1;
    enum mds_rc rc = MDS_EMEM;

    if (s->vocab_seen) {
        MDS_TRY(mds_source_largest(s, 0, s->tokens, &largest));
        s->vocab = largest + 1;
    }
    counts = mds_zalloc((size_t)s->vocab, sizeof *counts);
    if (counts)
        rc = print_info(s, counts);
    free(counts);
    return rc;
}

static enum mds_rc run_info(const struct mds_arguments *a, int n, char **operand)
{
    struct mds_source *s;
    enum mds_rc rc;

    (void)a;
    MDS_TRY(mds_operands_check("info", "file", n, 1));
    MDS_TRY(mds_source_open(operand[0], &s));
    rc = count_and_print(s);
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
        int64_t n = mds_min(count, DUMP_BLOCK);

        MDS_TRY(mds_source_read(s, from, n, ids));
        (text ? print_text : print_ids)(s, ids, n, &line_begun);
        from += n;
        count -= n;
    }
    if (line_begun)
        putchar('\n');
    return MDS_OK;
}

static enum mds_rc dump_checked(const struct mds_arguments *a, struct mds_source *s)
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

static enum mds_rc run_dump(const struct mds_arguments *a, int n, char **operand)
{
    struct mds_source *s;
    enum mds_rc rc;

    MDS_TRY(mds_operands_check("dump", "file", n, 1));
    MDS_TRY(mds_source_open(operand[0], &s));
    rc = dump_checked(a, s);
    mds_source_close(s);
    return rc;
}

/* ---- main ------------------------------------------------------------------------ */

static const struct mds_verb verbs[] = {
    {.name = "make", make_arguments, run_make},
    {.name = "info", info_arguments, run_info},
    {.name = "dump", dump_arguments, run_dump},
    {0},
};
static const struct mds_program program = {"mds_data", usage_text, verbs};

int main(int argc, char **argv)
{
    struct mds_arguments a = {.tokenizer = -1,
                              .frame = -1,
                              .strand = -1,
                              .count = -1,
                              .vocab = -1,
                              .eod = -1};
    struct mds_str line = {0};
    int status;

    for (int i = 0; i < argc; i++)
        mds_str_add(&line, "%s%s", i > 0 ? " " : "", argv[i]);
    a.command = line.s ? line.s : "";
    status = mds_program_run(&program, argc, argv, &a);
    mds_str_fini(&line);
    return status;
}
