/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_data: make, describe and print token files. */
#include "base/log.h"
#include "base/minmax.h"
#include "base/status.h"
#include "base/str.h"
#include "base/units.h"
#include "config.h"
#include "config/options.h"
#include "data/make.h"
#include "data/split.h"
#include "device/device.h"
#include "programs/mds_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Headings of --help: subcommands. */
static const char make[] = "make";
static const char info[] = "info";
static const char dumping[] = "dump";
static const char general[] = "General";

#define AT(field) ((ptrdiff_t)offsetof(struct mds_data_options, field))

static const struct mds_option rows[] = {
    {make, NULL, "--tokenizer", NULL, MDS_OPT_STRING, NULL, 0, 0, mds_tokenizer_names,
     AT(tokenizer), NULL,
     .help =
         "needed; codon: FASTA, plain or .gz, to 64 codons, <unk>, <eod>; nucleotide: "
         "FASTA to A C G T N, <eod>; dna: the same as bytes of ASCII; 6-mer: FASTA to "
         "4096 words of six bases, <unk>, <eod>; 6-mer-overlapping: one from each "
         "base; "
         "bytes: any file to its 256 bytes, <eod>, a document each; ids: numbers of "
         "any "
         "tokenizer, a document a line"},
    {make, NULL, "--output", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(output),
     "file.h5", .help = "needed: where the tokens go; appears when complete",
     .path = MDS_PATH_FILE},
    {make, NULL, "--overwrite", "MDS_OVERWRITE", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(overwrite), NULL, .help = "replace --output if it exists; unset: an error"},
    {make, "make.vocab_size", "--vocab-size", NULL, MDS_OPT_COUNT, NULL, 1,
     (double)MDS_VOCAB_MAX, NULL, AT(vocab), "words",
     .help = "ids: how many there are"},
    {make, "make.eod", "--eod", NULL, MDS_OPT_COUNT, NULL, 0, (double)MDS_VOCAB_MAX - 1,
     NULL, AT(eod), "id", .help = "ids: which of them ends a document"},
    {make, "make.frame", "--frame", NULL, MDS_OPT_ENUM, "0", 0, 0, mds_frame_names,
     AT(frame), NULL, .help = "codon: reading frames, a document each"},
    {make, "make.strand", "--strand", NULL, MDS_OPT_ENUM, "forward", 0, 0,
     mds_strand_names, AT(strand), NULL, .help = "FASTA: strands, a document each"},
    {make, "make.lowercase_loss_weight", "--lowercase-loss-weight", NULL, MDS_OPT_REAL,
     "1", 0, 1e6, NULL, AT(lowercase_weight), "weight",
     .help =
         "FASTA: weight in the loss of soft-masked (lower-case) bases, which become "
         "the kind 'repeat'; unset: as other bases"},
    {make, NULL, "--kind", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(kind), "name",
     .help = "the kind of all tokens, such as a species: the loss is logged by kind"},
    {make, NULL, "--gff3", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(gff3), "file",
     .help =
         "FASTA: features of the records; each becomes a document, on its own strand, "
         "with the parts of the same ID or Parent joined; with --gff3-loss-weight, "
         "what they "
         "cover has that weight"},
    {make, "make.gff3_type", "--gff3-type", NULL, MDS_OPT_STRING, "CDS", 0, 0, NULL,
     AT(gff3_type), "type", .help = "which features, such as gene"},
    {make, "make.gff3_loss_weight", "--gff3-loss-weight", NULL, MDS_OPT_REAL, "1", 0,
     1e6, NULL, AT(gff3_weight), "weight",
     .help =
         "whole records are documents, and tokens within features have this weight in "
         "the loss, and are a kind named by --gff3-type; unset: features are cut out"},
    {make, NULL, "--tag", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(tag), "text",
     .help =
         "dna: text to put at the start of each record and after every "
         "--tag-every tokens, in lower case and with weight 0 in the loss; {record} "
         "is the record's name"},
    {make, "make.tag_every", "--tag-every", NULL, MDS_OPT_COUNT, "8192", 1,
     MDS_OPT_NO_MAX, NULL, AT(tag_every), "tokens",
     .help = "dna: tokens of sequence from one --tag to the next"},
    {make, NULL, "--threads", NULL, MDS_OPT_INT, "0", 0, 256, NULL, AT(threads), "n",
     .help =
         "how many inputs to read at a time; 0: one for each core. The output is the "
         "same"},

    {info, NULL, "--split", NULL, MDS_OPT_STRING, MDS_DEFAULT_SPLIT, 0, 0, NULL,
     AT(split), "n,n,n",
     .help = "as of mds_pretrain: show which tokens it would hold out"},
    {info, NULL, "--split-at", NULL, MDS_OPT_ENUM, "auto", 0, 0, mds_split_at_names,
     AT(split_at), NULL, .help = "as of mds_pretrain: where it cuts"},

    {info, NULL, "--seq-length", NULL, MDS_OPT_COUNT, "0", 0, 1e10, NULL,
     AT(seq_length), "tokens",
     .help = "as of mds_pretrain: show how --pack-documents on would fill its rows"},
    {info, NULL, "--window-stride", NULL, MDS_OPT_COUNT, "0", 0, 1e10, NULL, AT(stride),
     "tokens",
     .help = "as of mds_pretrain: windows of long documents start so far apart"},

    {dumping, NULL, "--from", NULL, MDS_OPT_COUNT, "0", 0, MDS_OPT_NO_MAX, NULL,
     AT(from), "n", .help = "first token"},
    {dumping, "dump.count", "--count", NULL, MDS_OPT_COUNT, NULL, 0, MDS_OPT_NO_MAX,
     NULL, AT(count), "n", .help = "how many tokens; unset: all"},
    {dumping, NULL, "--ids", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(ids), NULL,
     .help = "print numbers; unset: where the file has no words"},
    {dumping, NULL, "--text", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(text), NULL,
     .help = "print words"},

    MDS_OPT_HELP_AND_VERSION(general),
    {.help = NULL},
};

static const struct mds_option_alias aliases[] = {{"-o", "--output", NULL, NULL},
                                                  {.name = NULL}};

static const struct mds_option_set options = {
    .program = "mds_data",
    .version = PACKAGE_VERSION,
    .synopsis = "SUBCOMMAND [option]... FILE...",
    .about =
        "make turns inputs into a token file; info describes one, or a Megatron "
        ".bin/.idx pair; dump prints the tokens of either.\n"
        "mds_data SUBCOMMAND --help says more of each. Exit status: 0 done, 1 failed.",
    .options = rows,
    .aliases = aliases,
    .operands = "file",
};

static int is_on_command_line(const struct mds_invocation *c, const char *key)
{
    return mds_settings_of(&c->settings, key)->level > MDS_LEVEL_DEFAULT;
}

/* ---- make ------------------------------------------------------------------------ */

static enum mds_rc check_vocabulary(const struct mds_invocation *c,
                                    struct mds_vocabulary *v)
{
    const struct mds_data_options *a = mds_data_options(c);
    int sized = is_on_command_line(c, "make.vocab_size"),
        ended = is_on_command_line(c, "make.eod");

    if (v->tokenizer != MDS_TOKENIZER_IDS)
        return !sized && !ended
                   ? MDS_OK
                   : mds_fail(MDS_EUSER,
                              "--vocab-size and --eod are for --tokenizer ids");
    if (!sized || !ended)
        return mds_fail(MDS_EUSER, "--tokenizer ids needs --vocab-size, how many words "
                                   "the tokenizer has, and --eod, which of them ends a "
                                   "document");
    if (a->eod >= a->vocab)
        return mds_fail(MDS_EUSER, "--eod %lld: must be below --vocab-size %lld",
                        (long long)a->eod, (long long)a->vocab);
    v->size = a->vocab;
    v->eod = (int32_t)a->eod;
    return MDS_OK;
}

static enum mds_rc check_tag(const struct mds_invocation *c, enum mds_tokenizer t)
{
    const struct mds_data_options *a = mds_data_options(c);

    if (!a->tag)
        return is_on_command_line(c, "make.tag_every")
                   ? mds_fail(MDS_EUSER, "--tag-every needs --tag TEXT")
                   : MDS_OK;
    if (t != MDS_TOKENIZER_DNA)
        return mds_fail(MDS_EUSER,
                        "--tag is for --tokenizer dna, whose words are letters, not %s",
                        a->tokenizer);
    if (a->strand != 0)
        return mds_fail(MDS_EUSER,
                        "--tag and --strand %s: a file with tags has the forward "
                        "strand; make it so, and train with "
                        "--random-reverse-complement",
                        mds_strand_names[a->strand]);
    if (!*a->tag || strlen(a->tag) > 512)
        return mds_fail(MDS_EUSER, "--tag: %zu characters; must be 1 to 512",
                        strlen(a->tag));
    if (a->tag[0] != '|' || !a->tag[1] || a->tag[strlen(a->tag) - 1] != '|')
        mds_warn("--tag %s: not between bars (|): an exported tokenizer will take "
                 "its letters for bases",
                 a->tag);
    return MDS_OK;
}

/* What tokens of FASTA count in the loss. */
static enum mds_rc check_kinds(const struct mds_invocation *c, struct mds_make *m)
{
    const struct mds_data_options *a = mds_data_options(c);
    enum mds_tokenizer t = m->vocabulary.tokenizer;

    m->lowercase_weight = -1;
    if (is_on_command_line(c, "make.lowercase_loss_weight")) {
        if (mds_tokenizer_bases(t) == 0)
            return mds_fail(MDS_EUSER,
                            "--lowercase-loss-weight is for FASTA, not --tokenizer %s",
                            a->tokenizer);
        m->lowercase_weight = a->lowercase_weight;
    }
    if (a->kind && strlen(a->kind) > MDS_MAKE_KIND_MAX)
        return mds_fail(MDS_EUSER, "--kind '%s': must have at most %d characters",
                        a->kind, MDS_MAKE_KIND_MAX);
    m->kind = a->kind;
    MDS_TRY(check_tag(c, t));
    m->tag = a->tag;
    m->tag_every = a->tag_every;
    return MDS_OK;
}

/* Features become documents, or a kind of token. */
static enum mds_rc check_features(const struct mds_invocation *c, struct mds_make *m)
{
    const struct mds_data_options *a = mds_data_options(c);
    int weighs = is_on_command_line(c, "make.gff3_loss_weight");
    const char *cut = "is not for features that are cut out, which are read in their "
                      "own frame, on their own strand";

    m->feature_weight = weighs ? a->gff3_weight : -1;
    if (!a->gff3)
        return weighs || is_on_command_line(c, "make.gff3_type")
                   ? mds_fail(MDS_EUSER, "--gff3-type and --gff3-loss-weight need "
                                         "--gff3 FILE")
                   : MDS_OK;
    if (mds_tokenizer_bases(m->vocabulary.tokenizer) == 0)
        return mds_fail(MDS_EUSER, "--gff3 is for FASTA, not --tokenizer %s",
                        a->tokenizer);
    if (!weighs && (a->frame != 0 || a->strand != 0))
        return mds_fail(MDS_EUSER, "--%s %s", a->frame ? "frame" : "strand", cut);
    if (weighs &&
        (!*a->gff3_type || strlen(a->gff3_type) + (a->kind ? strlen(a->kind) + 1 : 0) >=
                               MDS_KIND_NAME_SIZE))
        return mds_fail(MDS_EUSER,
                        "--gff3-type '%s': with --kind it makes the name of a kind, "
                        "which has at most %d characters: choose a shorter --kind",
                        a->gff3_type, MDS_KIND_NAME_SIZE - 1);
    return MDS_OK;
}

static enum mds_rc check_make(const struct mds_invocation *c, struct mds_make *m)
{
    const struct mds_data_options *a = mds_data_options(c);
    enum mds_tokenizer tokenizer;

    if (!a->tokenizer)
        return mds_fail(MDS_EUSER, "make: --tokenizer is missing: codon, nucleotide, "
                                   "dna, 6-mer, 6-mer-overlapping, bytes or ids");
    if (!a->output)
        return mds_fail(MDS_EUSER, "make: --output FILE.h5 is missing");
    tokenizer = mds_tokenizer_find(a->tokenizer);
    if (is_on_command_line(c, "make.frame") && tokenizer != MDS_TOKENIZER_CODON)
        return mds_fail(MDS_EUSER, "--frame is for --tokenizer codon, not %s",
                        a->tokenizer);
    if (is_on_command_line(c, "make.strand") && mds_tokenizer_bases(tokenizer) == 0)
        return mds_fail(MDS_EUSER, "--strand is for FASTA, not --tokenizer %s",
                        a->tokenizer);
    m->vocabulary = mds_tokenizer_vocabulary(tokenizer);
    MDS_TRY(check_vocabulary(c, &m->vocabulary));
    MDS_TRY(check_kinds(c, m));
    MDS_TRY(check_features(c, m));
    m->reading.frames = mds_reading_frames(a->frame);
    m->reading.strands = mds_reading_strands(a->strand);
    m->output = a->output;
    m->overwrite = a->overwrite;
    m->threads = a->threads ? (int)a->threads : mds_host_cores();
    return MDS_OK;
}

static int is_cut(const struct mds_make *m)
{
    return m->features && m->feature_weight < 0;
}

static void print_make_stats(const struct mds_make *m, const struct mds_make_stats *s)
{
    if (s->empty > 0)
        mds_warn("%lld empty line%s left out, the first is %s:%lld; a line without ids "
                 "is not a document",
                 (long long)s->empty, mds_plural(s->empty), s->empty_input,
                 (long long)s->empty_line);
    if (s->skipped > 0)
        mds_warn("%lld %s%s too short for a single token%s left out",
                 (long long)s->skipped, is_cut(m) ? "feature" : "record",
                 mds_plural(s->skipped),
                 m->reading.frames == 1 ? "" : " in each frame");
    if (s->both_strands > 0)
        mds_warn("%lld feature%s with parts on both strands left out",
                 (long long)s->both_strands, mds_plural(s->both_strands));
    if (s->apart > 0)
        mds_warn("%lld part%s of type %s not joined to the part before of the same "
                 "Parent, whose end %s not continue (phase, strand or overlap): a "
                 "document begins there",
                 (long long)s->apart, mds_plural(s->apart), m->features->type,
                 s->apart == 1 ? "it does" : "they do");
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

static enum mds_rc read_features(const struct mds_invocation *c, struct mds_features *f,
                                 struct mds_make *m)
{
    const struct mds_data_options *a = mds_data_options(c);

    if (!a->gff3)
        return MDS_OK;
    m->features = f;
    return mds_features_read(a->gff3, a->gff3_type, f);
}

static enum mds_rc data_run_make(const struct mds_invocation *c)
{
    struct mds_make m = {.inputs = (const char *const *)c->operand,
                         .n_inputs = (int)c->operand_count};
    struct mds_features features = {0};
    struct mds_make_stats stats;
    struct mds_str line = {0};
    enum mds_rc rc;

    MDS_TRY(check_make(c, &m));
    for (int i = 0; i < c->argc; i++)
        mds_str_add(&line, "%s%s", i > 0 ? " " : "", c->argv[i]);
    m.command = line.s;
    rc = line.failed ? MDS_EMEM : read_features(c, &features, &m);
    if (!rc)
        rc = mds_make_tokens(&m, &stats);
    mds_str_fini(&line);
    if (!rc)
        print_make_stats(&m, &stats);
    mds_features_fini(&features);
    return rc;
}

/* ---- dump ------------------------------------------------------------------------ */

enum { DUMP_BLOCK = 4096 };

static void print_words(const struct mds_source *s, const int32_t *ids, int64_t n,
                        int *line_begun)
{
    enum mds_tokenizer t = mds_tokenizer_find(s->tokenizer);
    int bytes = t == MDS_TOKENIZER_BYTES || t == MDS_TOKENIZER_DNA;
    int spaced = !bytes && t != MDS_TOKENIZER_NUCLEOTIDE;

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

static enum mds_rc dump_tokens(struct mds_source *s, int64_t from, int64_t count,
                               int text)
{
    int32_t ids[DUMP_BLOCK];
    int line_begun = 0;

    while (count > 0 && !ferror(stdout)) {
        int64_t n = mds_min(count, DUMP_BLOCK);

        MDS_TRY(mds_source_read(s, from, n, ids));
        (text ? print_words : print_ids)(s, ids, n, &line_begun);
        from += n;
        count -= n;
    }
    if (line_begun)
        putchar('\n');
    return MDS_OK;
}

static enum mds_rc check_and_dump(const struct mds_invocation *c, struct mds_source *s)
{
    const struct mds_data_options *a = mds_data_options(c);
    int text = a->text || (!a->ids && s->words);
    int64_t left = s->tokens - a->from;

    if (a->ids && a->text)
        return mds_fail(MDS_EUSER, "dump: --ids or --text, not both");
    if (text && !s->words)
        return mds_fail(MDS_EUSER, "%s: has no words to print: use --ids", s->path);
    if (left < 0)
        return mds_fail(MDS_EUSER, "%s: --from %lld is beyond its %lld tokens", s->path,
                        (long long)a->from, (long long)s->tokens);
    if (is_on_command_line(c, "dump.count"))
        left = mds_min(left, a->count);
    return dump_tokens(s, a->from, left, text);
}

static enum mds_rc data_run_dump(const struct mds_invocation *c)
{
    struct mds_source *s;
    enum mds_rc rc;

    MDS_TRY(mds_source_open(c->operand[0], &s));
    rc = check_and_dump(c, s);
    mds_source_close(s);
    return rc;
}

/* ---- main ------------------------------------------------------------------------ */

static const struct mds_subcommand subcommands[] = {
    {"make", "make --tokenizer NAME --output FILE.h5 [option]... INPUT...",
     "Turns inputs into a token file. INPUT: files; - is standard input.", NULL, 1,
     SIZE_MAX, "an INPUT", .run = data_run_make},
    {"info", "info [--split N,N,N] [--split-at WHERE] [--seq-length N] FILE",
     "Prints documents, tokens, vocabulary, provenance and unigram entropy of a token "
     "file or of a Megatron .bin/.idx pair, and what --split holds out.",
     NULL, 1, 1, "one FILE", .run = mds_data_run_info},
    {"dump", "dump [--from N] [--count N] [--ids | --text] FILE",
     "Prints tokens of a token file or of a Megatron .bin/.idx pair, a document a "
     "line.",
     NULL, 1, 1, "one FILE", .run = data_run_dump},
    {0},
};

int main(int argc, char **argv)
{
    static const struct mds_program program = {&options, subcommands, NULL};
    struct mds_data_options values = {0};

    return mds_program_run(&program, argc, argv, &values);
}
