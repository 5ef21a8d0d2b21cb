/* mds_ckpt: what checkpoints hold, whether they are sound, and what they weigh. */
#include "base/units.h"
#include "programs/mds_ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
    "usage: mds_ckpt info [--config] [--tensors] PATH\n"
    "       mds_ckpt verify [--all] PATH\n"
    "       mds_ckpt prune --keep-last N [--keep-every M] [--dry-run] FOLDER\n"
    "       mds_ckpt diff [--tolerance X] [--weights] PATH PATH\n"
    "       mds_ckpt reshard PATH FOLDER [mds_pretrain's options of layout]\n"
    "       mds_ckpt export --output FILE.safetensors PATH\n"
    "       mds_ckpt export --format hf --output DIR [--type T] [--max-shard-bytes N] "
    "PATH\n"
    "       mds_ckpt import DIR FOLDER [mds_pretrain's options of layout]\n"
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
    "prune   removes checkpoints, never the newest nor the last good one\n"
    "  --keep-last N           but the last N\n"
    "  --keep-every M          and those of iterations that M divides\n"
    "  --dry-run               only say how many\n"
    "\n"
    "diff    compares state, tensors and their values; lists settings that differ\n"
    "  --tolerance X           of |a - b| / |a| in a tensor (default: the same bits)\n"
    "  --weights               nothing but weights: neither moments nor iteration\n"
    "\n"
    "reshard writes a checkpoint anew, as the ranks of another layout would, in "
    "FOLDER;\n"
    "        options and defaults are mds_pretrain's: --tensor-model-parallel-size 8 "
    "...\n"
    "  --world-size N          ranks (default: as few as the sizes allow)\n"
    "\n"
    "export  writes the weights for others; what appears is complete\n"
    "  --output FILE.safetensors\n"
    "                          f32, under the names they have here\n"
    "  --format hf --output DIR\n"
    "                          a folder for Hugging Face's transformers, of the shape\n"
    "                          gpt2, gpt_neox or llama\n"
    "  --type fp32|bf16|fp16   of numbers in it (default fp32)\n"
    "  --max-shard-bytes 5GB   more files, none larger (default: one)\n"
    "\n"
    "import  makes a checkpoint, before its first step, of such a folder\n"
    "\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 done and sound, 1 failed, damaged or different.\n";

#define AT(field) offsetof(struct mds_arguments, field)

static const char *const formats[] = {"mds", "hf", NULL};
static const char *const types[] = {"fp32", "bf16", "fp16", NULL};

static const struct mds_argument info_arguments[] = {
    {.name = "--config", MDS_ARG_FLAG, AT(config)},
    {.name = "--tensors", MDS_ARG_FLAG, AT(tensors)},
    {0},
};
static const struct mds_argument verify_arguments[] = {
    {.name = "--all", MDS_ARG_FLAG, AT(all)},
    {0},
};
static const struct mds_argument prune_arguments[] = {
    {.name = "--keep-last", MDS_ARG_COUNT, AT(keep_last)},
    {.name = "--keep-every", MDS_ARG_COUNT, AT(keep_every)},
    {.name = "--dry-run", MDS_ARG_FLAG, AT(dry_run)},
    {0},
};
static const struct mds_argument diff_arguments[] = {
    {.name = "--tolerance", MDS_ARG_REAL, AT(tolerance)},
    {.name = "--weights", MDS_ARG_FLAG, AT(weights)},
    {0},
};
static const struct mds_argument no_arguments[] = {{0}};
static const struct mds_argument export_arguments[] = {
    {.name = "--output", MDS_ARG_TEXT, AT(output)},
    {.name = "--format", MDS_ARG_CHOICE, AT(format), formats},
    {.name = "--type", MDS_ARG_CHOICE, AT(type), types},
    {.name = "--max-shard-bytes", MDS_ARG_BYTES, AT(max_shard_bytes)},
    {0},
};

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

static enum mds_rc run_info(const struct mds_arguments *a, int n, char **operand)
{
    char path[MDS_PATH_SIZE], *configuration, *provenance;
    struct mds_ckpt_index *ix;
    enum mds_rc rc;

    MDS_TRY(mds_operands_check("info", "checkpoint", n, 1));
    MDS_TRY(mds_opened_find(operand[0], path));
    MDS_TRY(mds_ckpt_index_read(path, &ix));
    rc = mds_ckpt_index_texts(path, &configuration, &provenance);
    if (!rc && a->config)
        mds_settings_show_text(configuration, stdout);
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
    MDS_TRY(mds_ckpt_reader_create(ix, 1, &r));
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
    rc = mds_ckpt_index_texts(path, &configuration, &provenance); /* and their sums */
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
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_ckpt_list(dir, &list, &n));
    for (int64_t i = 0; i < n; i++)
        if (mds_ckpt_path(dir, list[i], 0, path) || verify(path)) {
            printf("%s\n", mds_fail_text());
            bad++;
        }
    free(list);
    if (n == 0)
        return mds_fail(MDS_EUSER, "%s: there is no checkpoint", dir);
    return bad ? mds_fail(MDS_EUSER, "%s: %" PRId64 " of %" PRId64 " are damaged", dir,
                          bad, n)
               : MDS_OK;
}

static enum mds_rc run_verify(const struct mds_arguments *a, int n, char **operand)
{
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_operands_check("verify", "checkpoint", n, 1));
    if (a->all)
        return verify_all(operand[0]);
    MDS_TRY(mds_opened_find(operand[0], path));
    return verify(path);
}

/* ---- prune ----------------------------------------------------------------------- */

static enum mds_rc run_prune(const struct mds_arguments *a, int n, char **operand)
{
    int64_t removed;

    MDS_TRY(mds_operands_check("prune", "folder", n, 1));
    if (a->keep_last < 1)
        return mds_fail(MDS_EUSER, "prune: --keep-last N, at least 1, is missing");
    MDS_TRY(
        mds_ckpt_prune(operand[0], a->keep_last, a->keep_every, a->dry_run, &removed));
    printf("%s: %" PRId64 " %s\n", operand[0], removed,
           a->dry_run ? "would be removed" : "removed");
    return MDS_OK;
}

/* ---- main ------------------------------------------------------------------------ */

static const struct mds_verb verbs[] = {
    {.name = "info", info_arguments, run_info},
    {.name = "verify", verify_arguments, run_verify},
    {.name = "prune", prune_arguments, run_prune},
    {.name = "diff", diff_arguments, mds_verb_diff},
    {.name = "export", export_arguments, mds_verb_export},
    {"import", no_arguments, mds_verb_import, .hands_on = 1},
    {"reshard", no_arguments, mds_verb_reshard, .hands_on = 1},
    {0},
};
static const struct mds_program program = {"mds_ckpt", usage_text, verbs};

int main(int argc, char **argv)
{
    struct mds_arguments a = {0};

    return mds_program_run(&program, argc, argv, &a);
}
