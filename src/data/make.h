/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs -> token file: what `mds_data make` does. */
#ifndef MDS_DATA_MAKE_H
#define MDS_DATA_MAKE_H

#include "data/make_input.h"

/* Memory use does not grow with the inputs: the bases of one record at a time are held
 * in an unnamed file in the output's folder.  Logs progress with mds_info. */
enum mds_rc mds_make_tokens(const struct mds_make *m, struct mds_make_stats *out);

#endif
