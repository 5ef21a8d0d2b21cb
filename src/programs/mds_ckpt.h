/* mds_ckpt's verbs, and what they have in common. */
#ifndef MDS_PROGRAMS_MDS_CKPT_H
#define MDS_PROGRAMS_MDS_CKPT_H

#include "ckpt/folder.h"
#include "ckpt/reader.h"
#include "ckpt/save.h"
#include "config/options.h"
#include "programs/arguments.h"

struct mds_arguments {
    int config, tensors, all, dry_run, weights;
    int64_t keep_last, keep_every;
    double tolerance;
    const char *output;
};

/* A checkpoint to read. */
struct mds_opened {
    struct mds_ckpt_index *ix;
    struct mds_ckpt_reader *reader;
};

/* One of them itself, or the newest of a folder. */
enum mds_rc mds_opened_find(const char *given, char path[MDS_CKPT_PATH]);

/* The same, opened, all its files there.  close: a zeroed one is fine. */
enum mds_rc mds_opened_open(const char *given, struct mds_opened *out);
void mds_opened_close(struct mds_opened *o);

/* Its configuration, changed by the words of a command line (argv[0] is not looked at)
 * and resolved: for --world-size ranks, or as few as the sizes allow. */
enum mds_rc mds_opened_config(const struct mds_opened *o, int argc, char *const *argv,
                              struct mds_config_run **out);

/* Write dir/iter_N from `from`, played by the ranks of cast: configuration is run's,
 * provenance this program's, then `origin`, lines about where it comes from. */
enum mds_rc mds_checkpoint_make(struct mds_config_run *run, const char *dir,
                                const struct mds_ckpt_state *state, const char *origin,
                                const struct mds_ckpt_cast *cast);

enum mds_rc mds_verb_diff(const struct mds_arguments *a, int n, char **operand);
enum mds_rc mds_verb_export(const struct mds_arguments *a, int n, char **operand);
enum mds_rc mds_verb_reshard(const struct mds_arguments *a, int n, char **operand);

#endif
