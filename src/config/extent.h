/* SPDX-License-Identifier: BSD-3-Clause */
/* How far a run has come, how far it goes, and what a step adds: in steps, in samples
 * (sequences) and in tokens.  A length is followed in the unit in which it was given,
 * since a step may have more or fewer samples in the next job, and a sample more or
 * fewer tokens. */
#ifndef MDS_CONFIG_EXTENT_H
#define MDS_CONFIG_EXTENT_H

#include <stdint.h>

enum mds_unit { MDS_STEPS, MDS_SAMPLES, MDS_TOKENS, MDS_UNITS };

/* "steps", "samples", "tokens" */
extern const char *const mds_unit_names[MDS_UNITS];

struct mds_extent {
    int64_t in[MDS_UNITS]; /* of a length: 0 if it was not given in this unit */
};

/* done + steps more. */
struct mds_extent mds_extent_after(const struct mds_extent *done,
                                   const struct mds_extent *step, int64_t steps);

/* The unit of a length; the first, if there are several; MDS_UNITS if it has none. */
enum mds_unit mds_extent_unit(const struct mds_extent *length);

/* Steps from `done` to the end of a length: of several units, to the nearest end.  As
 * in Megatron, samples are counted in whole batches (of a new run at least one), and
 * the last batch of tokens may go beyond the end.  0 if there is no length. */
int64_t mds_steps_left(const struct mds_extent *length, const struct mds_extent *done,
                       const struct mds_extent *step);

#endif
