/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the sources of mds_pretrain's configuration; not for other modules. */
#ifndef MDS_CONFIG_IMPL_H
#define MDS_CONFIG_IMPL_H

#include "config/options.h"

enum { MDS_GPT2_WORDS = 50257 }; /* Radford et al. 2019, section 2.2 */

/* The row of the model table that model.size_key names.  GPT1T_20L is GPT1T with 20
 * layers, llama3-3B-nLayers20 is llama3-3B with as many.  Also finds the table, unless
 * --model-table is given. */
void mds_model_table_apply(struct mds_config_run *run, struct mds_diag *diag);

/* Where the value of key came from, for error messages. */
static inline const char *mds_config_origin(const struct mds_config_run *run,
                                            const char *key)
{
    return mds_settings_of(&run->settings, key)->origin;
}

/* Whether this run, and not a default or its checkpoint, says what key is. */
static inline int mds_config_is_given(const struct mds_config_run *run, const char *key)
{
    return mds_settings_of(&run->settings, key)->level > MDS_LEVEL_CHECKPOINT;
}

/* Warn of an option that is given, and has no effect without another. */
static inline void mds_config_warn_ignored(const struct mds_config_run *run,
                                           const char *key, const char *missing,
                                           struct mds_diag *diag)
{
    if (mds_config_is_given(run, key))
        mds_diag_warn(diag, mds_config_origin(run, key), "%s is ignored without %s",
                      mds_settings_flag(&run->settings, key), missing);
}

/* If *field is 0, set it to value and record that it is derived, and how. */
static inline void derive(struct mds_config_run *run, const char *key, int64_t *field,
                          int64_t value, const char *how)
{
    if (*field != 0)
        return;
    *field = value;
    mds_settings_derived(&run->settings, key, how);
}

/* Derive the window and which layers have it. */
void mds_config_resolve_window(struct mds_config_run *run, struct mds_diag *diag);

/* Derive the base width of muP, and check that its settings are with it. */
void mds_config_resolve_mup(struct mds_config_run *run, struct mds_diag *diag);

/* Check that type, model and layout allow FP8.  Call it after the grid is resolved. */
void mds_config_check_fp8(const struct mds_config_run *run, struct mds_diag *diag);
/* The same of experts. */
void mds_config_check_experts(const struct mds_config_run *run, struct mds_diag *diag);

/* Check the scaling of rotary frequencies.  Call it after heads are resolved. */
void mds_config_check_rope(const struct mds_config_run *run, struct mds_diag *diag);

/* Resolve the batch, and the sizes that it has during the run.  0 if it is not usable.
 * Call it after the grid is resolved. */
int mds_config_resolve_batch(struct mds_config_run *run, struct mds_diag *diag);

/* Whether each size of a schedule is a multiple of `unit`, which is `what`; if not, a
 * fault names the first that is not. */
int mds_config_check_stages(const struct mds_config_run *run, int64_t unit,
                            const char *what, struct mds_diag *diag);

/* Resolve the lengths of run, decay and warm-up, and check that they are consistent.
 * Call it after the batch is resolved. */
void mds_config_resolve_lengths(struct mds_config_run *run, struct mds_diag *diag);

/* Whether the configuration in checkpoint `name` is that of a run, which has data.  An
 * import has none, so what is said of data in it was nobody's decision. */
enum mds_rc mds_saved_has_data(const char *text, const char *name, int *out);

/* If no sequence length is set, limit it to the size of the checkpoint's position
 * table. */
void mds_config_limit_seq_length(struct mds_config_run *run, const char *origin,
                                 struct mds_diag *diag);

/* The sizes that SP_TYPE leaves open, and how many copies of the model there are.  0 if
 * the ranks do not make whole copies. */
int mds_config_resolve_grid(struct mds_config_run *run, struct mds_diag *diag);

/* Of which any number that a run has is a multiple (mds_axes_model_ranks). */
int64_t mds_config_model_ranks(const struct mds_config_run *run);

/* Check that model and batch divide over the layout.  Call it after both are resolved.
 */
void mds_config_check_layout(struct mds_config_run *run, struct mds_diag *diag);

/* Check that ZeRO, offload, recompute and precision are compatible. */
void mds_config_check_memory(struct mds_config_run *run, struct mds_diag *diag);

/* Read DeepSpeed's JSON, with the precedence of a file.  One warning lists the keys
 * that mds does not use.  A key that looks like a misspelling of a known one is a
 * fault. */
void mds_deepspeed_apply(struct mds_settings *s, const struct mds_tree *t,
                         struct mds_diag *diag);

#endif
