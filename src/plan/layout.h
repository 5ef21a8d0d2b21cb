/* SPDX-License-Identifier: BSD-3-Clause */
/* A layout is what a plan chooses.  Also: the known good layouts of the model table. */
#ifndef MDS_PLAN_LAYOUT_H
#define MDS_PLAN_LAYOUT_H

#include "base/str.h"
#include "config/options.h"
#include "plan/machine.h"

#include <stdint.h>

struct mds_layout {
    int64_t tensor, pipeline, ulysses, ring;
    int64_t expert; /* of Ulysses x ring x data ranks those that share experts */
    int64_t zero;
    int64_t offload_optimizer, offload_params; /* enum mds_place_kind */
    int64_t sequence_parallel;                 /* 0 or 1 */
    int64_t micro, global;                     /* 0: as the configuration has them */
    struct mds_activations act;
};

/* Which members of a layout the user has fixed, by options or SP_TYPE, as bits: bit i
 * is that of mds_layout_flag(i).  *user: the configuration's layout, for `world` ranks.
 */
unsigned mds_layout_fixed(const struct mds_config_run *run, int64_t world,
                          struct mds_layout *user);

/* The option of member i, NULL past the last. */
const char *mds_layout_flag(int member);

int mds_layout_equal(const struct mds_layout *a, const struct mds_layout *b);

/* l, with the fixed members taken from *user.  Other members are adapted to them, and
 * what then makes no sense is dropped: weights on the host without ZeRO 3 or an update
 * on the host, inputs on the host without recompute.  Fixed members that contradict
 * each other are left for mds_layout_apply to report. */
struct mds_layout mds_layout_keep(struct mds_layout l, const struct mds_layout *user,
                                  unsigned fixed);

/* A copy of run's configuration with that layout, resolved for `world` ranks, with a
 * vocabulary; strings stay run's.  MDS_EUSER, with the reason as mds_fail_text(), if
 * the model does not divide so. */
enum mds_rc mds_layout_apply(const struct mds_config_run *run,
                             const struct mds_layout *l, int64_t world,
                             struct mds_config *out);

/* Append the options that give this layout behind the user's, separated by spaces: none
 * of fixed members, but as mds_act_text_behind where the user's --activation-memory,
 * `asked` or NULL, has to be replaced. */
void mds_layout_options(const struct mds_layout *l, const char *asked, unsigned fixed,
                        struct mds_str *out);

/* ---- rows of the model table, under `layouts` ---- */

struct mds_layout_row {
    struct mds_layout layout;
    char origin[256]; /* "models.yaml:61: arXiv:2104.04473, table 1" */
};

/* The first row for that model, kind of GPU, number of ranks and sequence length.
 * Returns 1 and sets *out, or returns 0; errors in the table go to diag. */
int mds_layout_find(const struct mds_config_run *run, const char *gpu, int64_t ranks,
                    struct mds_diag *diag, struct mds_layout_row *out);

#endif
