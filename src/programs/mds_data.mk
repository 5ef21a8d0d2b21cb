# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += src/programs/mds_data
src_programs_mds_data_SOURCES = src/programs/mds_data.c src/programs/mds_data.h \
  src/programs/mds_data_info.c $(programs_with_subcommands)
src_programs_mds_data_LDADD = src/device/libmds_device.a $(data_libs)

dist_man_MANS += docs/mds_data.1
TESTS += tests/cli/mds_data.t
dist_check_SCRIPTS += tests/cli/mds_data.t
EXTRA_DIST += tests/data/README.md tests/data/lambda.fna.gz tests/data/checkpoint-format2.tar.gz
