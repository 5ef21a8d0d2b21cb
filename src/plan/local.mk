# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/plan/libmds_plan.a
src_plan_libmds_plan_a_SOURCES = \
  src/plan/machine.c src/plan/machine.h src/plan/machine_impl.h \
  src/plan/machine_attention.c \
  src/plan/machine_check.c \
  src/plan/machine_facts.c \
  src/plan/machine_find.c \
  src/plan/machine_gpus.c \
  src/plan/advise.c \
  src/plan/search_grid.c \
  src/plan/layout.c src/plan/layout.h \
  src/plan/layout_table.c \
  src/plan/longest.c \
  src/plan/network.c src/plan/network.h \
  src/plan/plan.h \
  src/plan/predict.c src/plan/predict.h \
  src/plan/print.c \
  src/plan/rates.c src/plan/rates.h \
  src/plan/dry_run.c src/plan/dry_run.h \
  src/plan/search.c src/plan/search.h \
  src/plan/search_space.c src/plan/search_space.h

machinesdir = $(pkgdatadir)/machines
dist_machines_DATA = machines/dgx2.yaml machines/gh200.yaml machines/h100.yaml machines/h200.yaml \
  machines/localhost.yaml machines/minimal.yaml machines/perlmutter.yaml machines/polaris.yaml machines/selene.yaml \
  machines/sophia.yaml machines/thetagpu.yaml

unit_tests += tests/unit/plan
tests_unit_plan_SOURCES = tests/unit/plan.c tests/unit/toy_plan.h tests/unit/toy_machine.h \
  tests/unit/scratch.h
plan_libs = src/plan/libmds_plan.a $(engine_libs) $(metrics_libs)
tests_unit_plan_LDADD = $(plan_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/plan_limits
tests_unit_plan_limits_SOURCES = tests/unit/plan_limits.c tests/unit/toy_plan.h \
  tests/unit/toy_machine.h tests/unit/scratch.h
tests_unit_plan_limits_LDADD = $(plan_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/plan_best
tests_unit_plan_best_SOURCES = tests/unit/plan_best.c tests/unit/toy_plan.h \
  tests/unit/toy_machine.h tests/unit/scratch.h
tests_unit_plan_best_LDADD = $(plan_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/machine
tests_unit_machine_SOURCES = tests/unit/machine.c tests/unit/toy_machine.h
tests_unit_machine_LDADD = $(plan_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/predict
tests_unit_predict_SOURCES = tests/unit/predict.c
tests_unit_predict_LDADD = $(plan_libs) $(CMOCKA_LIBS)
dist_doc_DATA += docs/new-machine.md
