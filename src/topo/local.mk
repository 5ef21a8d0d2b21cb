# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/topo/libmds_topo.a
src_topo_libmds_topo_a_SOURCES = \
  src/topo/axes.c src/topo/axes.h \
  src/topo/grid.c src/topo/grid.h
topo_libs = src/topo/libmds_topo.a $(base_libs)

unit_tests += tests/unit/topo
tests_unit_topo_SOURCES = tests/unit/topo.c
tests_unit_topo_LDADD = $(topo_libs) $(CMOCKA_LIBS)
