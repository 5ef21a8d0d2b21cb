/* SPDX-License-Identifier: BSD-3-Clause */
/* The log-likelihood of each token, as HDF5:
 *
 *   /loglik  f64 [tokens]      of all sequences, one after the other, in nats; of a
 *                              first token nan
 *   /start   i64 [sequences+1] where each begins, and the end
 *   /name    [sequences]       UTF-8 strings */
#ifndef MDS_INFER_PER_TOKEN_H
#define MDS_INFER_PER_TOKEN_H

#include "base/status.h"

#include <stdint.h>

struct mds_infer_per_token;

/* The file appears when it is complete. */
enum mds_rc mds_infer_per_token_create(const char *path, int overwrite,
                                       struct mds_infer_per_token **out);
/* loglik [n]; the first is not used. */
enum mds_rc mds_infer_per_token_add(struct mds_infer_per_token *p, const char *name,
                                    const double *loglik, int64_t n);
/* Either frees p; NULL is fine for abandon, which removes the file. */
enum mds_rc mds_infer_per_token_finish(struct mds_infer_per_token *p);
void mds_infer_per_token_abandon(struct mds_infer_per_token *p);

#endif
