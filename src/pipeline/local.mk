# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/pipeline/libmds_pipeline.a
src_pipeline_libmds_pipeline_a_SOURCES = \
  src/pipeline/pipe.c src/pipeline/pipe.h \
  src/pipeline/schedule.c src/pipeline/schedule.h \
  src/pipeline/split.c src/pipeline/split.h

unit_tests += tests/unit/pipeline tests/unit/pipeline_split tests/unit/pipe
check_PROGRAMS += tests/mpi/pipeline
TESTS += tests/mpi/pipeline.sh
dist_check_SCRIPTS += tests/mpi/pipeline.sh
tests_unit_pipeline_SOURCES = tests/unit/pipeline.c
tests_unit_pipeline_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_pipeline_LDADD = src/pipeline/libmds_pipeline.a src/base/libmds_base.a \
  $(CMOCKA_LIBS)
tests_unit_pipeline_split_SOURCES = tests/unit/pipeline_split.c
tests_unit_pipeline_split_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_pipeline_split_LDADD = $(tests_unit_pipeline_LDADD)
pipe_libs = src/pipeline/libmds_pipeline.a $(comm_libs) \
  src/device/libmds_device.a kernels/libmdsk.a src/base/libmds_base.a \
  $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) $(kernels_cuda_libs)
tests_unit_pipe_SOURCES = tests/unit/pipe.c
tests_unit_pipe_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_pipe_LDADD = $(pipe_libs) $(CMOCKA_LIBS)
tests_mpi_pipeline_SOURCES = tests/mpi/pipeline.c tests/mpi/ranks.c tests/mpi/ranks.h
tests_mpi_pipeline_LDADD = $(pipe_libs)
