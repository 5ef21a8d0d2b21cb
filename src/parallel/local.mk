# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/parallel/libmds_parallel.a
src_parallel_libmds_parallel_a_SOURCES = \
  src/parallel/attention.c src/parallel/attention.h src/parallel/attention_shape.h \
  src/parallel/groups.c src/parallel/groups.h \
  src/parallel/group_tests.c src/parallel/group_tests.h \
  src/parallel/par.c src/parallel/par.h \
  src/parallel/prefix.c \
  src/parallel/ring.c \
  src/parallel/rope.c src/parallel/rope.h \
  src/parallel/shard.c src/parallel/shard.h \
  src/parallel/sharded_cache.c \
  src/parallel/sums.c src/parallel/sums.h \
  src/parallel/tensor_parallel.c src/parallel/tensor_parallel.h \
  src/parallel/vocab.c src/parallel/vocab.h \
  src/parallel/window_ring.c
parallel_libs = src/parallel/libmds_parallel.a $(comm_libs) $(tensor_libs) $(topo_libs) \
  $(config_libs)

unit_tests += tests/unit/parallel
tests_unit_parallel_SOURCES = tests/unit/parallel.c
tests_unit_parallel_LDADD = $(parallel_libs) $(CMOCKA_LIBS)
