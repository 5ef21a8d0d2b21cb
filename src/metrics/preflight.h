/* SPDX-License-Identifier: BSD-3-Clause */
/* What --preflight measures on each rank, and the faults that it finds by comparing
 * ranks. */
#ifndef MDS_METRICS_PREFLIGHT_H
#define MDS_METRICS_PREFLIGHT_H

#include "base/host.h"
#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

enum { MDS_PREFLIGHT_TESTS = 10 };

/* A collective over one of the layout's groups. */
struct mds_preflight_test {
    char name[28];  /* "tp all_reduce" */
    int size, here; /* ranks of the group; this rank's number in the group */
    double small_s; /* time of a short message */
    double rate;    /* of a long one, bytes sent per second and rank */
};

/* One rank's measurements; 0: not measured. */
struct mds_preflight_record {
    char host[MDS_HOST_SIZE];
    char fault[256]; /* what failed on this rank; "" if nothing did */
    char gpu[48];    /* "": no GPU */
    char throttle[32];
    int gpus; /* of the host */
    int sm_mhz, most_sm_mhz, celsius;
    double ecc_errors;
    double gpu_bytes, gpu_free_bytes;
    double flops;                   /* of GEMMs, per second */
    double in_rate, out_rate;       /* copies to and from the device */
    double host_bytes, shm_bytes;   /* free */
    double save_rate, scratch_rate; /* of writing a file */
    int tests;
    struct mds_preflight_test test[MDS_PREFLIGHT_TESTS];
};

/* A value below this fraction of all ranks' median is a fault. */
struct mds_preflight_limits {
    double compute, link, disk;
};

/* A fault: which rank, and one line of text with what to do. */
struct mds_preflight_fault {
    int rank;
    int of_group; /* rank is the first of a group, any of which may be the cause */
    char text[384];
};

struct mds_preflight_faults {
    struct mds_preflight_fault *v;
    size_t n;
};

/* Compare the records r[ranks], in rank order, and list the faults.  The caller frees
 * out->v. */
enum mds_rc mds_preflight_find_faults(const struct mds_preflight_record *r, int ranks,
                                      const struct mds_preflight_limits *limits,
                                      struct mds_preflight_faults *out);

/* Append the table: a row for each node (if there are many, only for those with
 * faults), one for each kind of collective, and the faults. */
void mds_preflight_print(const struct mds_preflight_record *r, int ranks,
                         const struct mds_preflight_faults *faults,
                         struct mds_str *out);

/* Append the measurements to a file of JSON lines: a "preflight" record for each rank,
 * a "preflight_fault" record for each fault. */
enum mds_rc mds_preflight_write(const struct mds_preflight_record *r, int ranks,
                                const struct mds_preflight_faults *faults,
                                const char *path);

#endif
