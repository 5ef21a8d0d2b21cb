/* SPDX-License-Identifier: BSD-3-Clause */
/* TensorBoard event files, scalars only.
 *
 * A file is a run of TFRecords (u64 length, masked CRC-32C of the length, payload,
 * masked CRC-32C of the payload; little-endian), each payload a protobuf Event.
 * Sources: tensorflow/core/lib/io/record_writer.cc (framing), tensorflow/core/util/
 * event.proto and tensorflow/core/framework/summary.proto (fields); CRC: RFC 3720,
 * appendix B.4. */
#ifndef MDS_METRICS_TENSORBOARD_H
#define MDS_METRICS_TENSORBOARD_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli) of n bytes. */
uint32_t mds_crc32c(const void *data, size_t n);

struct mds_tensorboard;

/* Create events.out.tfevents.TIME.HOST.PID in dir, which is created with its parents if
 * needed.  done: the last valid step of earlier files there; readers drop later ones.
 * 0: a new run. */
enum mds_rc mds_tensorboard_open(const char *dir, int64_t done,
                                 struct mds_tensorboard **out);

/* One point of the curve called tag.  The format keeps single precision. */
enum mds_rc mds_tensorboard_scalar(struct mds_tensorboard *tb, const char *tag,
                                   int64_t step, double value);

/* Flush, so that readers see everything written so far. */
enum mds_rc mds_tensorboard_flush(struct mds_tensorboard *tb);

/* Let them survive a power failure, too. */
enum mds_rc mds_tensorboard_sync(struct mds_tensorboard *tb);

/* Frees tb also on failure; NULL is fine. */
enum mds_rc mds_tensorboard_close(struct mds_tensorboard *tb);

#endif
