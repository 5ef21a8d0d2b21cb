/* SPDX-License-Identifier: BSD-3-Clause */
/* A layout: what a plan chooses; and the rows of the model table that are known to be
 * good. */
#ifndef MDS_PLAN_LAYOUT_H
#define MDS_PLAN_LAYOUT_H

#include "base/str.h"
#include "config/options.h"
#include "plan/machine.h"

#include <stdint.h>

struct mds_layout {
    int64_t tensor, pipeline, ulysses, ring;
    int64_t zero;
    int64_t offload_optimizer, offload_params; /* enum mds_place_kind */
    int64_t sequence_parallel;                 /* 0 or 1 */
    int64_t micro, global;                     /* 0: as the configuration has them */
    struct mds_activations act;
};

/* Which members of a layout the user has fixed, by options or SP_TYPE, as bits: bit i
 * is that of mds_layout_flag(i).  *now: the configuration's layout, for `world` ranks.
 */
unsigned mds_layout_fixed(const struct mds_config_run *run, int64_t world,
                          struct mds_layout *now);

/* The option of member i, NULL past the last. */
const char *mds_layout_flag(int member);

int mds_layout_equal(const struct mds_layout *a, const struct mds_layout *b);

/* l, with the members that are fixed taken from *now.  Others give way to them: blocks
 * that shall leave the device keep their insides, and the like; and what then makes no
 * sense is dropped: weights on the host without ZeRO 3 or an update on the host, inputs
 * on the host without recompute.  What is fixed and yet does not go together is left
 * for mds_layout_apply to refuse. */
struct mds_layout mds_layout_keep(struct mds_layout l, const struct mds_layout *now,
                                  unsigned fixed);

/* A copy of run's configuration with that layout, resolved for `world` ranks, with a
 * vocabulary; strings stay run's.  MDS_EUSER, with the reason as mds_fail_text(), if
 * the model does not divide so. */
enum mds_rc mds_layout_apply(const struct mds_config_run *run,
                             const struct mds_layout *l, int64_t world,
                             struct mds_config *out);

/* The words that ask mds_pretrain for it, one blank between them; members that are
 * fixed are left out. */
void mds_layout_options(const struct mds_layout *l, unsigned fixed,
                        struct mds_str *out);

/* ---- rows of the model table, under `layouts` ---- */

struct mds_layout_row {
    struct mds_layout layout;
    char origin[256]; /* "models.yaml:61: arXiv:2104.04473, table 1" */
};

/* The first row for that model, kind of GPU, number of ranks, and sequences up to what
 * it says.  1 and *out set, or 0; faults of the table go to diag. */
int mds_layout_find(const struct mds_config_run *run, const char *gpu, int64_t ranks,
                    struct mds_diag *diag, struct mds_layout_row *out);

#endif
