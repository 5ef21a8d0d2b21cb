# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/io/libmds_io.a
src_io_libmds_io_a_CPPFLAGS = $(AM_CPPFLAGS) $(HDF5_CFLAGS) $(ZLIB_CFLAGS)
src_io_libmds_io_a_SOURCES = \
  src/io/durable.c src/io/durable.h \
  src/io/exact.c src/io/exact.h \
  src/io/folder.c src/io/folder.h \
  src/io/h5.c src/io/h5.h src/io/h5_internal.h \
  src/io/h5_array.c src/io/h5_array.h \
  src/io/h5_dataset.c \
  src/io/h5_storage.c \
  src/io/h5_table.c \
  src/io/jsonl.c src/io/jsonl.h \
  src/io/map.c src/io/map.h \
  src/io/output.c src/io/output.h \
  src/io/reader.c src/io/reader.h \
  src/io/seal.c src/io/seal.h \
  src/io/sha256.c src/io/sha256.h \
  src/io/scratch_file.c src/io/scratch_file.h \
  src/io/worker.c src/io/worker.h \
  src/io/xxh64.c src/io/xxh64.h
io_libs = src/io/libmds_io.a $(base_libs) $(HDF5_LIBS) $(ZLIB_LIBS)

unit_tests += tests/unit/io
tests_unit_io_SOURCES = tests/unit/io.c tests/unit/scratch.h
tests_unit_io_LDFLAGS = -Wl,--wrap=inflate
tests_unit_io_LDADD = $(io_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/scratch_file
tests_unit_scratch_file_SOURCES = tests/unit/scratch_file.c tests/unit/scratch.h
tests_unit_scratch_file_LDADD = $(io_libs) $(CMOCKA_LIBS)
