/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds of tokens in files.  A token file may have, besides its tokens,
 *
 *   /kinds/name      UTF-8 strings, one for each kind
 *   /kinds/weight    float64, the same number
 *   /kinds/of_token  uint8, one for each token: the number of its kind, from 0
 *
 * A Megatron pair has them in a file of their own, PREFIX.kinds.h5. */
#ifndef MDS_DATA_KINDS_H
#define MDS_DATA_KINDS_H

#include "base/status.h"
#include "config/kinds.h"
#include "io/h5.h"

#include <stdint.h>

/* The kinds of one file. */
struct mds_kinds {
    struct mds_kind kind[MDS_KINDS_MAX];
    int n;

    struct mds_h5 *h5; /* borrowed */
    struct mds_h5_dataset *of_token;
};

/* Write the table into a new file. */
enum mds_rc mds_kinds_write(struct mds_h5 *h5, const char *path,
                            const struct mds_kind *kinds, int n);

/* Of a file of `tokens` tokens.  MDS_EUSER if names or weights are invalid, or
 * /kinds/of_token has another length. */
enum mds_rc mds_kinds_open(struct mds_h5 *h5, const char *path, int64_t tokens,
                           struct mds_kinds **out);
void mds_kinds_close(struct mds_kinds *k); /* NULL is fine */

/* The kinds of tokens first .. first + count - 1.  MDS_EUSER for a number without a
 * name. */
enum mds_rc mds_kinds_read(struct mds_kinds *k, const char *path, int64_t first,
                           int64_t count, unsigned char *kinds);

#endif
