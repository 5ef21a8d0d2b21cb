/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/device.h"
#include "base/clock.h"
#include "base/units.h"
#include "device/backend.h"
#include "device/profile.h"

#include <stdlib.h>
#include <string.h>

static const char *const op_names[MDS_OPS] = {
#define NAME_OF(NAME, name) [MDS_OP_##NAME] = #name,
    MDSK_OPERATIONS(NAME_OF)
#undef NAME_OF
        [MDS_OP_ZERO] = "zero",
    [MDS_OP_COPY_IN] = "copy_in",
    [MDS_OP_COPY_OUT] = "copy_out",
};

const char *mds_op_name(enum mds_op op)
{
    return op_names[op];
}

void mds_dev_destroy(struct mds_dev *dev)
{
    if (dev && dev->ops->close)
        dev->ops->close(dev);
    free(dev);
}

const char *mds_dev_bus_id(const struct mds_dev *dev)
{
    return dev->bus_id;
}

const char *mds_dev_name(const struct mds_dev *dev)
{
    return dev->ops->name;
}

/* PTX ISA, "mma": FP8 from 8.9 on. */
enum mds_rc mds_dev_check_fp8(const struct mds_dev *dev)
{
    if (dev->capability == 0 || dev->capability >= 89)
        return MDS_OK;
    return mds_fail(MDS_EDEVICE,
                    "--fp8-format: FP8 needs a GPU of compute capability 8.9, and this "
                    "one has %d.%d; give --fp8-format none, or use --device cpu",
                    dev->capability / 10, dev->capability % 10);
}

int64_t mds_dev_memory_bytes(const struct mds_dev *dev)
{
    return dev->memory_bytes;
}

const char *mds_dev_describe(const struct mds_dev *dev)
{
    return dev->description;
}

const struct mdsk_table *mds_dev_kernels(const struct mds_dev *dev)
{
    return dev->kern;
}

void *mds_dev_stream(const struct mds_dev *dev)
{
    return dev->stream;
}

const struct mds_ledger *mds_dev_ledger(const struct mds_dev *dev)
{
    return &dev->ledger;
}

static void charge_ledger(struct mds_dev *dev, enum mds_op op, struct mdsk_cost cost)
{
    dev->ledger.op[op].calls++;
    dev->ledger.op[op].cost.flops += cost.flops;
    dev->ledger.op[op].cost.bytes += cost.bytes;
    if (dev->kern)
        mds_range_begin(op_names[op]);
    mds_profile_begin(dev, MDS_PROFILE_OP, (int)op, cost, NULL);
}

void mds_dev_charge(struct mds_dev *dev, enum mds_op op, const void *args,
                    struct mdsk_cost cost)
{
    charge_ledger(dev, op, cost);
    mds_clock_charge(dev, op, args, cost);
}

void mds_dev_charge_scratch(struct mds_dev *dev, int64_t bytes)
{
    if (bytes > dev->ledger.scratch_bytes)
        dev->ledger.scratch_bytes = bytes;
}

void mds_dev_launched(struct mds_dev *dev)
{
    mds_profile_end(dev, MDS_PROFILE_OP, NULL);
    if (dev->kern)
        mds_range_end();
    if (dev->ops->launched)
        dev->ops->launched(dev);
}

enum mds_rc mds_dev_alloc(struct mds_dev *dev, int64_t bytes, void **out)
{
    char want[32], left[32];
    void *p = NULL;

    if (bytes < 0)
        return mds_fail(MDS_EBUG, "%s: cannot allocate %lld bytes", dev->ops->name,
                        (long long)bytes);
    if (bytes <= dev->memory_bytes - dev->taken_bytes)
        p = dev->ops->alloc(dev, bytes);
    if (!p)
        return mds_fail(MDS_EMEM, "%s memory: %s requested, %s left", dev->ops->name,
                        mds_format_bytes((double)bytes, want, sizeof want),
                        mds_format_bytes((double)(dev->memory_bytes - dev->taken_bytes),
                                         left, sizeof left));
    dev->taken_bytes += bytes;
    *out = p;
    return MDS_OK;
}

void mds_dev_free(struct mds_dev *dev, void *p, int64_t bytes)
{
    if (!p)
        return;
    dev->taken_bytes -= bytes;
    dev->ops->free(dev, p, bytes);
}

void mds_dev_zero(struct mds_dev *dev, void *p, int64_t bytes)
{
    mds_dev_charge(dev, MDS_OP_ZERO, NULL, (struct mdsk_cost){0, (double)bytes});
    dev->ops->zero(dev, p, bytes);
    mds_dev_launched(dev);
}

void mds_dev_copy(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    dev->ops->copy(dev, to, from, bytes);
}

int mds_dev_owns(const struct mds_dev *dev, const void *p)
{
    return dev->ops->owns ? dev->ops->owns(dev, p) : 1;
}

void mds_dev_set_watch(struct mds_dev *dev, mds_dev_watch *watch)
{
    dev->watch = watch;
}

enum mds_rc mds_dev_poll_pause(struct mds_dev *dev, struct mds_dev_poll *p)
{
    /* A generated token takes a millisecond: a nap of 0.1 would be seen. */
    const double pause_s = 0.1, awake_s = 2e-3;
    double now = mds_clock_s();

    if (p->begun == 0)
        p->begun = p->watched = now;
    if (dev->watch && now - p->watched > pause_s) {
        MDS_TRY(dev->watch());
        p->watched = now;
    }
    mds_clock_backoff(now - p->begun -
                      awake_s); /* leaves cores to an update on the host */
    return MDS_OK;
}

/* Each byte is read once and written once. */
static struct mdsk_cost copy_cost(int64_t bytes)
{
    return (struct mdsk_cost){0, 2.0 * (double)bytes};
}

void mds_dev_copy_in(struct mds_dev *dev, void *to, const void *from_host,
                     int64_t bytes)
{
    mds_dev_charge(dev, MDS_OP_COPY_IN, NULL, copy_cost(bytes));
    dev->ops->copy_in(dev, to, from_host, bytes);
    mds_dev_launched(dev);
}

int mds_dev_can_record(const struct mds_dev *dev)
{
    return dev->ops->record && !dev->recorder;
}

enum mds_rc mds_dev_record(struct mds_dev *dev)
{
    return dev->ops->record(dev);
}

enum mds_rc mds_dev_recorded(struct mds_dev *dev, void **recording)
{
    return dev->ops->recorded(dev, recording);
}

void mds_dev_replay(struct mds_dev *dev, void *recording)
{
    dev->ops->replay(dev, recording);
}

void mds_dev_free_recording(struct mds_dev *dev, void *recording)
{
    if (recording)
        dev->ops->free_recording(dev, recording);
}

enum mds_rc mds_dev_wait(struct mds_dev *dev)
{
    double begin = mds_clock_s();
    enum mds_rc rc = dev->ops->wait ? dev->ops->wait(dev) : MDS_OK;

    mds_profile_host_wait(dev, mds_clock_s() - begin);
    return rc;
}

enum mds_rc mds_dev_copy_out(struct mds_dev *dev, void *to_host, const void *from,
                             int64_t bytes)
{
    enum mds_rc rc;

    mds_dev_charge(dev, MDS_OP_COPY_OUT, NULL, copy_cost(bytes));
    rc = dev->ops->copy_out(dev, to_host, from, bytes);
    mds_dev_launched(dev);
    return rc;
}

/* direction: as in mds_dev_async_copy.  A dry device is charged but copies nothing, as
 * host memory is not allocated either. */
static struct mds_dev_async_copy start_copy(struct mds_dev *dev, int direction,
                                            void *to, const void *from, int64_t bytes)
{
    struct mds_dev_async_copy c = {.direction = direction,
                                   .number = ++dev->copies[direction]};

    c.end_s = mds_clock_copy(dev, direction, bytes);
    charge_ledger(dev, direction == 0 ? MDS_OP_COPY_OUT : MDS_OP_COPY_IN,
                  copy_cost(bytes));
    if (!dev->kern)
        return c;
    if (dev->ops->start_copy)
        dev->ops->start_copy(dev, c, to, from, bytes);
    else if (direction == 0)
        dev->ops->copy_out(dev, to, from, bytes);
    else
        dev->ops->copy_in(dev, to, from, bytes);
    mds_dev_launched(dev);
    return c;
}

struct mds_dev_async_copy mds_dev_offload_start(struct mds_dev *dev, void *to_host,
                                                const void *from, int64_t bytes)
{
    return start_copy(dev, 0, to_host, from, bytes);
}

struct mds_dev_async_copy mds_dev_reload_start(struct mds_dev *dev, void *to,
                                               const void *from_host, int64_t bytes)
{
    return start_copy(dev, 1, to, from_host, bytes);
}

void mds_dev_wait_copy(struct mds_dev *dev, struct mds_dev_async_copy copy)
{
    mds_clock_wait_copy(dev, copy);
    if (copy.number > 0 && dev->ops->wait_copy && dev->kern)
        dev->ops->wait_copy(dev, copy);
}

int mds_dev_copy_done(struct mds_dev *dev, struct mds_dev_async_copy copy)
{
    return copy.number == 0 || !dev->ops->copy_done || !dev->kern ||
           dev->ops->copy_done(dev, copy);
}

void mds_dev_account(struct mds_dev *dev, enum mds_mem_tag tag, int64_t bytes)
{
    struct mds_mem_account *m = &dev->ledger.memory;

    m->now[tag] += bytes;
    m->total_now += bytes;
    if (m->now[tag] > m->peak[tag])
        m->peak[tag] = m->now[tag];
    if (m->total_now > m->total_peak) {
        m->total_peak = m->total_now;
        memcpy(m->at_total_peak, m->now, sizeof m->now);
    }
}
