/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt: inspect, verify, prune, compare, merge, export, import, reshard and
 * upcycle. */
#include "base/units.h"
#include "config.h"
#include "data/position.h"
#include "data/tokenizer.h"
#include "io/folder.h"
#include "kernels/experts.h"
#include "programs/mds_ckpt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Headings of --help: subcommands. */
static const char info[] = "info";
static const char verifying[] = "verify";
static const char prune[] = "prune";
static const char diff[] = "diff";
static const char exporting[] = "export";
static const char merging[] = "merge only";
static const char upcycling[] = "upcycle only";
static const char making[] = "import, merge, reshard and upcycle";
static const char replacing[] = "Replacing"; /* of export and those */
static const char general[] = "General";

static const char *const formats[] = {"mds", "hf", NULL};
static const char *const types[] = {"fp32", "bf16", "fp16", NULL};

#define AT(field) ((ptrdiff_t)offsetof(struct mds_ckpt_options, field))

static const struct mds_option rows[] = {
    {info, NULL, "--config", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(config), NULL,
     .help = "the configuration of the run instead, as YAML"},
    {info, NULL, "--tensors", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(tensors), NULL,
     .help = "names and shapes of tensors as well"},

    {verifying, NULL, "--all", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(all), NULL,
     .help = "every checkpoint in the folder"},

    {prune, NULL, "--keep-last", NULL, MDS_OPT_COUNT, NULL, 1, MDS_OPT_NO_MAX, NULL,
     AT(keep_last), "n", .help = "needed: keep the last n"},
    {prune, NULL, "--keep-every", NULL, MDS_OPT_COUNT, NULL, 0, MDS_OPT_NO_MAX, NULL,
     AT(keep_every), "m", .help = "and those of iterations that m divides"},
    {prune, NULL, "--dry-run", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(dry_run), NULL,
     .help = "only say how many would go"},

    {diff, NULL, "--tolerance", NULL, MDS_OPT_REAL, NULL, 0, MDS_OPT_NO_MAX, NULL,
     AT(tolerance), "x", .help = "of |a - b| / |a| in a tensor; unset: the same bits"},
    {diff, NULL, "--weights", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(weights), NULL,
     .help = "nothing but weights: neither moments nor iteration"},

    {exporting, NULL, "--output", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(output),
     "path", .help = "needed: FILE.safetensors, or with --format hf a folder",
     .path = MDS_PATH_EITHER},
    {exporting, NULL, "--format", NULL, MDS_OPT_ENUM, "mds", 0, 0, formats, AT(format),
     NULL,
     .help = "mds: one file of f32 under the names they have here; hf: a folder for "
             "Hugging Face's transformers, of the shape gpt2, gpt_neox, llama, qwen3, "
             "olmo2, "
             "mixtral or qwen3_moe"},
    {exporting, NULL, "--type", NULL, MDS_OPT_ENUM, "fp32", 0, 0, types, AT(type), NULL,
     .help = "with hf: of the numbers"},
    {exporting, NULL, "--max-shard-bytes", NULL, MDS_OPT_BYTES, NULL, 0, MDS_OPT_NO_MAX,
     NULL, AT(max_shard_bytes), "bytes",
     .help = "with hf: more files, none larger; unset: one"},

    {merging, NULL, "--last", NULL, MDS_OPT_COUNT, NULL, 2, MDS_OPT_NO_MAX, NULL,
     AT(last), "n", .help = "the last n of one folder; unset: those that are named"},
    {merging, NULL, "--ema", NULL, MDS_OPT_REAL, NULL, 1e-6, 0.999999, NULL, AT(ema),
     "d",
     .help = "oldest first, d times the average so far and 1 - d times the next; "
             "unset: the mean"},

    {upcycling, NULL, "--experts", NULL, MDS_OPT_COUNT, NULL, 1, MDSK_EXPERTS_MOST,
     NULL, AT(experts), "n", .help = "needed: how many each MLP becomes"},
    {upcycling, NULL, "--topk", NULL, MDS_OPT_COUNT, "2", 1, MDSK_EXPERTS_MOST, NULL,
     AT(topk), "k", .help = "how many of them compute a token"},

    {making, NULL, "--force", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(force), NULL,
     .help = "also in a FOLDER that has checkpoints; `latest` names the new one then"},

    {replacing, NULL, "--overwrite", "MDS_OVERWRITE", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(overwrite), NULL,
     .help = "replace FILE.safetensors, an earlier export for Hugging Face, or the "
             "checkpoint of the same iteration, if there is one; unset: an error"},

    MDS_OPT_HELP_AND_VERSION(general),
    {.help = NULL},
};

static const struct mds_option_alias aliases[] = {{"-o", "--output", NULL, NULL},
                                                  {.name = NULL}};

static const struct mds_option_set options = {
    .program = "mds_ckpt",
    .version = PACKAGE_VERSION,
    .synopsis = "SUBCOMMAND [option]... PATH...",
    .about =
        "info prints iteration, size, layout and origin of a checkpoint; verify reads "
        "everything and compares all checksums; prune removes checkpoints, never the "
        "newest nor the last good one; diff compares two; reshard writes one anew for "
        "another layout; export writes the weights for others; import makes a "
        "checkpoint of a Hugging Face folder; merge averages the weights of several; "
        "upcycle makes experts of a dense model's MLPs.\n"
        "PATH is a folder of checkpoints (of its newest, then) or one of them. "
        "mds_ckpt SUBCOMMAND --help says more of each.\n"
        "Exit status: 0 done and sound, 1 failed, damaged or different.",
    .options = rows,
    .aliases = aliases,
    .operands = "path",
};

/* ---- info ------------------------------------------------------------------------ */

static int64_t element_count(const struct mds_ckpt_tensor *t)
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

/* NULL: that is not known, or has no name. */
static const char *tokenizer_name(const struct mds_ckpt_state *s)
{
    int64_t t = s->tokenizer - 1;

    return t >= 0 && t < MDS_TOKENIZERS && t != MDS_TOKENIZER_IDS
               ? mds_tokenizer_names[t]
               : NULL;
}

static void print_biases(const struct mds_ckpt_state *s)
{
    double least = INFINITY, most = -INFINITY;

    for (int64_t i = 0; i < s->expert_biases; i++) {
        least = fmin(least, s->expert_bias[i]);
        most = fmax(most, s->expert_bias[i]);
    }
    printf("biases of experts: %g to %g\n", least, most);
}

static int64_t index_file_bytes(const struct mds_ckpt_index *ix)
{
    char path[MDS_PATH_SIZE];
    struct stat st;

    return mds_path_join(ix->path, "index.h5", path) == MDS_OK && stat(path, &st) == 0
               ? (int64_t)st.st_size
               : 0;
}

static void print_index(const struct mds_ckpt_index *ix, const char *provenance)
{
    int64_t bytes = index_file_bytes(ix), files = 1, count = 0;
    const char *tokenizer = tokenizer_name(&ix->state);
    char size[32], numbers[32];

    for (int64_t i = 0; i < ix->ranks; i++) {
        bytes += ix->bytes[i];
        files += ix->bytes[i] > 0;
    }
    for (int64_t i = 0; i < ix->tensors; i++)
        count += element_count(&ix->tensor[i]);
    printf("checkpoint: %s\niteration: %" PRId64 "\nsamples: %" PRId64
           "\ntokens: %" PRId64 "\nupdates: %" PRId64 "\nloss scale: %g\n",
           ix->path, ix->state.iteration, ix->state.samples, ix->state.tokens,
           ix->state.updates, ix->state.loss_scale);
    printf("parameters: %s in %" PRId64 " tensor%s\nvocabulary: %" PRId64
           " words%s%s, %" PRId64 " rows\nfiles: %" PRId64 ", %s\n",
           mds_format_count((double)count, numbers, sizeof numbers), ix->tensors,
           mds_plural(ix->tensors), ix->state.vocab, tokenizer ? " of " : "",
           tokenizer ? tokenizer : "", ix->state.padded_vocab, files,
           mds_format_bytes((double)bytes, size, sizeof size));
    if (ix->state.expert_biases > 0)
        print_biases(&ix->state);
    fputs(provenance, stdout);
}

/* How far the run had come in each file of its data. */
static enum mds_rc print_data(const struct mds_ckpt_index *ix)
{
    struct mds_position p;
    char *text;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_data(ix->path, &text));
    if (!text)
        return MDS_OK;
    rc = mds_position_parse(text, ix->path, ix->state.samples, &p);
    free(text);
    MDS_TRY(rc);
    rc = mds_position_advance(&p, ix->state.samples);
    for (int i = 0; !rc && i < p.n; i++)
        printf("data: %s: %" PRId64 " samples, %.3g epochs%s\n", p.file[i].path,
               p.file[i].start, (double)p.file[i].start / (double)p.file[i].samples,
               p.file[i].share > 0 ? "" : ", not in the mix any more");
    mds_position_fini(&p);
    return rc;
}

static enum mds_rc ckpt_run_info(const struct mds_invocation *c)
{
    const struct mds_ckpt_options *a = mds_ckpt_options(c);
    char path[MDS_PATH_SIZE], *configuration, *provenance;
    struct mds_ckpt_index *ix;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_input_find(c->operand[0], path));
    MDS_TRY(mds_ckpt_index_read(path, &ix));
    rc = mds_ckpt_index_texts(path, &configuration, &provenance);
    if (rc)
        goto destroy_ix;
    if (a->config) {
        mds_settings_show_text(configuration, stdout);
    } else {
        print_index(ix, provenance);
        rc = print_data(ix);
    }
    if (!rc && a->tensors)
        print_tensors(ix);
    free(configuration);
    free(provenance);
destroy_ix:
    mds_ckpt_index_destroy(ix);
    return rc;
}

/* ---- verify ---------------------------------------------------------------------- */

static enum mds_rc verify_files(const struct mds_ckpt_index *ix)
{
    struct mds_ckpt_reader *r;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_check_files(ix));
    MDS_TRY(mds_ckpt_reader_create(ix, 1, &r));
    rc = MDS_OK;
    for (int64_t i = 0; !rc && i < ix->ranks; i++)
        if (ix->bytes[i] > 0)
            rc = mds_ckpt_reader_verify(r, i);
    mds_ckpt_reader_destroy(r);
    return rc;
}

static enum mds_rc verify_checkpoint(const char *path)
{
    struct mds_ckpt_index *ix;
    char *configuration, *provenance;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_read(path, &ix)); /* and its checksum */
    /* an older index has no checksum, but these texts have */
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

/* A folder without any is not the one that was meant. */
static enum mds_rc require_checkpoints(const char *dir, int64_t n)
{
    return n > 0
               ? MDS_OK
               : mds_fail(
                     MDS_EUSER,
                     "%s: not a folder of checkpoints; give the one that --save named",
                     dir);
}

/* All of them, whatever the first ones are like; what there is no memory to read may be
 * sound. */
static enum mds_rc verify_all(const char *dir)
{
    int64_t *iterations, n, bad = 0;
    char path[MDS_PATH_SIZE];
    enum mds_rc rc = MDS_OK;

    MDS_TRY(mds_ckpt_list(dir, &iterations, &n));
    MDS_TRY(require_checkpoints(dir, n)); /* without any there is no list either */
    for (int64_t i = 0; rc != MDS_EMEM && i < n; i++) {
        rc = mds_ckpt_path(dir, iterations[i], 0, path);
        if (!rc)
            rc = verify_checkpoint(path);
        if (rc && rc != MDS_EMEM) {
            printf("%s\n", mds_fail_text());
            bad++;
        }
    }
    free(iterations);
    if (rc == MDS_EMEM)
        return rc;
    return bad ? mds_fail(MDS_EUSER, "%s: %" PRId64 " of %" PRId64 " are damaged", dir,
                          bad, n)
               : MDS_OK;
}

static enum mds_rc ckpt_run_verify(const struct mds_invocation *c)
{
    char path[MDS_PATH_SIZE];

    if (mds_ckpt_options(c)->all)
        return verify_all(c->operand[0]);
    MDS_TRY(mds_ckpt_input_find(c->operand[0], path));
    return verify_checkpoint(path);
}

/* ---- prune ----------------------------------------------------------------------- */

static enum mds_rc ckpt_run_prune(const struct mds_invocation *c)
{
    const struct mds_ckpt_options *a = mds_ckpt_options(c);
    const char *dir = c->operand[0];
    int64_t found, removed;

    if (a->keep_last < 1)
        return mds_fail(MDS_EUSER, "prune: --keep-last N, at least 1, is missing");
    MDS_TRY(
        mds_ckpt_prune(dir, a->keep_last, a->keep_every, a->dry_run, &found, &removed));
    MDS_TRY(require_checkpoints(dir, found));
    printf("%s: %" PRId64 " %s\n", dir, removed,
           a->dry_run ? "would be removed" : "removed");
    return MDS_OK;
}

/* ---- main ------------------------------------------------------------------------ */

static const struct mds_subcommand subcommands[] = {
    {"info", "info [--config] [--tensors] PATH",
     "Prints iteration, size, layout and origin of a checkpoint.", NULL, 1, 1,
     "one checkpoint", .run = ckpt_run_info},
    {"verify", "verify [--all] PATH", "Reads everything and compares all checksums.",
     NULL, 1, 1, "one checkpoint", .run = ckpt_run_verify},
    {"prune", "prune --keep-last N [--keep-every M] [--dry-run] FOLDER",
     "Removes checkpoints, never the newest nor the last good one.", NULL, 1, 1,
     "one FOLDER of checkpoints", .run = ckpt_run_prune},
    {"diff", "diff [--tolerance X] [--weights] PATH PATH",
     "Compares state, tensors and their values; lists settings that differ.", NULL, 2,
     2, "two checkpoints", .run = mds_ckpt_run_diff},
    {"export", "export --output PATH [--format hf] [option]... PATH",
     "Writes the weights for others; what appears is complete.", "export Replacing", 1,
     1, "one checkpoint", .run = mds_ckpt_run_export},
    {"import",
     "import [--force] [--overwrite] DIR FOLDER [mds_pretrain's options of layout]",
     "Makes a checkpoint in FOLDER, before its first step, of Hugging Face's folder "
     "DIR.",
     "import, merge, reshard and upcycle Replacing", .most = SIZE_MAX,
     .run = mds_ckpt_run_import, .passes_unknown = 1},
    {"merge", "merge [--last N] [--ema D] [--force] [--overwrite] PATH... FOLDER",
     "Writes the mean of the weights of checkpoints of one run, or their moving "
     "average, in FOLDER, without moments: for --finetune and --skip-train.",
     "merge only import, merge, reshard and upcycle Replacing", 2, SIZE_MAX,
     "checkpoints and a FOLDER for the new one", .run = mds_ckpt_run_merge},
    {"reshard",
     "reshard [--force] [--overwrite] PATH FOLDER [mds_pretrain's options of layout]",
     "Writes a checkpoint anew, as the ranks of another layout would, in FOLDER. "
     "Options and defaults are mds_pretrain's, such as --tensor-model-parallel-size 8; "
     "--world-size N says how many ranks (unset: as few as the sizes allow).",
     "import, merge, reshard and upcycle Replacing", .most = SIZE_MAX,
     .run = mds_ckpt_run_reshard, .passes_unknown = 1},
    {"upcycle",
     "upcycle --experts N [--topk K] [--force] [--overwrite] PATH FOLDER "
     "[mds_pretrain's options of layout]",
     "Makes a mixture of experts of a dense model, in FOLDER, before its first step: "
     "each expert is the MLP, so that the model computes what it did.",
     "upcycle only import, merge, reshard and upcycle Replacing", .most = SIZE_MAX,
     .run = mds_ckpt_run_upcycle, .passes_unknown = 1},
    {0},
};

int main(int argc, char **argv)
{
    static const struct mds_program program = {&options, subcommands, NULL};
    struct mds_ckpt_options values = {0};

    return mds_program_run(&program, argc, argv, &values);
}
