# SPDX-License-Identifier: BSD-3-Clause
# Files call only those before them: partition, adamw, heads, newton_schulz, pool, storage,
# swap, sharded_weights, sharded_gradients, sharded_states, host_update, muon, zero,
# zero_io.
noinst_LIBRARIES += src/optim/libmds_optim.a
src_optim_libmds_optim_a_SOURCES = \
  src/optim/adamw.c src/optim/rules.h \
  src/optim/clip.h \
  src/optim/heads.c \
  src/optim/host_update.c src/optim/host_update.h \
  src/optim/internal.h \
  src/optim/muon.c src/optim/muon.h \
  src/optim/newton_schulz.c src/optim/newton_schulz.h \
  src/optim/loss_scale.c src/optim/loss_scale.h \
  src/optim/partition.c src/optim/partition.h \
  src/optim/pool.c src/optim/pool.h \
  src/optim/schedule.c src/optim/schedule.h \
  src/optim/sharded_gradients.c src/optim/sharded_gradients.h \
  src/optim/sharded_states.c src/optim/sharded_states.h \
  src/optim/sharded_weights.c src/optim/sharded_weights.h \
  src/optim/storage.c src/optim/storage.h \
  src/optim/swap.c src/optim/swap.h \
  src/optim/zero.c src/optim/zero.h \
  src/optim/zero_io.c

optim_libs = src/optim/libmds_optim.a $(comm_libs) $(tensor_libs) $(io_libs)

unit_tests += tests/unit/optim
tests_unit_optim_SOURCES = tests/unit/optim.c
tests_unit_optim_LDADD = $(optim_libs) $(config_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/zero
tests_unit_zero_SOURCES = tests/unit/zero.c tests/unit/zero_fixture.h tests/unit/scratch.h
tests_unit_zero_LDADD = $(optim_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/zero_model
tests_unit_zero_model_SOURCES = tests/unit/zero_model.c tests/unit/zero_fixture.h \
  tests/unit/scratch.h
tests_unit_zero_model_LDADD = $(optim_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/zero_muon
tests_unit_zero_muon_SOURCES = tests/unit/zero_muon.c tests/unit/zero_fixture.h \
  tests/unit/scratch.h
tests_unit_zero_muon_LDADD = $(optim_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/zero_file
tests_unit_zero_file_SOURCES = tests/unit/zero_file.c tests/unit/zero_fixture.h \
  tests/unit/scratch.h
tests_unit_zero_file_LDFLAGS = -Wl,--wrap=pread,--wrap=pwrite
tests_unit_zero_file_LDADD = $(optim_libs) $(CMOCKA_LIBS)

check_PROGRAMS += tests/mpi/zero
tests_mpi_zero_SOURCES = tests/mpi/zero.c tests/mpi/ranks.c tests/mpi/ranks.h
tests_mpi_zero_LDADD = $(optim_libs)
check_PROGRAMS += tests/mpi/muon
tests_mpi_muon_SOURCES = tests/mpi/muon.c tests/mpi/ranks.c tests/mpi/ranks.h
tests_mpi_muon_LDADD = $(optim_libs)
TESTS += tests/mpi/zero.sh
dist_check_SCRIPTS += tests/mpi/zero.sh
