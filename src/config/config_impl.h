/* What the parts of mds_pretrain's configuration share; not for other rooms. */
#ifndef MDS_CONFIG_IMPL_H
#define MDS_CONFIG_IMPL_H

#include "config/options.h"

/* The row of the model table that model.size_key names.  GPT1T_20L is GPT1T with 20
 * layers.  Also finds the table, unless --model-table is given. */
void mds_model_table_apply(struct mds_config_run *run, struct mds_diag *diag);

/* DeepSpeed's JSON, at the level of a file.  One warning names the keys that mds does
 * not use; a key that looks like a slip of one it does use is a fault. */
void mds_deepspeed_apply(struct mds_settings *s, const struct mds_tree *t,
                         struct mds_diag *diag);

#endif
