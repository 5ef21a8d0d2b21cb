# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/engine/libmds_engine.a
src_engine_libmds_engine_a_SOURCES = \
  src/engine/balance.c \
  src/engine/decode.c \
  src/engine/engine.c src/engine/engine.h \
  src/engine/gather.c \
  src/engine/hidden.c \
  src/engine/internal.h \
  src/engine/logits.c \
  src/engine/losses.c \
  src/engine/measure.c \
  src/engine/step.c

engine_libs = src/engine/libmds_engine.a $(model_libs) $(pipeline_libs) $(optim_libs)

check_PROGRAMS += tests/mpi/axes tests/mpi/decode
tests_mpi_axes_SOURCES = tests/mpi/axes.c tests/mpi/ranks.c tests/mpi/ranks.h
tests_mpi_axes_LDADD = $(engine_libs)
tests_mpi_decode_SOURCES = tests/mpi/decode.c tests/mpi/ranks.c tests/mpi/ranks.h
tests_mpi_decode_LDADD = $(engine_libs)

unit_tests += tests/unit/engine tests/unit/engine_fp8 tests/unit/engine_memory \
  tests/unit/engine_documents tests/unit/engine_decode tests/unit/engine_mup \
  tests/unit/engine_clip
engine_fixture = tests/unit/engine_fixture.c tests/unit/engine_fixture.h
tests_unit_engine_SOURCES = tests/unit/engine.c $(engine_fixture)
tests_unit_engine_LDADD = $(engine_libs) $(CMOCKA_LIBS)
tests_unit_engine_fp8_SOURCES = tests/unit/engine_fp8.c $(engine_fixture)
tests_unit_engine_fp8_LDADD = $(engine_libs) $(CMOCKA_LIBS)
tests_unit_engine_documents_SOURCES = tests/unit/engine_documents.c $(engine_fixture)
tests_unit_engine_documents_LDADD = $(engine_libs) $(CMOCKA_LIBS)
tests_unit_engine_clip_SOURCES = tests/unit/engine_clip.c $(engine_fixture)
tests_unit_engine_clip_LDADD = $(engine_libs) $(CMOCKA_LIBS)
tests_unit_engine_mup_SOURCES = tests/unit/engine_mup.c $(engine_fixture)
tests_unit_engine_mup_LDADD = $(engine_libs) $(CMOCKA_LIBS)
tests_unit_engine_decode_SOURCES = tests/unit/engine_decode.c $(engine_fixture)
tests_unit_engine_decode_LDADD = $(engine_libs) $(CMOCKA_LIBS)
tests_unit_engine_memory_SOURCES = tests/unit/engine_memory.c $(engine_fixture)
tests_unit_engine_memory_LDFLAGS = -Wl,--wrap=mds_zalloc,--wrap=mds_realloc
tests_unit_engine_memory_LDADD = $(engine_libs) $(CMOCKA_LIBS)

# A long layer against plain loops; on a GPU: tests/gpu/run --parts long
check_PROGRAMS += tests/gpu/long
TESTS += tests/gpu/long
tests_gpu_long_SOURCES = tests/gpu/long.c tests/gpu/plain.h \
  tests/gpu/layer.c tests/gpu/layer.h
tests_gpu_long_LDADD = $(engine_libs)
