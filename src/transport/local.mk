# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/transport/libmds_transport.a
src_transport_libmds_transport_a_CFLAGS = $(AM_CFLAGS) $(CUDA_CFLAGS) $(NCCL_CFLAGS)
src_transport_libmds_transport_a_SOURCES = \
  src/transport/mpi.c \
  src/transport/nccl.c \
  src/transport/nccl_calls.c src/transport/nccl_calls.h \
  src/transport/nccl_stream.c src/transport/nccl_stream.h \
  src/transport/stop.c src/transport/stop.h \
  src/transport/transport.h \
  src/transport/world.c src/transport/world.h
transport_libs = src/transport/libmds_transport.a src/monitor/libmds_monitor.a $(device_libs)
