# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/comm/libmds_comm.a
src_comm_libmds_comm_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS)
src_comm_libmds_comm_a_SOURCES = \
  src/comm/account.c \
  src/comm/buffers.c \
  src/comm/check.c \
  src/comm/clock.c \
  src/comm/collectives.c \
  src/comm/comm.c src/comm/comm.h \
  src/comm/internal.h \
  src/comm/p2p.c \
  src/comm/reduce.c \
  src/comm/request.c \
  src/comm/call_site.h \
  src/comm/shards.c \
  src/comm/wait.c

comm_libs = src/comm/libmds_comm.a $(transport_libs)
check_PROGRAMS += tests/mpi/collectives tests/mpi/requests tests/mpi/faults
tests_mpi_collectives_SOURCES = tests/mpi/collectives.c tests/mpi/ranks.c tests/mpi/ranks.h
tests_mpi_collectives_LDADD = $(comm_libs)
tests_mpi_requests_SOURCES = tests/mpi/requests.c tests/mpi/ranks.c tests/mpi/ranks.h
tests_mpi_requests_LDADD = $(comm_libs)
tests_mpi_faults_SOURCES = tests/mpi/faults.c tests/mpi/ranks.c tests/mpi/ranks.h
tests_mpi_faults_LDADD = $(comm_libs)

TESTS += tests/mpi/collectives.sh tests/mpi/deaths.sh tests/mpi/launch.sh
dist_check_SCRIPTS += tests/mpi/collectives.sh tests/mpi/deaths.sh tests/mpi/launch.sh

# NCCL and CUDA are stand-ins there.
if HAVE_NCCL
if HAVE_CMOCKA
check_PROGRAMS += tests/mpi/late
TESTS += tests/mpi/late.sh
endif
endif
tests_mpi_late_SOURCES = tests/mpi/late.c tests/mpi/ranks.c tests/mpi/ranks.h \
  tests/unit/fake_cuda.c tests/unit/fake_cuda.h
tests_mpi_late_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CUDA_CFLAGS) $(NCCL_CFLAGS)
tests_mpi_late_LDADD = src/comm/libmds_comm.a src/transport/libmds_transport.a \
  src/monitor/libmds_monitor.a src/device/libmds_device.a $(base_libs) $(CMOCKA_LIBS)
dist_check_SCRIPTS += tests/mpi/late.sh

# A rank for each GPU: mpiexec -n 4 tests/gpu/nccl
if HAVE_NCCL
check_PROGRAMS += tests/gpu/nccl
endif
tests_gpu_nccl_SOURCES = tests/gpu/nccl.c
tests_gpu_nccl_LDADD = $(comm_libs)
EXTRA_DIST += tests/gpu/nccl.c
