/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a run may load a checkpoint, as far as its options tell. */
#ifndef MDS_CKPT_FIT_H
#define MDS_CKPT_FIT_H

#include "base/status.h"
#include "config/config.h"

#include <stdint.h>

/* A run that loads a checkpoint: resolved, with the words of its data; and all of its
 * settings as text (mds_settings_text). */
struct mds_ckpt_run {
    const struct mds_config *config;
    const char *configuration;
};

/* MDS_EUSER if its options change what the weights in checkpoint `path` compute;
 * *other_model is 1 then, and 0 if the checkpoint cannot be read. */
enum mds_rc mds_ckpt_check_options(const char *path, const struct mds_ckpt_run *run,
                                   int *other_model);

/* MDS_EUSER if the run has less words than the `words` of checkpoint `path`, or more
 * without --resize-vocab.  Where padding makes the shapes equal, only this tells. */
enum mds_rc mds_ckpt_check_vocabulary(const char *path, int64_t words,
                                      const struct mds_config *c);

#endif
