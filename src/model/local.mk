# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/model/libmds_model.a
src_model_libmds_model_a_SOURCES = \
  src/model/block.c \
  src/model/context.c src/model/context.h \
  src/model/dropout.c \
  src/model/embedding.c \
  src/model/experts.c \
  src/model/forms.c \
  src/model/fp8.c \
  src/model/gpt.c src/model/gpt.h \
  src/model/head.c \
  src/model/head_groups.c \
  src/model/head_norm.c \
  src/model/linear.c \
  src/model/lists.c src/model/lists.h \
  src/model/lists_compile.c \
  src/model/messages.c \
  src/model/modules.h \
  src/model/norm.c \
  src/model/operations.c \
  src/model/operations_linear.c \
  src/model/register.c \
  src/model/saved.c src/model/saved.h \
  src/model/spread.c \
  src/model/step.c
model_libs = src/model/libmds_model.a $(parallel_libs) $(block_libs)

unit_tests += tests/unit/lists
tests_unit_lists_SOURCES = tests/unit/lists.c
tests_unit_lists_LDADD = $(model_libs) $(CMOCKA_LIBS)
