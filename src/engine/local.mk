# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/engine/libmds_engine.a
src_engine_libmds_engine_a_SOURCES = \
  src/engine/engine.c src/engine/engine.h \
  src/engine/gather.c \
  src/engine/internal.h \
  src/engine/measure.c \
  src/engine/step.c

engine_libs = src/engine/libmds_engine.a src/model/libmds_model.a \
  src/parallel/libmds_parallel.a src/pipeline/libmds_pipeline.a \
  src/optim/libmds_optim.a $(comm_libs) src/tensor/libmds_tensor.a \
  src/device/libmds_device.a kernels/libmdsk.a src/config/libmds_config.a \
  src/topo/libmds_topo.a src/io/libmds_io.a src/base/libmds_base.a $(YAML_LIBS) \
  $(HDF5_LIBS) $(ZLIB_LIBS) $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) $(kernels_cuda_libs)

unit_tests += tests/unit/engine tests/unit/engine_memory
engine_fixture = tests/unit/engine_fixture.c tests/unit/engine_fixture.h
tests_unit_engine_SOURCES = tests/unit/engine.c $(engine_fixture)
tests_unit_engine_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_engine_LDADD = $(engine_libs) $(CMOCKA_LIBS)
tests_unit_engine_memory_SOURCES = tests/unit/engine_memory.c $(engine_fixture)
tests_unit_engine_memory_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_engine_memory_LDFLAGS = -Wl,--wrap=mds_zalloc,--wrap=mds_realloc
tests_unit_engine_memory_LDADD = $(engine_libs) $(CMOCKA_LIBS)

# A long layer against plain loops; on a GPU: tests/gpu/run --parts long
check_PROGRAMS += tests/gpu/long
TESTS += tests/gpu/long
tests_gpu_long_SOURCES = tests/gpu/long.c tests/gpu/plain.h \
  tests/gpu/layer.c tests/gpu/layer.h
tests_gpu_long_LDADD = $(engine_libs)
