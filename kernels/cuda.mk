# SPDX-License-Identifier: BSD-3-Clause
# The cuda backend, where configure found nvcc.
#
# kernels_cuda_libs is what a program links that has the device room: empty without CUDA.
kernels_cuda_c = \
  kernels/cuda/attention.c kernels/cuda/attention.h \
  kernels/cuda/common.c kernels/cuda/cublaslt.h kernels/cuda/cuda.h kernels/cuda/grid.h \
  kernels/cuda/fp8.c \
  kernels/cuda/libraries.c \
  kernels/cuda/linear.c kernels/cuda/linear.h \
  kernels/cuda/muon_product.c \
  kernels/cuda/unfused.c kernels/cuda/unfused.h \
  kernels/cuda/gemm_plan.c kernels/cuda/gemm.c kernels/cuda/gemm.h kernels/cuda/autotune.c \
  kernels/cuda/hopper/attention.h \
  kernels/cuda/hopper/backward.h \
  kernels/cuda/hopper/experts.h \
  kernels/cuda/table.c
kernels_cudnn_c = \
  kernels/cuda/cudnn_attention.c kernels/cuda/cudnn_attention.h \
  kernels/cuda/cudnn_calls.h \
  kernels/cuda/cudnn_documents.c \
  kernels/cuda/cudnn_graph.c kernels/cuda/cudnn_graph.h \
  kernels/cuda/cudnn_plan.c kernels/cuda/cudnn_plan.h \
  kernels/cuda/cudnn_window.c
kernels_hopper_c = \
  kernels/cuda/hopper/attention.c \
  kernels/cuda/hopper/backward.c \
  kernels/cuda/hopper/dropout.h \
  kernels/cuda/hopper/forward.h \
  kernels/cuda/hopper/tensor_map.c kernels/cuda/hopper/tensor_map.h
kernels_hopper_cu = \
  kernels/cuda/hopper/backward_bf16.cu \
  kernels/cuda/hopper/backward_f16.cu \
  kernels/cuda/hopper/experts.cu \
  kernels/cuda/hopper/forward_bf16.cu \
  kernels/cuda/hopper/forward_f16.cu
kernels_cuda_cu = \
  kernels/cuda/activation.cu \
  kernels/cuda/attention_bwd.cu \
  kernels/cuda/attention_cached.cu \
  kernels/cuda/attention_fwd.cu \
  kernels/cuda/attention_merge.cu \
  kernels/cuda/attention_window.cu \
  kernels/cuda/elementwise.cu \
  kernels/cuda/embedding.cu \
  kernels/cuda/experts.cu \
  kernels/cuda/next_token.cu \
  kernels/cuda/one_row.cu \
  kernels/cuda/fp8_cast.cu \
  kernels/cuda/linear_bias.cu \
  kernels/cuda/loss.cu \
  kernels/cuda/norm_bwd.cu \
  kernels/cuda/norm_fwd.cu \
  kernels/cuda/optimizer.cu \
  kernels/cuda/route.cu \
  kernels/cuda/unfused_rows.cu \
  kernels/cuda/rope.cu
EXTRA_DIST += $(kernels_cuda_c) $(kernels_cudnn_c) $(kernels_cuda_cu) \
  $(kernels_hopper_c) $(kernels_hopper_cu) kernels/cuda/hopper/dropout.cuh \
  kernels/cuda/hopper/forward.cuh kernels/cuda/hopper/forward_copies.cuh \
  kernels/cuda/hopper/forward_widths.cuh kernels/cuda/hopper/ptx.cuh \
  kernels/cuda/hopper/backward.cuh kernels/cuda/hopper/backward_copies.cuh \
  kernels/cuda/hopper/backward_kernel.cuh kernels/cuda/hopper/backward_wide.cuh \
  kernels/cuda/activation.cuh kernels/cuda/amax.cuh kernels/cuda/attention_tile.cuh kernels/cuda/early.cuh kernels/cuda/launch.cuh kernels/cuda/norm.cuh \
  kernels/cuda/partial_sums.cuh kernels/cuda/storage.cuh

if HAVE_CUDA
noinst_LIBRARIES += kernels/libmdsk_cuda.a
kernels_libmdsk_cuda_a_SOURCES = $(kernels_cuda_c)
if HAVE_CUDNN
kernels_libmdsk_cuda_a_SOURCES += $(kernels_cudnn_c)
endif
kernels_libmdsk_cuda_a_CFLAGS = $(AM_CFLAGS) $(CUDA_CFLAGS) $(CUDNN_CFLAGS)
if HAVE_HOPPER
kernels_libmdsk_cuda_a_SOURCES += $(kernels_hopper_c)
kernels_cuda_objects = $(kernels_cuda_cu:.cu=.o) $(kernels_hopper_cu:.cu=.o)
else
kernels_cuda_objects = $(kernels_cuda_cu:.cu=.o)
endif
kernels_libmdsk_cuda_a_LIBADD = $(kernels_cuda_objects)
kernels_libmdsk_cuda_a_DEPENDENCIES = $(kernels_libmdsk_cuda_a_LIBADD)
kernels_cuda_libs = kernels/libmdsk_cuda.a kernels/libmdsk.a $(CUDNN_LIBS) $(CUBLASLT_LIBS) \
  $(NCCL_LIBS) $(CUDA_LIBS)
CLEANFILES += $(kernels_cuda_objects) $(kernels_cuda_objects:.o=.d)

-include $(kernels_cuda_objects:.o=.d)

# The kernel tests on a GPU, and how fast it is: tests/gpu/run.
tests_kernels_libcheck_a_SOURCES += tests/kernels/staged.c
check_PROGRAMS += tests/gpu/race
if HAVE_CMOCKA
check_PROGRAMS += tests/gpu/wide tests/gpu/attention tests/gpu/candidates
endif
endif

# For bench/attention.py: "make bench/libattention.so".
bench_libattention_sources = bench/attention_library.c $(kernels_hopper_cu) \
  $(filter %.c,$(kernels_hopper_c)) kernels/cuda/common.c kernels/cost/attention.c \
  kernels/cuda/attention_fwd.cu kernels/cuda/attention_bwd.cu kernels/cuda/attention_merge.cu \
  kernels/unfused/attention.c
bench/libattention.so: $(bench_libattention_sources) kernels/libmdsk_cuda.a
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && cd $(srcdir) && \
	$(NVCC) $(NVCC_HOPPER) -O3 -shared -Xcompiler -fPIC -I$(abs_top_builddir) \
	  $(DEFS) -I. $(CPPFLAGS) $(NVCCFLAGS) -o $(abs_top_builddir)/$@ $(bench_libattention_sources)
CLEANFILES += bench/libattention.so

# What the cuda backend decides on the host, without a GPU: what it calls is replaced.
if HAVE_CUDA
unit_tests += tests/kernels/cublas_calls
if HAVE_CUDNN
unit_tests += tests/kernels/cudnn_calls
endif
if HAVE_HOPPER
unit_tests += tests/kernels/hopper_calls tests/kernels/hopper_bwd_calls
endif
endif
tests_kernels_cublas_calls_SOURCES = tests/kernels/cublas_calls.c \
  tests/kernels/fake_cublas.c tests/kernels/fake_cublas.h \
  kernels/cuda/fp8.c kernels/cuda/linear.c kernels/cuda/muon_product.c kernels/cuda/unfused.c \
  kernels/cuda/gemm_plan.c kernels/cuda/gemm.c kernels/cuda/autotune.c
tests_kernels_cublas_calls_CFLAGS = $(kernels_cflags) $(CUDA_CFLAGS)
tests_kernels_cublas_calls_LDADD = kernels/libmdsk.a $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) \
  $(CMOCKA_LIBS) -lm
tests_kernels_cudnn_calls_SOURCES = tests/kernels/cudnn_calls.c \
  tests/kernels/fake_cudnn.c tests/kernels/fake_cudnn.h \
  kernels/cuda/cudnn_attention.c kernels/cuda/cudnn_documents.c \
  kernels/cuda/cudnn_window.c
tests_kernels_cudnn_calls_CFLAGS = $(kernels_cflags) $(CUDA_CFLAGS) $(CUDNN_CFLAGS)
tests_kernels_cudnn_calls_LDADD = kernels/libmdsk.a $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) \
  $(CMOCKA_LIBS) -lm
tests_kernels_hopper_calls_SOURCES = tests/kernels/hopper_calls.c \
  kernels/cuda/hopper/attention.c kernels/cuda/hopper/tensor_map.c
tests_kernels_hopper_calls_CFLAGS = $(kernels_cflags) $(CUDA_CFLAGS)
tests_kernels_hopper_calls_LDADD = kernels/libmdsk.a $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) \
  $(CMOCKA_LIBS) -lm
tests_kernels_hopper_bwd_calls_SOURCES = tests/kernels/hopper_bwd_calls.c \
  kernels/cuda/hopper/backward.c
tests_kernels_hopper_bwd_calls_CFLAGS = $(kernels_cflags) $(CUDA_CFLAGS)
tests_kernels_hopper_bwd_calls_LDADD = kernels/libmdsk.a $(OPENBLAS_LIBS) $(OPENMP_CFLAGS) \
  $(CMOCKA_LIBS) -lm
tests_gpu_race_SOURCES =
tests_gpu_race_LDADD = tests/gpu/race.o $(CUDA_LIBS)
CLEANFILES += tests/gpu/race.o tests/gpu/race.d
tests_gpu_wide_SOURCES = tests/gpu/wide.c
tests_gpu_wide_CFLAGS = $(kernels_cflags) $(CUDA_CFLAGS)
tests_gpu_wide_LDADD = $(kernels_ldadd)
tests_gpu_attention_SOURCES = tests/gpu/attention.c
tests_gpu_attention_CFLAGS = $(kernels_cflags) $(CUDA_CFLAGS)
tests_gpu_attention_LDADD = $(kernels_cuda_libs) $(CMOCKA_LIBS) -lm
tests_gpu_candidates_SOURCES = tests/gpu/candidates.c
tests_gpu_candidates_CFLAGS = $(kernels_cflags) $(CUDA_CFLAGS)
tests_gpu_candidates_LDADD = $(kernels_ldadd)
dist_check_SCRIPTS += tests/gpu/run tests/gpu/resume tests/gpu/repeat
EXTRA_DIST += tests/gpu/build.sh tests/kernels/staged.c tests/gpu/attention.c \
  tests/gpu/candidates.c tests/gpu/race.cu \
  tests/gpu/wide.c

AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =

SUFFIXES = .cu
.cu.o:
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && \
	case $@ in */hopper/*) gpus='$(NVCC_HOPPER)' ;; *) gpus='$(NVCC_GENCODE)' ;; esac && \
	$(NVCC) $$gpus $(NVCC_WARN_FLAGS) -std=c++17 -O3 -lineinfo $(DEFS) \
	  $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(NVCCFLAGS) \
	  -MD -MP -MT $@ -MF $(@:.o=.d) -c $< -o $@
