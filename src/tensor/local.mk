# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/tensor/libmds_tensor.a
src_tensor_libmds_tensor_a_SOURCES = \
  src/tensor/contract.c \
  src/tensor/front.c src/tensor/front.h \
  src/tensor/init.c \
  src/tensor/op.h src/tensor/op_dense.c src/tensor/op_sparse.c \
  src/tensor/params.c src/tensor/params.h

unit_tests += tests/unit/tensor
tests_unit_tensor_SOURCES = tests/unit/tensor.c
tests_unit_tensor_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_tensor_LDADD = src/tensor/libmds_tensor.a src/device/libmds_device.a \
  kernels/libmdsk.a src/base/libmds_base.a $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) \
  $(kernels_cuda_libs) $(CMOCKA_LIBS)
