noinst_LIBRARIES += src/model/libmds_model.a
src_model_libmds_model_a_SOURCES = \
  src/model/block.c \
  src/model/gpt.c src/model/gpt.h \
  src/model/memory.c \
  src/model/mlp.c \
  src/model/ops.c \
  src/model/parts.h \
  src/model/rows.c src/model/rows.h \
  src/model/step.c \
  src/model/tiled.c \
  src/model/tiled_step.c
