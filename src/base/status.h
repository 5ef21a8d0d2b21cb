/* SPDX-License-Identifier: BSD-3-Clause */
/* Return codes, and the error message of the last failure. */
#ifndef MDS_BASE_STATUS_H
#define MDS_BASE_STATUS_H

/* Grouped by who can act on the failure. */
enum mds_rc {
    MDS_OK = 0,
    MDS_EUSER = -1,   /* the user's configuration or files are wrong */
    MDS_EMEM = -2,    /* host or device memory ran out */
    MDS_EIO = -3,     /* the file system refused */
    MDS_EDEVICE = -4, /* the accelerator runtime refused */
    MDS_ECOMM = -5,   /* MPI or NCCL refused, or a peer is gone */
    MDS_ENOSUP = -6,  /* this build or backend cannot do it */
    MDS_EBUG = -7,    /* a caller broke a contract */
};

/* Bytes of an error message: enough to list all errors of a command line that was
 * written for another program. */
enum { MDS_FAIL_SIZE = 16384 };

/* Record why and return rc.  Call it where the cause is first known; callers that
 * merely pass the code on add nothing.  One line, lower case, no full stop: what,
 * where, what to do.  The text is kept per thread until the next failure. */
enum mds_rc mds_fail(enum mds_rc rc, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A file cannot be opened, for the reason in errno: "name: No such file or directory
 * (relative to /home/me)", since jobs often start in another directory than
 * expected. */
enum mds_rc mds_fail_open(enum mds_rc rc, const char *name);

/* MDS_EIO of a file to be written; tells the user to make a missing folder first. */
enum mds_rc mds_fail_write(const char *name);

/* The message of this thread's last failure; "" if there was none.  Valid until the
 * next mds_fail of this thread. */
const char *mds_fail_text(void);

/* Return from the caller on failure; only where nothing needs undoing. */
#define MDS_TRY(call)                                                                  \
    do {                                                                               \
        enum mds_rc rc_ = (call);                                                      \
        if (rc_ != MDS_OK)                                                             \
            return rc_;                                                                \
    } while (0)

#endif
