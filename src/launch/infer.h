/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of mds_infer (--program mds_infer): its words follow "--", as mds_pretrain's do
 * elsewhere.  They are read here by what reads them on the ranks, so what is wrong with
 * model, files or options is said on the login node.
 *
 * A layout for scoring has as many copies of the model as fit; each sequence is shared
 * by as few ranks as its memory needs, or by more if there are fewer sequences than
 * copies.  So for generation, where stages of a pipeline may share the model, too. */
#ifndef MDS_LAUNCH_INFER_H
#define MDS_LAUNCH_INFER_H

#include "infer/batch.h"
#include "infer/command.h"
#include "launch/launch.h"

/* Whether --program names mds_infer. */
int mds_launch_infers(const struct mds_launch_options *o);

/* One of the layouts that were tried. */
struct mds_infer_layout {
    int64_t tensor, ulysses, ring, pipeline, data;
    int64_t copies;        /* of the model that have work, up to data */
    int64_t micro, tokens; /* rows of a micro-batch, and their length */
    struct mds_estimate estimate;
    double all_s;     /* for everything; 0: unknown */
    double results_s; /* until the first results are written, at most */
    char why[256];    /* why the model does not divide so, or "" */
};

enum { MDS_INFER_LAYOUTS = 128 };

struct mds_infer_plan {
    /* The command line: subcommand and mds_infer's options, files, options of
     * mds_pretrain. */
    struct mds_argv own, files, passed;
    int resumes;            /* it may be started again, and goes on */
    struct mds_argv output; /* of each file, if they are not standard output */
    int64_t jobs;           /* that share the files, which are in order of size */
    struct mds_infer_need need;
    double tokens; /* of all inputs, as far as they could be read or estimated; 0:
                      unknown */
    /* Of generation, likewise: sequences, and what follows them at most. */
    double sequences, new_tokens;
    int generates;
    struct mds_infer_layout tried[MDS_INFER_LAYOUTS];
    int n, best;                  /* best: -1 if none may start */
    struct mds_infer_model model; /* with the best layout */
};

/* Read the words that the user gave and, for at most --plan-seconds, the inputs; find
 * the layout that is done first, of those that fit, for one of `jobs` that share the
 * files (0: none, the ranks start here).  If nothing fits best is -1, or with
 * --no-check-memory what needs least.  The caller closes it in any case. */
enum mds_rc mds_infer_plan_make(const struct mds_launch *l, int64_t jobs,
                                struct mds_infer_plan *out);
void mds_infer_plan_close(struct mds_infer_plan *p);

/* MDS_EUSER if nothing may start. */
enum mds_rc mds_infer_plan_check(const struct mds_launch *l, struct mds_infer_plan *p);

/* Append all words. */
void mds_infer_plan_arguments(const struct mds_infer_plan *p, struct mds_argv *out);

/* The table of what was tried, and what all takes. */
void mds_infer_plan_print(const struct mds_launch *l, const struct mds_infer_plan *p,
                          FILE *f);

/* "12 M tokens = 3 h = 6 node-hours, 3 jobs of 1:00:00"; as mds_launch_length. */
void mds_infer_plan_length(const struct mds_launch *l, const struct mds_infer_plan *p,
                           double job_s, const char *job, struct mds_str *out);

/* Bytes of the outputs that are there. */
int64_t mds_infer_plan_written(const struct mds_infer_plan *p);

/* plan --program mds_infer. */
enum mds_rc mds_infer_plan_command(const struct mds_launch_options *o, int argc,
                                   char *const *argv);

#endif
