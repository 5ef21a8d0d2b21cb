noinst_LIBRARIES += src/optim/libmds_optim.a
src_optim_libmds_optim_a_SOURCES = \
  src/optim/adamw.c src/optim/adamw.h \
  src/optim/grad_sync.c src/optim/grad_sync.h \
  src/optim/schedule.c src/optim/schedule.h

unit_tests += tests/unit/optim
tests_unit_optim_SOURCES = tests/unit/optim.c
tests_unit_optim_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_optim_LDADD = src/optim/libmds_optim.a src/comm/libmds_comm.a \
  src/tensor/libmds_tensor.a src/device/libmds_device.a kernels/libmdsk.a \
  src/base/libmds_base.a $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) $(CUDA_LIBS) $(CMOCKA_LIBS)
