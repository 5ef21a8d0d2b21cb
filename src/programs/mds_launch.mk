# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += src/programs/mds_launch
src_programs_mds_launch_SOURCES = src/programs/mds_launch.c $(programs_with_subcommands)
src_programs_mds_launch_LDADD = $(launch_libs)

alcfdir = $(pkgdatadir)/ALCF
dist_alcf_SCRIPTS = ALCF/train-gpt3.sh ALCF/train-llama.sh ALCF/submit.sh ALCF/submit-pbs.sh ALCF/sweep.sh ALCF/train-genome.sh
dist_alcf_DATA = ALCF/setup.sh

TESTS += tests/launch/golden.sh tests/launch/jobs.sh tests/launch/variables.sh \
  tests/launch/localhost.t tests/launch/submit.t tests/launch/sweep.t tests/launch/report.t tests/launch/models.t tests/launch/module.t \
  tests/launch/restart.t tests/launch/ahead.t tests/launch/status.t tests/launch/infer.t
dist_check_SCRIPTS += tests/launch/golden.sh tests/launch/jobs.sh tests/launch/variables.sh \
  tests/launch/localhost.t tests/launch/submit.t tests/launch/sweep.t tests/launch/report.t tests/launch/models.t tests/launch/module.t \
  tests/launch/restart.t tests/launch/ahead.t tests/launch/status.t tests/launch/infer.t
dist_check_DATA += tests/launch/batch.sh tests/launch/polaris.yaml tests/launch/sophia.yaml \
  tests/launch/thetagpu.yaml tests/launch/minimal.yaml \
  tests/launch/dgx2.yaml tests/launch/perlmutter.yaml tests/launch/gh200.yaml tests/launch/h100.yaml tests/launch/h200.yaml tests/launch/selene.yaml \
  tests/launch/localhost.yaml tests/launch/faults.yaml
# Real jobs: tests/slurm/run, which brings up a Slurm, and tests/pbs/run, which uses the PBS of
# this host.  Several hosts: tests/hosts/run.
dist_check_SCRIPTS += tests/slurm/run tests/pbs/run tests/flux/run tests/hosts/run
EXTRA_DIST += tests/hosts/hosts.sh tests/hosts/hosts.t tests/pbs/jobs.t tests/flux/jobs.t
EXTRA_DIST += tests/slurm/cluster.sh tests/slurm/cluster.yaml tests/slurm/setup.sh \
  tests/slurm/jobs.t tests/slurm/launchers.t tests/slurm/restart.t \
  tests/slurm/infer.t tests/slurm/where.t tests/slurm/reframe.t \
  tests/reframe/mds.py tests/reframe/settings.py

# NVIDIA's management library, for hosts without one.
TESTS += tests/cli/preflight.t
dist_check_SCRIPTS += tests/cli/preflight.t
EXTRA_DIST += tests/cli/fake_nvml.c
check_DATA = tests/cli/nvml/libnvidia-ml.so.1
CLEANFILES += tests/cli/nvml/libnvidia-ml.so.1
tests/cli/nvml/libnvidia-ml.so.1: tests/cli/fake_nvml.c
	$(AM_V_CC)$(MKDIR_P) tests/cli/nvml && \
	$(CC) -D_GNU_SOURCE -O1 -fPIC -shared -o $@ $(srcdir)/tests/cli/fake_nvml.c

dist_man_MANS += docs/mds_launch.1
jobscriptsdir = $(docdir)/jobscripts
dist_jobscripts_DATA = jobscripts/polaris.pbs jobscripts/sophia.pbs jobscripts/thetagpu.cobalt \
  jobscripts/dgx2.sbatch jobscripts/perlmutter.sbatch jobscripts/h200.sbatch jobscripts/h200.flux

# A Tcl module for Environment Modules and Lmod: `module use` this folder, `module load mds`.
moduledir = $(datadir)/modulefiles/$(PACKAGE)
nodist_module_DATA = modulefiles/$(PACKAGE_VERSION)
EXTRA_DIST += modulefiles/mds.in
CLEANFILES += modulefiles/$(PACKAGE_VERSION)
modulefiles/$(PACKAGE_VERSION): modulefiles/mds.in Makefile
	$(AM_V_GEN)$(MKDIR_P) modulefiles && sed -e 's,@bindir[@],$(bindir),g' \
	  -e 's,@mandir[@],$(mandir),g' -e 's,@alcfdir[@],$(alcfdir),g' \
	  -e 's,@moduledir[@],$(moduledir),g' -e 's,@prefix[@],$(prefix),g' \
	  -e 's,^\(set [a-z]* {\)$(prefix)/,\1,' \
	  -e 's,@PACKAGE_VERSION[@],$(PACKAGE_VERSION),g' \
	  -e 's,@MODULE_PREREQ[@],$(MODULE_PREREQ),g' \
	  -e 's,@MODULE_CONFLICT[@],$(MODULE_CONFLICT),g' \
	  $(srcdir)/modulefiles/mds.in > $@

# Configurations to begin with, which tests/cli/examples.t runs.
examplesdir = $(docdir)/examples
dist_examples_DATA = examples/laptop-genome.yaml examples/polaris-genome.yaml examples/text.yaml
