noinst_LIBRARIES += src/parallel/libmds_parallel.a
src_parallel_libmds_parallel_a_SOURCES = \
  src/parallel/attention.c src/parallel/attention.h src/parallel/attention_parts.h \
  src/parallel/groups.c src/parallel/groups.h \
  src/parallel/par.c src/parallel/par.h \
  src/parallel/ring.c \
  src/parallel/shard.c src/parallel/shard.h \
  src/parallel/tensor_parallel.c src/parallel/tensor_parallel.h \
  src/parallel/vocab.c src/parallel/vocab.h
