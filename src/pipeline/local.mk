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
tests_unit_pipeline_LDADD = $(pipeline_libs) $(CMOCKA_LIBS)
tests_unit_pipeline_split_SOURCES = tests/unit/pipeline_split.c
tests_unit_pipeline_split_LDADD = $(pipeline_libs) $(CMOCKA_LIBS)
pipeline_libs = src/pipeline/libmds_pipeline.a $(comm_libs)
tests_unit_pipe_SOURCES = tests/unit/pipe.c
tests_unit_pipe_LDADD = $(pipeline_libs) $(CMOCKA_LIBS)
tests_mpi_pipeline_SOURCES = tests/mpi/pipeline.c tests/mpi/ranks.c tests/mpi/ranks.h
tests_mpi_pipeline_LDADD = $(pipeline_libs)
