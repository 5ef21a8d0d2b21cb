/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt's subcommands and what they share. */
#ifndef MDS_PROGRAMS_MDS_CKPT_H
#define MDS_PROGRAMS_MDS_CKPT_H

#include "ckpt/folder.h"
#include "ckpt/reader.h"
#include "ckpt/save.h"
#include "config/options.h"
#include "programs/subcommands.h"

enum { MDS_FORMAT_MDS, MDS_FORMAT_HF }; /* --format */

struct mds_ckpt_options {
    int config, tensors, all, dry_run, weights, force, overwrite;
    int64_t keep_last, keep_every;
    int64_t last;          /* of merge; 0: those that are named */
    int64_t experts, topk; /* of upcycle */
    double tolerance, ema;
    char *output;
    int format, type; /* of export; its numbers: fp32, bf16, fp16 */
    int64_t max_shard_bytes;
};

static inline const struct mds_ckpt_options *
mds_ckpt_options(const struct mds_invocation *c)
{
    return c->settings.values;
}

/* A checkpoint open for reading. */
struct mds_ckpt_input {
    struct mds_ckpt_index *ix;
    struct mds_ckpt_reader *reader;
};

/* The checkpoint that `given` names: a checkpoint itself, or the newest in a folder. */
enum mds_rc mds_ckpt_input_find(const char *given, char path[MDS_PATH_SIZE]);

/* Find and open it; fails if one of its files is missing.  close accepts a zeroed
 * struct. */
enum mds_rc mds_ckpt_input_open(const char *given, struct mds_ckpt_input *out);
void mds_ckpt_input_close(struct mds_ckpt_input *o);

/* Read a configuration from text (`name` is for messages), change it by command-line
 * arguments, which may concern only the layout (argv[0] is skipped), and resolve it for
 * --world-size ranks, or as few as the sizes allow, and a vocabulary of `words`. */
enum mds_rc mds_layout_read(const char *text, const char *name, int argc,
                            char *const *argv, int64_t words,
                            struct mds_config_run **out);

/* The same for the configuration and vocabulary of a checkpoint. */
enum mds_rc mds_ckpt_input_config(const struct mds_ckpt_input *o, int argc,
                                  char *const *argv, struct mds_config_run **out);

/* The values of a checkpoint to write.  fill gives elements first .. first + n - 1 of a
 * unit of `local`, with 0 in the gaps between parameters. */
struct mds_make_source {
    void *ctx;
    enum mds_rc (*fill)(void *ctx, const struct mds_params *local,
                        enum mds_ckpt_what what, int unit, int64_t first, int64_t n,
                        float *out);
};

/* Write dir/iter_N exactly as the ranks of run's layout would.  Its provenance is this
 * program's followed by the lines of `origin`; data: as in struct mds_ckpt_save.
 * MDS_EUSER if dir has iter_N already, unless options->overwrite; or other checkpoints,
 * because a run there would then resume from the new one; options->force allows it. */
enum mds_rc mds_checkpoint_make(struct mds_config_run *run, const char *dir,
                                const struct mds_ckpt_options *options,
                                const struct mds_ckpt_state *state, const char *data,
                                const char *origin,
                                const struct mds_make_source *source);

enum mds_rc mds_ckpt_run_diff(const struct mds_invocation *c);
enum mds_rc mds_ckpt_run_export(const struct mds_invocation *c);
enum mds_rc mds_ckpt_run_import(const struct mds_invocation *c);
enum mds_rc mds_ckpt_run_merge(const struct mds_invocation *c);
enum mds_rc mds_ckpt_run_reshard(const struct mds_invocation *c);
enum mds_rc mds_ckpt_run_upcycle(const struct mds_invocation *c);

#endif
