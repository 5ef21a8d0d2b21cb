# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += src/programs/mds_infer
src_programs_mds_infer_SOURCES = src/programs/mds_infer.c \
  src/programs/ranks.c src/programs/ranks.h $(programs_with_subcommands)
src_programs_mds_infer_LDADD = $(infer_libs) $(train_libs)

dist_man_MANS += docs/mds_infer.1
TESTS += tests/infer/embed.t tests/infer/generate.t tests/infer/many.t tests/infer/marginals.t tests/infer/regions.t tests/infer/score.t tests/infer/track.t tests/infer/tutorial.t tests/infer/variants.t
dist_check_SCRIPTS += tests/infer/embed.t tests/infer/generate.t tests/infer/many.t tests/infer/marginals.t tests/infer/regions.t tests/infer/score.t tests/infer/track.t tests/infer/tutorial.t tests/infer/variants.t
EXTRA_DIST += tests/infer/embed.py tests/infer/setup.sh
