/* What the values of some settings are called. */
#include "config/config.h"

#include <stddef.h>

const char *const mds_place_names[] = {"none", "cpu", "nvme", NULL};
const char *const mds_recompute_names[] = {"none", "selective", "full", NULL};

enum mds_recompute mds_recompute_of(const struct mds_train_config *t)
{
    return t->recompute == MDS_RECOMPUTE_SELECTIVE && t->recompute_modules
               ? MDS_RECOMPUTE_NONE
               : t->recompute;
}

const char *mds_recompute_modules_name(int modules)
{
    static const char *const names[] = {"", "layernorm", "mlp_act",
                                        "layernorm,mlp_act"};

    return names[modules];
}
