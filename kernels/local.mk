# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += kernels/libmdsk.a
kernels_libmdsk_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS) $(OPENMP_CFLAGS) $(OPENBLAS_CFLAGS)
kernels_libmdsk_a_SOURCES = \
  kernels/activation.h kernels/attention.h kernels/attention_scratch.h kernels/elementwise.h kernels/embedding.h kernels/experts.h \
  kernels/fp8.h kernels/half.h kernels/inline.h kernels/library.c kernels/library.h kernels/linear.h kernels/loss.h kernels/next_token.h \
  kernels/norm.h kernels/normal.h kernels/operations.h kernels/optimizer.h kernels/philox.h kernels/rope.h kernels/table.h kernels/types.h \
  kernels/cost/attention.c \
  kernels/cost/cost.c \
  kernels/cpu/activation.c \
  kernels/cpu/attention.h \
  kernels/cpu/attention_bwd.c \
  kernels/cpu/attention_cached.c \
  kernels/cpu/attention_fwd.c \
  kernels/cpu/attention_merge.c \
  kernels/cpu/copy.c \
  kernels/cpu/cpu.h \
  kernels/cpu/dropout.c \
  kernels/cpu/elementwise.c \
  kernels/cpu/embedding.c \
  kernels/cpu/experts.c \
  kernels/cpu/fp8.c \
  kernels/cpu/gemm_builtin.c \
  kernels/cpu/gemm_half.c \
  kernels/cpu/gemm_rows.c \
  kernels/cpu/linear.c \
  kernels/cpu/loss.c \
  kernels/cpu/next_token.c \
  kernels/cpu/norm.c \
  kernels/cpu/normal.c \
  kernels/cpu/optimizer.c \
  kernels/cpu/unfused.c kernels/cpu/unfused.h \
  kernels/cpu/gemm.c kernels/cpu/gemm.h \
  kernels/cpu/random.c kernels/cpu/random.h \
  kernels/cpu/rope.c \
  kernels/cpu/route.c \
  kernels/cpu/storage.c kernels/cpu/storage.h \
  kernels/cpu/table.c \
  kernels/cpu/team.c \
  kernels/cpu/tile.c kernels/cpu/tile.h kernels/cpu/tile_body.h \
  kernels/cpu/vmath.h \
  kernels/unfused/attention.c kernels/unfused/attention.h
EXTRA_DIST += kernels/README.md

if HAVE_CMOCKA
check_LIBRARIES += tests/kernels/libcheck.a
endif
tests_kernels_libcheck_a_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CUDA_CFLAGS)
tests_kernels_libcheck_a_SOURCES = tests/kernels/check.c tests/kernels/check.h \
  tests/kernels/staged.h

kernels_libs = $(kernels_cuda_libs) kernels/libmdsk.a $(OPENBLAS_LIBS) $(OPENMP_CFLAGS)
kernels_ldadd = tests/kernels/libcheck.a $(kernels_libs) $(CMOCKA_LIBS)
kernels_cflags = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(CMOCKA_CFLAGS)
kernels_tests = \
  tests/kernels/attention \
  tests/kernels/attention_parts \
  tests/kernels/cuda_grid \
  tests/kernels/elements \
  tests/kernels/experts \
  tests/kernels/fp8 \
  tests/kernels/fp8_gemm \
  tests/kernels/half \
  tests/kernels/library \
  tests/kernels/loss \
  tests/kernels/norms \
  tests/kernels/products \
  tests/kernels/rows
unit_tests += $(kernels_tests)
attention_problem = tests/kernels/problem.c tests/kernels/problem.h
tests_kernels_attention_SOURCES = tests/kernels/attention.c $(attention_problem)
tests_kernels_attention_CFLAGS = $(kernels_cflags)
tests_kernels_attention_LDADD = $(kernels_ldadd)
tests_kernels_attention_parts_SOURCES = tests/kernels/attention_parts.c $(attention_problem)
tests_kernels_attention_parts_CFLAGS = $(kernels_cflags)
tests_kernels_attention_parts_LDADD = $(kernels_ldadd)
tests_kernels_cuda_grid_SOURCES = tests/kernels/cuda_grid.c
tests_kernels_cuda_grid_LDADD = $(CMOCKA_LIBS)
tests_kernels_elements_SOURCES = tests/kernels/elements.c
tests_kernels_elements_CFLAGS = $(kernels_cflags)
tests_kernels_elements_LDADD = $(kernels_ldadd)
tests_kernels_experts_SOURCES = tests/kernels/experts.c
tests_kernels_experts_CFLAGS = $(kernels_cflags)
tests_kernels_experts_LDADD = $(kernels_ldadd)
tests_kernels_fp8_SOURCES = tests/kernels/fp8.c tests/kernels/fp8_formats.h
tests_kernels_fp8_CFLAGS = $(kernels_cflags)
tests_kernels_fp8_LDADD = $(kernels_ldadd)
tests_kernels_fp8_gemm_SOURCES = tests/kernels/fp8_gemm.c tests/kernels/fp8_formats.h
tests_kernels_fp8_gemm_CFLAGS = $(kernels_cflags)
tests_kernels_fp8_gemm_LDADD = $(kernels_ldadd)
tests_kernels_half_SOURCES = tests/kernels/half.c
tests_kernels_half_CFLAGS = $(kernels_cflags)
tests_kernels_half_LDADD = $(kernels_ldadd)
tests_kernels_library_SOURCES = tests/kernels/library.c
tests_kernels_library_LDADD = kernels/libmdsk.a $(CMOCKA_LIBS)
tests_kernels_loss_SOURCES = tests/kernels/loss.c
tests_kernels_loss_CFLAGS = $(kernels_cflags)
tests_kernels_loss_LDADD = $(kernels_ldadd)
tests_kernels_norms_SOURCES = tests/kernels/norms.c
tests_kernels_norms_CFLAGS = $(kernels_cflags)
tests_kernels_norms_LDADD = $(kernels_ldadd)
tests_kernels_products_SOURCES = tests/kernels/products.c
tests_kernels_products_CFLAGS = $(kernels_cflags)
tests_kernels_products_LDADD = $(kernels_ldadd)
tests_kernels_rows_SOURCES = tests/kernels/rows.c
tests_kernels_rows_CFLAGS = $(kernels_cflags)
tests_kernels_rows_LDADD = $(kernels_ldadd)

# make bench/kernels; tests/cli/bench.t runs it
check_PROGRAMS += bench/kernels
bench_kernels_SOURCES = bench/kernels.c bench/kernels.h bench/kernels_cpu.c \
  bench/kernels_cuda.c bench/kernels_ops.c \
  bench/kernels_timing.c bench/kernels_timing.h
bench_kernels_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(CUDA_CFLAGS)
bench_kernels_LDADD = $(kernels_libs) -lm

include kernels/cuda.mk
