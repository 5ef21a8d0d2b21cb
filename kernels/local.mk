noinst_LIBRARIES += kernels/libmdsk.a
kernels_libmdsk_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS) $(OPENMP_CFLAGS) $(OPENBLAS_CFLAGS)
kernels_libmdsk_a_SOURCES = \
  kernels/activation.h kernels/attention.h kernels/elementwise.h kernels/embedding.h \
  kernels/linear.h kernels/loss.h kernels/norm.h kernels/optimizer.h kernels/philox.h \
  kernels/rope.h kernels/table.h kernels/types.h \
  kernels/cost/cost.c \
  kernels/cpu/activation.c \
  kernels/cpu/attention.h \
  kernels/cpu/attention_bwd.c \
  kernels/cpu/attention_fwd.c \
  kernels/cpu/attention_mask.c \
  kernels/cpu/cpu.h \
  kernels/cpu/dropout.c kernels/cpu/random.h \
  kernels/cpu/elementwise.c \
  kernels/cpu/embedding.c \
  kernels/cpu/gemm.c \
  kernels/cpu/linear.c \
  kernels/cpu/loss.c \
  kernels/cpu/norm.c \
  kernels/cpu/optimizer.c \
  kernels/cpu/product.c kernels/cpu/product.h \
  kernels/cpu/rope.c \
  kernels/cpu/table.c \
  kernels/cpu/team.c \
  kernels/cpu/tile.c kernels/cpu/tile.h kernels/cpu/tile_body.h \
  kernels/cpu/vmath.h
EXTRA_DIST += kernels/README.md
