/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/options.h"
#include "data/tokenizer.h"
#include "infer/embed.h"
#include "infer/score.h"

#include <config.h>

#include <stddef.h>

/* Headings of --help. */
static const char model[] = "Model";
static const char score[] = "score";
static const char embed[] = "embed";
static const char generate[] = "generate";
static const char general[] = "General";

static const char *const types[] = {"f32", "f16", NULL};
static const char *const places[] = {"middle", "end", NULL};

#define AT(field) ((ptrdiff_t)offsetof(struct mds_infer_options, field))

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
     "file",
     .help = "of results; unset: standard output (embed needs it); {} in it stands for "
             "the name of an input, without folder and ending: each gets its own",
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
    {score, NULL, "--marginal-bases", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(marginal_bases), NULL,
     .help = "of tokens of several bases: score each base by all words that have it "
             "there, and a token by the sum of its bases, in place of the word"},
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

const struct mds_option_set mds_infer_options = {
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
