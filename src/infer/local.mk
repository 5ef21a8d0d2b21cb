# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/infer/libmds_infer.a
src_infer_libmds_infer_a_SOURCES = \
  src/infer/batch.c src/infer/batch.h \
  src/infer/command.c src/infer/command.h \
  src/infer/continue.c src/infer/continue.h \
  src/infer/embed.c src/infer/embed.h \
  src/infer/generate.c src/infer/generate.h \
  src/infer/genome.c src/infer/genome.h \
  src/infer/lines.c src/infer/lines.h \
  src/infer/marginals.c src/infer/marginals.h \
  src/infer/model.c src/infer/model.h src/infer/model_start.c \
  src/infer/options.c src/infer/options.h \
  src/infer/origin.c src/infer/origin.h \
  src/infer/per_token.c src/infer/per_token.h \
  src/infer/records.c src/infer/records.h \
  src/infer/regions.c src/infer/regions.h \
  src/infer/sample.c src/infer/sample.h \
  src/infer/score.c src/infer/score.h \
  src/infer/table.c src/infer/table.h \
  src/infer/track.c src/infer/track.h \
  src/infer/variant_file.c src/infer/variant_file.h \
  src/infer/variants.c src/infer/variants.h \
  src/infer/vcf.c src/infer/vcf.h \
  src/infer/window.c src/infer/window.h \
  src/infer/words.c src/infer/words.h \
  src/infer/written.c src/infer/written.h
src_infer_libmds_infer_a_CFLAGS = $(AM_CFLAGS) $(HTSLIB_CFLAGS)
infer_libs = src/infer/libmds_infer.a $(engine_libs) $(data_libs) $(ckpt_libs) \
  $(metrics_libs) $(HTSLIB_LIBS)

unit_tests += tests/unit/infer
tests_unit_infer_SOURCES = tests/unit/infer.c tests/unit/scratch.h
tests_unit_infer_LDADD = $(infer_libs) $(CMOCKA_LIBS)
