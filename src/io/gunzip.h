/* SPDX-License-Identifier: BSD-3-Clause */
/* Decompress gzip streams with any number of members, as bgzip and `cat a.gz b.gz` make
 * them. */
#ifndef MDS_IO_GUNZIP_H
#define MDS_IO_GUNZIP_H

#include "base/status.h"

#include <stddef.h>

struct mds_gunzip;

/* name is for messages and borrowed until destroy.  MDS_ENOSUP in a build without zlib.
 */
enum mds_rc mds_gunzip_create(const char *name, struct mds_gunzip **out);
void mds_gunzip_destroy(struct mds_gunzip *g); /* NULL is fine */

/* Decompress some of in[n] into at most `capacity` bytes of out.  *used: bytes
 * consumed, *made: bytes written.  Zeros after a member (padding) are skipped. */
enum mds_rc mds_gunzip_run(struct mds_gunzip *g, const unsigned char *in, size_t n,
                           size_t *used, unsigned char *out, size_t capacity,
                           size_t *made);

/* Whether it is inside a member: the input is truncated if it ends here. */
int mds_gunzip_wants_more(const struct mds_gunzip *g);

#endif
