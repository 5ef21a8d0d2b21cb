/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the h5*.c files, the only ones that include hdf5.h. */
#ifndef MDS_IO_H5_INTERNAL_H
#define MDS_IO_H5_INTERNAL_H

#include "io/h5.h"

#include <hdf5.h>

struct mds_h5 {
    char *shown; /* name for messages */
    hid_t id;
    int writing;
    int fd;       /* reading: of the same file; else -1 */
    int64_t size; /* that it had when it was opened */
};

/* Record "FILE: cannot WHAT NAME (HDF5: cause)". */
enum mds_rc mds_h5_fail(const struct mds_h5 *f, const char *what, const char *name);

/* MDS_EUSER for a data set whose values are in other files or beyond the end of this
 * one (HDF5 reads zeros there without an error), or whose chunks are absurdly large. */
enum mds_rc mds_h5_check_storage(const struct mds_h5 *f, hid_t set, const char *name);

/* Variable-length UTF-8; close with H5Tclose. */
hid_t mds_h5_string_type(void);

/* A creation list for checked chunks; close with H5Pclose. */
hid_t mds_h5_checked_list(int ndim, const hsize_t *chunk);

/* A new data set and its missing groups; negative on failure. */
hid_t mds_h5_create_dataset(struct mds_h5 *f, const char *name, hid_t type, hid_t space,
                            hid_t dcpl);

#endif
