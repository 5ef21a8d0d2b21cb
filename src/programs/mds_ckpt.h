/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt's verbs, and what they have in common. */
#ifndef MDS_PROGRAMS_MDS_CKPT_H
#define MDS_PROGRAMS_MDS_CKPT_H

#include "ckpt/folder.h"
#include "ckpt/reader.h"
#include "ckpt/save.h"
#include "config/options.h"
#include "programs/verbs.h"

enum { MDS_FORMAT_MDS, MDS_FORMAT_HF }; /* --format */

struct mds_ckpt_options {
    int config, tensors, all, dry_run, weights, force;
    int64_t keep_last, keep_every;
    double tolerance;
    char *output;
    int format, type; /* of export; its numbers: fp32, bf16, fp16 */
    int64_t max_shard_bytes;
};

static inline const struct mds_ckpt_options *mds_ckpt_options(const struct mds_call *c)
{
    return c->settings.values;
}

/* A checkpoint to read. */
struct mds_opened {
    struct mds_ckpt_index *ix;
    struct mds_ckpt_reader *reader;
};

/* One of them itself, or the newest of a folder. */
enum mds_rc mds_opened_find(const char *given, char path[MDS_PATH_SIZE]);

/* The same, opened, all its files there.  close: a zeroed one is fine. */
enum mds_rc mds_opened_open(const char *given, struct mds_opened *out);
void mds_opened_close(struct mds_opened *o);

/* A configuration from text (`name` for faults), changed by words of a command line,
 * which may be about the layout alone (argv[0] is not looked at), and resolved: for
 * --world-size ranks or as few as the sizes allow, and that many words. */
enum mds_rc mds_layout_read(const char *text, const char *name, int argc,
                            char *const *argv, int64_t words,
                            struct mds_config_run **out);

/* The same from a checkpoint. */
enum mds_rc mds_opened_config(const struct mds_opened *o, int argc, char *const *argv,
                              struct mds_config_run **out);

/* Where the values of a checkpoint to be made come from: elements first .. first + n -
 * 1 of a unit of `local`, gaps 0. */
struct mds_make_source {
    void *ctx;
    enum mds_rc (*fill)(void *ctx, const struct mds_params *local,
                        enum mds_ckpt_what what, int unit, int64_t first, int64_t n,
                        float *out);
};

/* Write dir/iter_N as the ranks of run's layout would.  The configuration is run's, the
 * provenance this program's, then `origin`, lines about where it comes from.  A run in
 * dir would go on from the new checkpoint: MDS_EUSER if dir has any, unless `force`. */
enum mds_rc mds_checkpoint_make(struct mds_config_run *run, const char *dir, int force,
                                const struct mds_ckpt_state *state, const char *origin,
                                const struct mds_make_source *source);

enum mds_rc mds_verb_diff(const struct mds_call *c);
enum mds_rc mds_verb_export(const struct mds_call *c);
enum mds_rc mds_verb_import(const struct mds_call *c);
enum mds_rc mds_verb_reshard(const struct mds_call *c);

#endif
