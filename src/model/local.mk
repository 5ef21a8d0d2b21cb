noinst_LIBRARIES += src/model/libmds_model.a
src_model_libmds_model_a_SOURCES = \
  src/model/ends.c \
  src/model/gpt.c src/model/gpt.h \
  src/model/layer.c \
  src/model/ops.c \
  src/model/parts.h \
  src/model/step.c
