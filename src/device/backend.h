/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device backend provides.  For device/ alone. */
#ifndef MDS_DEVICE_BACKEND_H
#define MDS_DEVICE_BACKEND_H

#include "device/clock.h"
#include "device/device.h"

#include <sched.h>

/* A GPU's place on the PCI bus: "0000:c1:00.0". */
typedef char mds_bus_id[24];

/* A time stamp: a device event, or the host's clock. */
struct mds_timestamp {
    void *event; /* owned; made at first use */
    double host_s;
};

struct mds_recorder;

struct mds_dev_ops {
    const char *name;
    const char *missing; /* why this row cannot be used, NULL if it can */
    const struct mds_dev_ops *host_ops; /* for spec.host_side; NULL: this one */

    /* Fill in dev's memory_bytes (if 0), kern, stream and description. */
    enum mds_rc (*open)(struct mds_dev *dev, const struct mds_dev_spec *spec);
    void (*close)(struct mds_dev *dev); /* NULL: nothing to do */
    /* Zeroed and aligned to MDS_ARENA_ALIGN; NULL if refused. */
    void *(*alloc)(struct mds_dev *dev, int64_t bytes);
    void (*free)(struct mds_dev *dev, void *p, int64_t bytes);
    void (*zero)(struct mds_dev *dev, void *p, int64_t bytes);
    void (*copy)(struct mds_dev *dev, void *to, const void *from, int64_t bytes);
    int (*owns)(const struct mds_dev *dev, const void *p); /* NULL: all are its own */
    void (*copy_in)(struct mds_dev *dev, void *to, const void *from, int64_t bytes);
    enum mds_rc (*copy_out)(struct mds_dev *dev, void *to, const void *from,
                            int64_t bytes);
    /* Wait until everything queued is done.  NULL: nothing is ever queued. */
    enum mds_rc (*wait)(struct mds_dev *dev);
    /* Called after an operation is queued; may wait if the queue is too long.  NULL:
     * nothing to do. */
    void (*launched)(struct mds_dev *dev);
    /* record_time: record when the stream (NULL: dev's) reaches this point.  elapsed:
     * seconds from a to b, which must have been reached.  NULL, all three: the host's
     * clock is used. */
    void (*record_time)(struct mds_dev *dev, struct mds_timestamp *t, void *stream);
    double (*elapsed)(struct mds_dev *dev, const struct mds_timestamp *a,
                      const struct mds_timestamp *b);
    void (*free_time)(struct mds_dev *dev, struct mds_timestamp *t);
    /* Start or stop the vendor's profiler, if one is attached; or NULL. */
    void (*capture)(struct mds_dev *dev, int on);
    /* Asynchronous copies to and from host memory, on a stream of their own: start
     * copy c; make the device's stream wait for it; whether it is done.  NULL, all
     * three: copy_in and copy_out are used, and are done when they return. */
    void (*start_copy)(struct mds_dev *dev, struct mds_dev_async_copy c, void *to,
                       const void *from, int64_t bytes);
    void (*wait_copy)(struct mds_dev *dev, struct mds_dev_async_copy c);
    int (*copy_done)(struct mds_dev *dev, struct mds_dev_async_copy c);
    /* Record what is queued in place of running it, until `recorded` gives it; queue a
     * recording; free it.  NULL, all four: this device has no use for that. */
    enum mds_rc (*record)(struct mds_dev *dev);
    enum mds_rc (*recorded)(struct mds_dev *dev, void **out);
    void (*replay)(struct mds_dev *dev, void *recording);
    void (*free_recording)(struct mds_dev *dev, void *recording);
};

struct mds_dev {
    const struct mds_dev_ops *ops;
    const struct mdsk_table *kern;
    void *stream;
    void *own;      /* the backend's */
    int capability; /* of a GPU: CUDA's, 10 * major + minor; else 0 */
    mds_dev_watch *watch;
    struct mds_recorder *recorder; /* profile.c's; NULL: no profile is being taken */
    int64_t memory_bytes, taken_bytes;
    int64_t given_bytes; /* dry's: addresses handed out so far */
    int64_t copies[2];   /* started so far, each way */
    char description[160];
    mds_bus_id bus_id; /* cuda */
    struct mds_ledger ledger;
    const struct mds_dev_rates *rates; /* borrowed; NULL: no clock */
    struct mds_dev_clock clock;
};

extern const struct mds_dev_ops mds_dev_cpu, mds_dev_dry, mds_dev_cuda;
extern const struct mds_dev_ops mds_dev_pinned; /* cuda's host_ops */

/* The cpu device's operations, which pinned memory uses too. */
void mds_dev_cpu_zero(struct mds_dev *dev, void *p, int64_t bytes);
void mds_dev_cpu_copy(struct mds_dev *dev, void *to, const void *from, int64_t bytes);
enum mds_rc mds_dev_cpu_copy_out(struct mds_dev *dev, void *to, const void *from,
                                 int64_t bytes);

/* Add to the profile: the host waited s seconds for the device. */
void mds_profile_host_wait(struct mds_dev *dev, double s);

/* Bind the calling thread, and those that it starts, to the cores near its GPU,
 * gpu[rank]; ranks whose GPUs are near the same cores get even parts of these.
 * gpu[ranks]: of all ranks of this node.  Nothing changes where the cores are not known
 * or not part of what the thread is bound to, or are less than an even part of that. */
void mds_host_bind_near(mds_bus_id *gpu, int ranks, int rank);

/* The CPUs for that, by the kernel's files below `root`: "", or a test's folder. */
void mds_host_cores_near(const char *root, mds_bus_id *gpu, int ranks, int rank,
                         cpu_set_t *out);

/* mds_host_memory_available with the kernel's files (/proc, /sys) below `root`: "", or
 * a test's directory. */
int64_t mds_host_memory_below(const char *root);

/* What a call takes by the clock, if there is one: charge what the stream does, start a
 * copy on its line (returns its end), make the stream wait for it. */
void mds_clock_charge(struct mds_dev *dev, enum mds_op op, const void *args,
                      struct mdsk_cost cost);
double mds_clock_copy(struct mds_dev *dev, int direction, int64_t bytes);
void mds_clock_wait_copy(struct mds_dev *dev, struct mds_dev_async_copy copy);

/* For arenas: add bytes (negative: subtract) to the memory account under tag. */
void mds_dev_account(struct mds_dev *dev, enum mds_mem_tag tag, int64_t bytes);

#endif
