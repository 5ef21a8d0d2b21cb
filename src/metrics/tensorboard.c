/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/tensorboard.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/str.h"
#include "io/durable.h"
#include "io/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG_MAX = 128, EVENT_MAX = TAG_MAX + 64 };

/* The wire types of protobuf, in the low three bits of a field's key. */
enum { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

/* Field numbers of Event, SessionLog, Summary and Summary.Value. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7
};
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };

struct mds_tensorboard {
    FILE *file;
    char *path;
};

/* Bytes of one message under construction; EVENT_MAX is enough for every one here. */
struct message {
    uint8_t bytes[EVENT_MAX];
    size_t len;
};

uint32_t mds_crc32c(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t crc = 0xffffffff;

    while (n--) {
        crc ^= *p++;
        for (int bit = 0; bit < 8; bit++) /* reflected polynomial of 0x1edc6f41 */
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static uint32_t masked_crc(const void *data, size_t n)
{
    uint32_t crc = mds_crc32c(data, n);

    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void put_little_endian(uint8_t *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static void pb_add_varint(struct message *m, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        m->bytes[m->len++] = (uint8_t)(v | 0x80);
    m->bytes[m->len++] = (uint8_t)v;
}

static void pb_add_key(struct message *m, int field, int wire)
{
    pb_add_varint(m, (uint64_t)(field << 3 | wire));
}

static void pb_add_double(struct message *m, int field, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    pb_add_key(m, field, WIRE_64BIT);
    put_little_endian(m->bytes + m->len, bits, 8);
    m->len += 8;
}

static void pb_add_float(struct message *m, int field, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    pb_add_key(m, field, WIRE_32BIT);
    put_little_endian(m->bytes + m->len, bits, 4);
    m->len += 4;
}

static void pb_add_bytes(struct message *m, int field, const void *data, size_t n)
{
    pb_add_key(m, field, WIRE_BYTES);
    pb_add_varint(m, n);
    memcpy(m->bytes + m->len, data, n);
    m->len += n;
}

static enum mds_rc write_tfrecord(struct mds_tensorboard *tb, const struct message *m)
{
    uint8_t head[12], tail[4];

    put_little_endian(head, m->len, 8);
    put_little_endian(head + 8, masked_crc(head, 8), 4);
    put_little_endian(tail, masked_crc(m->bytes, m->len), 4);
    if (fwrite(head, sizeof head, 1, tb->file) != 1 ||
        fwrite(m->bytes, m->len, 1, tb->file) != 1 ||
        fwrite(tail, sizeof tail, 1, tb->file) != 1)
        return mds_fail(MDS_EIO, "%s: %s", tb->path, strerror(errno));
    return MDS_OK;
}

static char *event_path(const char *dir)
{
    char host[MDS_HOST_SIZE];
    struct mds_str path = {0};

    mds_host_name(host);
    mds_str_add(&path, "%s/events.out.tfevents.%.0f.%s.%ld", dir, mds_clock_wall_s(),
                host, (long)getpid());
    if (path.failed) {
        mds_str_fini(&path);
        return NULL;
    }
    return path.s;
}

static enum mds_rc write_file_version(struct mds_tensorboard *tb)
{
    static const char version[] = "brain.Event:2";
    struct message event = {0};

    pb_add_double(&event, EVENT_WALL_TIME, mds_clock_wall_s());
    pb_add_bytes(&event, EVENT_FILE_VERSION, version, strlen(version));
    MDS_TRY(write_tfrecord(tb, &event));
    return mds_tensorboard_flush(tb);
}

/* A session starts at this step: TensorBoard drops earlier points of it and later
 * steps. */
static enum mds_rc write_session_start(struct mds_tensorboard *tb, int64_t step)
{
    struct message event = {0}, session = {0};

    pb_add_key(&session, SESSION_STATUS, WIRE_VARINT);
    pb_add_varint(&session, SESSION_START);
    pb_add_double(&event, EVENT_WALL_TIME, mds_clock_wall_s());
    pb_add_key(&event, EVENT_STEP, WIRE_VARINT);
    pb_add_varint(&event, (uint64_t)step);
    pb_add_bytes(&event, EVENT_SESSION_LOG, session.bytes, session.len);
    return write_tfrecord(tb, &event);
}

enum mds_rc mds_tensorboard_open(const char *dir, int64_t done,
                                 struct mds_tensorboard **out)
{
    struct mds_tensorboard *tb;
    enum mds_rc rc;

    MDS_TRY(mds_folder_ensure(dir));
    tb = mds_zalloc(1, sizeof *tb);
    if (!tb)
        return MDS_EMEM;
    tb->path = event_path(dir);
    if (!tb->path) {
        rc = MDS_EMEM;
        goto free_tb;
    }
    tb->file = fopen(tb->path, "wbx");
    if (!tb->file) {
        rc = mds_fail(MDS_EUSER, "%s: %s", tb->path, strerror(errno));
        goto free_path;
    }
    rc = write_file_version(tb);
    if (!rc && done > 0)
        rc = write_session_start(tb, done + 1);
    if (rc)
        goto close_file;
    *out = tb;
    return MDS_OK;

close_file:
    fclose(tb->file);
free_path:
    free(tb->path);
free_tb:
    free(tb);
    return rc;
}

enum mds_rc mds_tensorboard_scalar(struct mds_tensorboard *tb, const char *tag,
                                   int64_t step, double value)
{
    struct message event = {0}, summary = {0}, point = {0};

    if (strlen(tag) > TAG_MAX)
        return mds_fail(MDS_EBUG, "tensorboard: tag %s is longer than %d", tag,
                        TAG_MAX);
    pb_add_bytes(&point, VALUE_TAG, tag, strlen(tag));
    pb_add_float(&point, VALUE_SIMPLE, (float)value);
    pb_add_bytes(&summary, SUMMARY_VALUE, point.bytes, point.len);
    pb_add_double(&event, EVENT_WALL_TIME, mds_clock_wall_s());
    pb_add_key(&event, EVENT_STEP, WIRE_VARINT);
    pb_add_varint(&event, (uint64_t)step);
    pb_add_bytes(&event, EVENT_SUMMARY, summary.bytes, summary.len);
    return write_tfrecord(tb, &event);
}

enum mds_rc mds_tensorboard_flush(struct mds_tensorboard *tb)
{
    if (fflush(tb->file) != 0)
        return mds_fail(MDS_EIO, "%s: %s", tb->path, strerror(errno));
    return MDS_OK;
}

enum mds_rc mds_tensorboard_sync(struct mds_tensorboard *tb)
{
    return mds_durable_stream(tb->file, tb->path);
}

enum mds_rc mds_tensorboard_close(struct mds_tensorboard *tb)
{
    enum mds_rc rc = MDS_OK;

    if (!tb)
        return MDS_OK;
    if (fclose(tb->file) != 0)
        rc = mds_fail(MDS_EIO, "%s: %s", tb->path, strerror(errno));
    free(tb->path);
    free(tb);
    return rc;
}
