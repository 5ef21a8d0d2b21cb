# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/device/libmds_device.a
src_device_libmds_device_a_SOURCES = \
  src/device/arena.c src/device/arena.h \
  src/device/backend.h src/device/bind.c \
  src/device/cpu.c src/device/create.c src/device/cuda.c \
  src/device/cuda_gpu.c src/device/cuda_gpu.h src/device/dry.c \
  src/device/clock.c src/device/clock.h \
  src/device/device.c src/device/device.h \
  src/device/host.c \
  src/device/memory.c src/device/memory.h \
  src/device/nvml.c src/device/nvml.h \
  src/device/pinned.c \
  src/device/profile.c src/device/profile.h \
  src/device/range.c
device_libs = src/device/libmds_device.a $(base_libs) $(kernels_libs)
src_device_libmds_device_a_CFLAGS = $(AM_CFLAGS) $(CUDA_CFLAGS)

unit_tests += tests/unit/device
tests_unit_device_SOURCES = tests/unit/device.c tests/unit/scratch.h
tests_unit_device_LDADD = $(device_libs) $(CMOCKA_LIBS)

# The cuda device on a runtime that is a stand-in: without a GPU.
if HAVE_CUDA
unit_tests += tests/unit/device_cuda
endif
tests_unit_device_cuda_SOURCES = tests/unit/device_cuda.c tests/unit/fake_cuda.c \
  tests/unit/fake_cuda.h src/device/cuda.c src/device/cuda_gpu.c
tests_unit_device_cuda_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CUDA_CFLAGS)
tests_unit_device_cuda_LDADD = src/device/libmds_device.a kernels/libmdsk.a \
  src/base/libmds_base.a $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) $(CMOCKA_LIBS)
