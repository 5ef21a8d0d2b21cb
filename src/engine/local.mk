noinst_LIBRARIES += src/engine/libmds_engine.a
src_engine_libmds_engine_a_SOURCES = src/engine/engine.c src/engine/engine.h

unit_tests += tests/unit/engine
tests_unit_engine_SOURCES = tests/unit/engine.c
tests_unit_engine_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_engine_LDADD = src/engine/libmds_engine.a src/model/libmds_model.a \
  src/optim/libmds_optim.a src/comm/libmds_comm.a src/tensor/libmds_tensor.a \
  src/device/libmds_device.a kernels/libmdsk.a src/config/libmds_config.a \
  src/base/libmds_base.a $(YAML_LIBS) $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) $(CUDA_LIBS) \
  $(CMOCKA_LIBS)
