# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/tensor/libmds_tensor.a
src_tensor_libmds_tensor_a_SOURCES = \
  src/tensor/contract.c \
  src/tensor/dispatch.c src/tensor/contract.h \
  src/tensor/init.c \
  src/tensor/op.h src/tensor/op_dense.c src/tensor/op_experts.c src/tensor/op_sparse.c \
  src/tensor/params.c src/tensor/params.h
tensor_libs = src/tensor/libmds_tensor.a $(device_libs)

unit_tests += tests/unit/tensor
tests_unit_tensor_SOURCES = tests/unit/tensor.c
tests_unit_tensor_LDADD = $(tensor_libs) $(CMOCKA_LIBS)
