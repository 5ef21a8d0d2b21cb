# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/ckpt/libmds_ckpt.a
src_ckpt_libmds_ckpt_a_SOURCES = \
  src/ckpt/error_sync.c src/ckpt/error_sync.h \
  src/ckpt/background.c src/ckpt/background.h \
  src/ckpt/folder_lock.c src/ckpt/folder_lock.h \
  src/ckpt/configuration.c src/ckpt/configuration.h \
  src/ckpt/fit.c src/ckpt/fit.h \
  src/ckpt/folder.c src/ckpt/folder.h \
  src/ckpt/hf.h src/ckpt/hf_config.c src/ckpt/hf_config_read.c \
  src/ckpt/hf_export.c src/ckpt/hf_import.c \
  src/ckpt/hf_rope.c \
  src/ckpt/hf_tensors.c \
  src/ckpt/hf_window.c \
  src/ckpt/index.c src/ckpt/index.h \
  src/ckpt/index_file.c \
  src/ckpt/lineage.c src/ckpt/lineage.h \
  src/ckpt/part.c src/ckpt/part.h \
  src/ckpt/provenance.c src/ckpt/provenance.h \
  src/ckpt/rank_file.c src/ckpt/rank_file.h \
  src/ckpt/rank_file_plan.c \
  src/ckpt/rank_file_read.c \
  src/ckpt/reader.c src/ckpt/reader.h \
  src/ckpt/safetensors.c src/ckpt/safetensors.h \
  src/ckpt/safetensors_write.c \
  src/ckpt/save.c src/ckpt/save.h \
  src/ckpt/save_serial.c \
  src/ckpt/saving.c src/ckpt/saving.h
ckpt_libs = src/ckpt/libmds_ckpt.a $(comm_libs) $(tensor_libs) $(topo_libs) $(io_libs) \
  $(config_libs)

unit_tests += tests/unit/ckpt
tests_unit_ckpt_SOURCES = tests/unit/ckpt.c
tests_unit_ckpt_LDADD = $(ckpt_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/ckpt_parts
tests_unit_ckpt_parts_SOURCES = tests/unit/ckpt_parts.c tests/unit/scratch.h
tests_unit_ckpt_parts_LDADD = $(ckpt_libs) $(CMOCKA_LIBS)

unit_tests += tests/unit/ckpt_folder
tests_unit_ckpt_folder_SOURCES = tests/unit/ckpt_folder.c tests/unit/scratch.h
tests_unit_ckpt_folder_LDADD = $(ckpt_libs) $(CMOCKA_LIBS)
