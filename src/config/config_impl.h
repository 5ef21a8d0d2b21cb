/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of mds_pretrain's configuration share; not for other rooms. */
#ifndef MDS_CONFIG_IMPL_H
#define MDS_CONFIG_IMPL_H

#include "config/options.h"

#include <limits.h>

enum { MDS_GPT2_WORDS = 50257 }; /* Radford et al. 2019, section 2.2 */

/* The row of the model table that model.size_key names.  GPT1T_20L is GPT1T with 20
 * layers, llama3-3B-nLayers20 is llama3-3B with as many.  Also finds the table, unless
 * --model-table is given. */
void mds_model_table_apply(struct mds_config_run *run, struct mds_diag *diag);

/* Where a file or folder is that comes with mds: in_source for a program that runs from
 * its build tree, which returns 1; else `name` in the data folder of the tree that this
 * program is installed in, wherever that was moved to. */
int mds_config_shipped(const char *in_source, const char *name, char path[PATH_MAX]);

/* Where the value of key came from, for faults. */
static inline const char *mds_config_origin(const struct mds_config_run *run,
                                            const char *key)
{
    return mds_settings_of(&run->settings, key)->origin;
}

/* A size of 0 becomes value. */
static inline void derive(struct mds_config_run *run, const char *key, int64_t *field,
                          int64_t value, const char *how)
{
    if (*field != 0)
        return;
    *field = value;
    mds_settings_derived(&run->settings, key, how);
}

/* Of the run, of warm-up and decay: steps from samples or tokens; after the batch is
 * resolved. */
void mds_config_resolve_lengths(struct mds_config_run *run, struct mds_diag *diag);

/* The learning rate's steps, and whether they go together. */
void mds_config_resolve_schedule(struct mds_config_run *run, struct mds_diag *diag);

/* Where nobody has asked for a sequence length, no more than the rows of the position
 * table that a checkpoint has. */
void mds_config_shorten_sequences(struct mds_config_run *run, const char *origin,
                                  struct mds_diag *diag);

/* The sizes that SP_TYPE leaves open, and how many copies of the model there are.  0 if
 * the ranks do not make whole copies. */
int mds_config_resolve_grid(struct mds_config_run *run, struct mds_diag *diag);

/* Tensor x pipeline x Ulysses x ring ranks. */
int64_t mds_config_ranks_of_a_copy(const struct mds_config_run *run);

/* Whether model and batch can be shared out so; after both are resolved. */
void mds_config_check_layout(struct mds_config_run *run, struct mds_diag *diag);

/* Whether ZeRO, offload, recompute and precision go together. */
void mds_config_check_memory(struct mds_config_run *run, struct mds_diag *diag);

/* DeepSpeed's JSON, at the level of a file.  One warning names the keys that mds does
 * not use; a key that looks like a slip of one it does use is a fault. */
void mds_deepspeed_apply(struct mds_settings *s, const struct mds_tree *t,
                         struct mds_diag *diag);

#endif
