/* SPDX-License-Identifier: BSD-3-Clause */
/* Batch sizes that change during a run, by how far it is: ranks and micro-batches stay,
 * and a step has more of them or fewer. */
#ifndef MDS_CONFIG_BATCHES_H
#define MDS_CONFIG_BATCHES_H

#include "base/status.h"
#include "config/extent.h"

/* Megatron's ramp from 8 to 4096 by 8 has as many. */
enum { MDS_BATCH_STAGES_MAX = 512 };

struct mds_batch_stage {
    int64_t from;   /* what is done before its first step, in the schedule's unit */
    int64_t global; /* sequences of each of its steps */
};

/* n 0: the size is constant.  Else stage 0 begins at 0, and each begins behind the one
 * before it: a step is of the last stage that begins at what is done before the step.
 */
struct mds_batch_schedule {
    int n;
    enum mds_unit unit; /* samples or tokens */
    struct mds_batch_stage stage[MDS_BATCH_STAGES_MAX];
};

/* The stage of the step that begins where `done` is done; -1 of a constant size. */
int mds_batch_stage_at(const struct mds_batch_schedule *s,
                       const struct mds_extent *done);

/* The sizes of its smallest and its largest stage; n > 0. */
int64_t mds_batch_smallest(const struct mds_batch_schedule *s);
int64_t mds_batch_largest(const struct mds_batch_schedule *s);

/* Megatron's --rampup-batch-size: from `start` in equal increments to `global`, each
 * when another share of `samples` is consumed.  text: "START INCREMENT SAMPLES".
 * MDS_EUSER if it is none, or does not reach `global`. */
enum mds_rc mds_batch_read_rampup(const char *text, int64_t global,
                                  struct mds_batch_schedule *out);

/* Megatron's --step-batch-size-schedule, "0:768 250B:1536": a size from a number of
 * tokens on.  MDS_EUSER if it is none, or the tokens do not rise from 0. */
enum mds_rc mds_batch_read_steps(const char *text, struct mds_batch_schedule *out);

#endif
