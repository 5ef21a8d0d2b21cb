bin_PROGRAMS += src/programs/mds_launch
src_programs_mds_launch_SOURCES = src/programs/mds_launch.c
src_programs_mds_launch_LDADD = src/launch/libmds_launch.a src/plan/libmds_plan.a \
  src/engine/libmds_engine.a src/model/libmds_model.a \
  src/parallel/libmds_parallel.a src/pipeline/libmds_pipeline.a \
  src/optim/libmds_optim.a src/comm/libmds_comm.a src/tensor/libmds_tensor.a \
  src/device/libmds_device.a src/metrics/libmds_metrics.a src/topo/libmds_topo.a \
  src/config/libmds_config.a src/io/libmds_io.a kernels/libmdsk.a \
  src/base/libmds_base.a $(YAML_LIBS) $(HDF5_LIBS) $(ZLIB_LIBS) $(OPENBLAS_LIBS) \
  $(OPENMP_CFLAGS) $(CUDA_LIBS) $(PMIX_LIBS)

alcfdir = $(pkgdatadir)/ALCF
dist_alcf_SCRIPTS = ALCF/train-gpt3.sh ALCF/submit.sh ALCF/submit-pbs.sh ALCF/sweep.sh
dist_alcf_DATA = ALCF/setup.sh

TESTS += tests/launch/golden.sh tests/launch/localhost.t
dist_check_SCRIPTS += tests/launch/golden.sh tests/launch/localhost.t
dist_check_DATA += tests/launch/polaris.yaml tests/launch/thetagpu.yaml \
  tests/launch/dgx2.yaml tests/launch/perlmutter.yaml tests/launch/h200.yaml \
  tests/launch/localhost.yaml tests/launch/faults.yaml
