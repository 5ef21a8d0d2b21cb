# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/train/libmds_train.a
src_train_libmds_train_a_SOURCES = \
  src/train/consistency.c src/train/consistency.h \
  src/train/checkpoint.c \
  src/train/dry_run.c src/train/dry_run.h \
  src/train/evaluate.c \
  src/train/events.c \
  src/train/memory.c \
  src/train/nonfinite.c \
  src/train/preflight.c src/train/preflight.h \
  src/train/preflight_measure.c \
  src/train/pretrain.c src/train/pretrain.h \
  src/train/profile.c \
  src/train/progress.c \
  src/train/rows.c \
  src/train/run.h \
  src/train/save.c \
  src/train/software.c \
  src/train/stop.c \
  src/train/stragglers.c \
  src/train/trace.c \
  src/train/train.c src/train/train.h \
  src/train/weights.c
train_libs = src/train/libmds_train.a $(engine_libs) $(data_libs) $(ckpt_libs) \
  $(metrics_libs)
