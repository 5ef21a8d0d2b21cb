# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/block/libmds_block.a
src_block_libmds_block_a_SOURCES = \
  src/block/backward.c \
  src/block/build.c src/block/build.h \
  src/block/check.c \
  src/block/compile.c \
  src/block/copies.c \
  src/block/exchange.c \
  src/block/fp8.c \
  src/block/fuse.c \
  src/block/groups.c \
  src/block/messages.c \
  src/block/passes.h \
  src/block/place.c \
  src/block/program.h \
  src/block/run.c src/block/run.h \
  src/block/save.c \
  src/block/show.c src/block/show.h \
  src/block/tiles.c
block_libs = src/block/libmds_block.a $(device_libs)
