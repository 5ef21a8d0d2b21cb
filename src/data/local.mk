# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/data/libmds_data.a
src_data_libmds_data_a_SOURCES = \
  src/data/balance.c src/data/balance.h \
  src/data/best_fit.c src/data/best_fit.h \
  src/data/complement.c src/data/complement.h \
  src/data/dataset.c src/data/dataset.h src/data/dataset_impl.h \
  src/data/dataset_check.c \
  src/data/dataset_kinds.c \
  src/data/dataset_log.c \
  src/data/dataset_require.c \
  src/data/dataset_resume.c \
  src/data/dataset_seen.c \
  src/data/fasta.c src/data/fasta.h \
  src/data/feature_join.c src/data/feature_join.h \
  src/data/features.c src/data/features.h \
  src/data/kinds.c src/data/kinds.h \
  src/data/make.c src/data/make.h \
  src/data/make_input.c src/data/make_input.h \
  src/data/megatron_index.c src/data/megatron_index.h \
  src/data/mix.c src/data/mix.h \
  src/data/packing.c src/data/packing.h \
  src/data/paths.c src/data/paths.h \
  src/data/permute.c src/data/permute.h \
  src/data/position.c src/data/position.h \
  src/data/reading.c src/data/reading.h \
  src/data/sample.h \
  src/data/scan.c src/data/scan.h \
  src/data/source.c src/data/source.h \
  src/data/source_hdf5.c \
  src/data/source_megatron.c \
  src/data/source_open.c \
  src/data/split.c src/data/split.h \
  src/data/record_file.c src/data/record_file.h \
  src/data/token_file.c src/data/token_file.h \
  src/data/tokenize.c src/data/tokenize.h \
  src/data/tokenize_fasta.c src/data/tokenize_fasta.h \
  src/data/tokenizer.c src/data/tokenizer.h \
  src/data/tokenizer_json.c src/data/tokenizer_json.h \
  src/data/inspect.c src/data/inspect.h \
  src/data/window.c src/data/window.h
data_libs = src/data/libmds_data.a $(io_libs) $(config_libs)

unit_tests += tests/unit/data
tests_unit_data_SOURCES = tests/unit/data.c tests/unit/scratch.h
tests_unit_data_LDADD = $(data_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/dataset
tests_unit_dataset_SOURCES = tests/unit/dataset.c tests/unit/scratch.h
tests_unit_dataset_LDADD = $(data_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/documents
tests_unit_documents_SOURCES = tests/unit/documents.c tests/unit/documents.h tests/unit/scratch.h
tests_unit_documents_LDADD = $(data_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/samples
tests_unit_samples_SOURCES = tests/unit/samples.c tests/unit/documents.h tests/unit/scratch.h
tests_unit_samples_LDADD = $(data_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/split
tests_unit_split_SOURCES = tests/unit/split.c tests/unit/scratch.h
tests_unit_split_LDADD = $(data_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/source
tests_unit_source_SOURCES = tests/unit/source.c tests/unit/scratch.h
tests_unit_source_CPPFLAGS = $(AM_CPPFLAGS) $(HDF5_CFLAGS)
tests_unit_source_LDFLAGS = -Wl,--wrap=mds_clock_s
tests_unit_source_LDADD = $(data_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/position
tests_unit_position_SOURCES = tests/unit/position.c tests/unit/scratch.h
tests_unit_position_LDADD = $(data_libs) $(CMOCKA_LIBS)
