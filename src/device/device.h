/* SPDX-License-Identifier: BSD-3-Clause */
/* A device: where tensors live and kernels run.
 *
 *   cpu   host memory, kernels/cpu
 *   dry   no kernels, and addresses that must not be dereferenced.  The same calls give
 *         the same ledger, so a run of any size can be measured on a laptop
 *   cuda  memory of an NVIDIA GPU, kernels/cuda; builds without CUDA report that it is
 *         missing
 */
#ifndef MDS_DEVICE_DEVICE_H
#define MDS_DEVICE_DEVICE_H

#include "base/status.h"
#include "device/memory.h"
#include "kernels/operations.h"
#include "kernels/types.h"

struct mdsk_table;
struct mds_dev;

/* The rows of the ledger: operations, and what the device does itself. */
enum mds_op {
#define MDS_OP(NAME, name) MDS_OP_##NAME,
    MDSK_OPERATIONS(MDS_OP)
#undef MDS_OP
        MDS_OP_ZERO,
    MDS_OP_COPY_IN,
    MDS_OP_COPY_OUT,
    MDS_OPS,
};

const char *mds_op_name(enum mds_op op);

/* What the device was asked to do since it was created.  For the same calls, cpu and
 * dry have bitwise the same ledger. */
struct mds_ledger {
    struct {
        int64_t calls;
        struct mdsk_cost cost;
    } op[MDS_OPS];
    struct mds_mem_account memory;
    /* The most scratch that one operation's kernels allocate themselves on a GPU.  No
     * tag includes it.  Other devices allocate it for unfused attention only. */
    int64_t scratch_bytes;
};

struct mds_dev_spec {
    const char *name;     /* "cpu", "cuda", "dry"; "auto": cuda if there is one */
    int threads;          /* cpu: threads of this rank; 0: all cores it may use */
    int64_t memory_bytes; /* the most this rank may take; 0: what the device has */
    int local_rank;       /* cuda: which of the node's GPUs */
    int local_ranks;      /* cuda: of the node; 0: do not bind this one near its GPU */
    int repeatable;       /* cuda: the same bits in every run, at some cost */
    double hot_after_s; /* cuda: when GEMMs are timed again, on a GPU that is hot; 0: a
                             second after the first use */
    int host_side;      /* open host memory for copies to and from the device, not the
                             device: pinned with cuda, else the named device's */
};

/* MDS_EUSER: no device of that name, or more ranks on the node than GPUs; MDS_ENOSUP:
 * not in this build; MDS_EDEVICE: no GPU, or one that these kernels do not run on. */
enum mds_rc mds_dev_create(const struct mds_dev_spec *spec, struct mds_dev **out);

/* The device that "auto" selects here; any other name is returned as it is. */
const char *mds_dev_resolve(const char *name);
void mds_dev_destroy(struct mds_dev *dev);

/* "cpu: OpenBLAS 0.3.21 (Haswell), 2 threads". */
const char *mds_dev_describe(const struct mds_dev *dev);

/* The GPU's place on the PCI bus, "0000:c1:00.0"; "" for other devices. */
const char *mds_dev_bus_id(const struct mds_dev *dev);

/* "cpu", "dry" or "cuda"; "pinned" for cuda's host_side. */
const char *mds_dev_name(const struct mds_dev *dev);

/* The most memory this rank may take, in bytes. */
int64_t mds_dev_memory_bytes(const struct mds_dev *dev);

/* MDS_EDEVICE if its kernels cannot multiply FP8. */
enum mds_rc mds_dev_check_fp8(const struct mds_dev *dev);

/* The kernels, or NULL where there are none (dry). */
const struct mdsk_table *mds_dev_kernels(const struct mds_dev *dev);
void *mds_dev_stream(const struct mds_dev *dev);

const struct mds_ledger *mds_dev_ledger(const struct mds_dev *dev);

/* Call charge before and launched after queueing an operation: charge adds it to the
 * ledger and, if a profile is being taken, starts its timer; launched stops that.
 * args: the operation's struct, or NULL. */
void mds_dev_charge(struct mds_dev *dev, enum mds_op op, const void *args,
                    struct mdsk_cost cost);
void mds_dev_launched(struct mds_dev *dev);

/* An operation's kernels allocate this much GPU memory themselves: raises the ledger's
 * scratch_bytes to it. */
void mds_dev_charge_scratch(struct mds_dev *dev, int64_t bytes);

/* Zeroed memory, aligned to 256 bytes; for arenas only (device/arena.h), which do the
 * accounting.  MDS_EMEM names what was asked for and what the device has. */
enum mds_rc mds_dev_alloc(struct mds_dev *dev, int64_t bytes, void **out);
void mds_dev_free(struct mds_dev *dev, void *p, int64_t bytes);

/* Fill with zero bytes; queued. */
void mds_dev_zero(struct mds_dev *dev, void *p, int64_t bytes);

/* Copy within the device; queued. */
void mds_dev_copy(struct mds_dev *dev, void *to, const void *from, int64_t bytes);

/* Whether p is an address of the device, not of the host (cpu: always). */
int mds_dev_owns(const struct mds_dev *dev, const void *p);

/* Copy between host and device.  from_host may be reused when copy_in returns.
 * copy_out waits for everything queued; MDS_EDEVICE reports the first operation that
 * failed since the device was opened.  On dry, copy_out gives zeros. */
void mds_dev_copy_in(struct mds_dev *dev, void *to, const void *from_host,
                     int64_t bytes);
enum mds_rc mds_dev_copy_out(struct mds_dev *dev, void *to_host, const void *from,
                             int64_t bytes);

/* Record operations in place of running them, and queue them all at once, as often as
 * one likes: a GPU then spends no time on launching each kernel.  They have the same
 * arguments each time.  In between nothing is copied to or from the host, and nothing
 * waits; kernels have run with these shapes before.  The ledger is charged when they
 * are recorded.
 *
 * can_record: whether it would help: not on CPUs or a dry device, which run as fast
 * call by call, and not while a profile is being taken. */
int mds_dev_can_record(const struct mds_dev *dev);
enum mds_rc mds_dev_record(struct mds_dev *dev);
enum mds_rc mds_dev_recorded(struct mds_dev *dev, void **recording); /* owned */
void mds_dev_replay(struct mds_dev *dev, void *recording);
void mds_dev_free_recording(struct mds_dev *dev, void *recording); /* NULL is fine */

/* Wait until everything queued is done; fails as copy_out does. */
enum mds_rc mds_dev_wait(struct mds_dev *dev);

/* Call `watch` several times a second while copy_out, wait, poll_pause, copy_in or
 * launched (if the queue is too long) wait for the device.  If it fails, the wait ends
 * with its error; copy_in and launched cannot return it, so later calls of copy_out and
 * wait do.  For comm/, which queues operations that hang if a peer dies.  NULL: none.
 */
typedef enum mds_rc mds_dev_watch(void);
void mds_dev_set_watch(struct mds_dev *dev, mds_dev_watch *watch);

/* For a loop that polls the device: call it between two polls.  Sleeps briefly and
 * calls the watch when due.  *p is zeroed before the first call. */
struct mds_dev_poll {
    double begun, watched; /* mds_clock_s */
};
enum mds_rc mds_dev_poll_pause(struct mds_dev *dev, struct mds_dev_poll *p);

/* Handle of an asynchronous copy on a stream of its own; zeroed: no copy. */
struct mds_dev_async_copy {
    int direction;  /* 0: to the host, 1: from it; in order within a direction */
    int64_t number; /* from 1 */
    double end_s;   /* by a dry device's clock (device/clock.h) */
};

/* Copy between the device and host memory (offload: to the host; reload: back) on a
 * stream of its own.  The copy begins when everything queued so far is done; operations
 * queued after mds_dev_wait_copy begin when the copy is done.  Neither buffer may be
 * used in between.  The two directions do not wait for each other: before reloading
 * what is being offloaded, wait for the offload. */
struct mds_dev_async_copy mds_dev_offload_start(struct mds_dev *dev, void *to_host,
                                                const void *from, int64_t bytes);
struct mds_dev_async_copy mds_dev_reload_start(struct mds_dev *dev, void *to,
                                               const void *from_host, int64_t bytes);
void mds_dev_wait_copy(struct mds_dev *dev, struct mds_dev_async_copy copy);

/* Whether the copy is done, so that the host may use its buffer.  A failed copy counts
 * as done; mds_dev_wait and copy_out report the error. */
int mds_dev_copy_done(struct mds_dev *dev, struct mds_dev_async_copy copy);

/* CPUs this process could run on when this was first called. */
int mds_host_cores(void);

/* Zeroed host memory, or NULL: for large blocks.  Page-aligned, on huge pages where the
 * system has them, on the NUMA node of the thread that touches it first.  unmap: bytes
 * as for map; NULL is fine. */
void *mds_host_map(int64_t bytes);
void mds_host_unmap(void *p, int64_t bytes);

/* Available host memory in bytes: the smaller of the kernel's MemAvailable and what the
 * limits of this process's control groups (of a batch job, for example) leave.  Page
 * cache counts as available. */
int64_t mds_host_memory_available(void);

/* Memory this process has in use now, and the most it ever had; 0 if the system does
 * not say. */
void mds_host_memory_used(int64_t *now, int64_t *peak);

/* The number of GPUs that this process may use; 0 also if the driver fails. */
int mds_cuda_count(void);

/* The message of the last CUDA call or kernel that failed; "" if none has. */
const char *mds_cuda_why(void);

#endif
