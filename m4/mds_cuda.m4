dnl SPDX-License-Identifier: BSD-3-Clause
# The CUDA toolkit, and the libraries that the cuda backend and its communication use.

# MDS_CUDA_LIB(LIBRARY, HEADER, CALL, PLACES): looks for it below each place.  Python
# packages bring no plain lib*.so, so a numbered one will do; conda has the toolkit's
# parts in targets/ALONE.  Sets mds_found_cflags, mds_found_libs; mds_found_file and
# mds_found_folder to what is opened and the flags to find it, where it is not linked
# (kernels/library.h); and mds_found_at to where it is, empty if nowhere.
AC_DEFUN([MDS_CUDA_LIB], [
mds_found_at=
for mds_dir in $4; do
  for mds_file in "$mds_dir"/lib64/lib$1.so* "$mds_dir"/lib/lib$1.so* \
                  "$mds_dir"/lib/*-linux-gnu/lib$1.so* "$mds_dir"/targets/*/lib/lib$1.so*; do
    AS_CASE([$mds_dir:$mds_file],
      [*/targets/*], [mds_include="-isystem ${mds_file%/lib/*}/include"],
      [/usr:*|/usr/local:*], [mds_include=],
      [mds_include="-isystem $mds_dir/include"])
    AS_IF([test -z "$mds_found_at" && test -r "$mds_file"],
      [mds_try_CFLAGS="$CUDA_CFLAGS $mds_include"
       mds_try_LIBS="-L${mds_file%/*} -Wl,-rpath,${mds_file%/*} -l:${mds_file##*/}"
       MDS_LINKS([mds_try], [[#include <$2>]], [[$3]],
         [mds_found_at=$mds_dir
          mds_found_cflags=$mds_include
          mds_found_libs=$mds_try_LIBS
          mds_found_folder="-Wl,-rpath,${mds_file%/*}"
          MDS_SONAME([$1])
          mds_found_file=${mds_soname:-${mds_file##*/}}], [:])])
  done
done
AC_MSG_CHECKING([for lib$1])
AC_MSG_RESULT([${mds_found_at:-no}])
])

# MDS_CUDA_OPTIONAL(NAME, MACRO, HEADER, CALL, WITHOUT-IT): --with-NAME=DIR.  Sets
# MACRO_CFLAGS, MACRO_LIBS, NAME_summary.
AC_DEFUN([MDS_CUDA_OPTIONAL], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1=DIR], [lib$1 below DIR (default: if found)])],
  [], [with_$1=auto])
$2_CFLAGS= $2_LIBS= $1_summary="no ($5)"
AS_IF([test -z "$NVCC"], [$1_summary="no (it is for CUDA)"],
      [test "x$with_$1" = xno], [$1_summary="no (asked): $5"], [
  AS_CASE([$with_$1], [yes|auto], [mds_dirs=$CUDA_PLACES],
                      [mds_dirs=$with_$1])
  MDS_CUDA_LIB([$1], [$3], [$4], [$mds_dirs])
  AS_IF([test -n "$mds_found_at"],
    [$2_CFLAGS=$mds_found_cflags $2_LIBS=$mds_found_folder $1_summary=$mds_found_at
     AC_DEFINE([HAVE_$2], [1], [$1 is there])
     AC_DEFINE_UNQUOTED([MDS_$2_FILE], ["$mds_found_file"], [the $1 to open])],
    [test "x$with_$1" != xauto],
    [AC_MSG_ERROR([--with-$1=$with_$1: no usable lib$1 and $3 there; config.log says why])])])
AC_SUBST([$2_CFLAGS]) AC_SUBST([$2_LIBS])
AM_CONDITIONAL([HAVE_$2], [test -n "$$2_LIBS"])
])

# MDS_CUDA_ARCHS: those of sm_70, sm_80 and sm_90 that this nvcc knows, and PTX of the
# highest, which later GPUs compile for themselves.
AC_DEFUN([MDS_CUDA_ARCHS], [
AC_ARG_VAR([CUDA_ARCHS], [compute capabilities to build for, as in "80 90"])
AC_MSG_CHECKING([which GPUs to build for])
mds_known=$("$NVCC" --list-gpu-arch 2> /dev/null | tr '\n' ' ')
AS_IF([test -z "$CUDA_ARCHS"],
  [for mds_arch in 70 80 90; do
     AS_CASE([" $mds_known"], [*" compute_$mds_arch "*],
       [CUDA_ARCHS="${CUDA_ARCHS:+$CUDA_ARCHS }$mds_arch"])
   done])
NVCC_GENCODE=
for mds_arch in ${CUDA_ARCHS:-80}; do
  NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$mds_arch,code=sm_$mds_arch"
done
NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$mds_arch,code=compute_$mds_arch"
AC_SUBST([NVCC_GENCODE])
AC_MSG_RESULT([${CUDA_ARCHS:-80}])
])

# MDS_CUDA_HOPPER: whether nvcc builds for sm_90a, which has Hopper's own instructions
# (CUDA 12).  Sets NVCC_HOPPER, and the macro HAVE_HOPPER.
AC_DEFUN([MDS_CUDA_HOPPER], [
NVCC_HOPPER="-gencode arch=compute_90a,code=sm_90a"
mds_hopper=no
AC_MSG_CHECKING([whether $NVCC builds Hopper's own kernels])
AS_CASE([" $CUDA_ARCHS "], [*" 90 "*], [
cat > conftest.cu << 'EOF'
#include <cuda.h>
@%:@if CUDA_VERSION < 12000
@%:@error
@%:@endif
__global__ void f(CUtensorMap *) { asm volatile("wgmma.fence.sync.aligned;"); }
EOF
AS_IF([$NVCC $NVCCFLAGS $NVCC_HOPPER -std=c++17 -c conftest.cu -o conftest.o \
         >&AS_MESSAGE_LOG_FD 2>&1],
  [mds_hopper=yes
   AC_DEFINE([HAVE_HOPPER], [1], [kernels with Hopper's own instructions are built])])
rm -f conftest.cu conftest.o])
AC_SUBST([NVCC_HOPPER])
AC_MSG_RESULT([$mds_hopper])
])

# MDS_NVCC_WORKS(IF-NOT): not every host compiler will do for it.
AC_DEFUN([MDS_NVCC_WORKS], [
AC_ARG_VAR([NVCCFLAGS], [flags for nvcc, as in "-ccbin g++-12"])
AC_MSG_CHECKING([whether $NVCC compiles])
echo '__global__ void f(int *x) { *x = 1; } void g(int *x) { f<<<1, 1>>>(x); }' > conftest.cu
AS_IF([$NVCC $NVCCFLAGS $NVCC_GENCODE -std=c++17 -c conftest.cu -o conftest.o \
         >&AS_MESSAGE_LOG_FD 2>&1],
  [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])
   $1])
rm -f conftest.cu conftest.o
])

# MDS_CUDA_PLACES: where parts of the toolkit are.  NVIDIA's HPC SDK, which the modules of
# many sites load, has them in folders beside SDK/cuda or SDK/cuda/12.5, and an nvcc in
# SDK/compilers that starts the one there.
AC_DEFUN([MDS_CUDA_PLACES], [
AS_CASE([$CUDA_DIR], [*/compilers], [AS_IF([test -d "${CUDA_DIR%/*}/cuda/include"],
  [CUDA_DIR=${CUDA_DIR%/*}/cuda])])
CUDA_PLACES=$CUDA_DIR
AS_CASE([$CUDA_DIR], [*/cuda], [mds_sdk=${CUDA_DIR%/*} mds_version=],
  [mds_sdk=${CUDA_DIR%/cuda/*} mds_version=/$(basename "$CUDA_DIR")])
for mds_dir in "$mds_sdk/math_libs$mds_version" "$mds_sdk/comm_libs$mds_version/nccl" \
               "$mds_sdk/math_libs" "$mds_sdk/comm_libs/nccl"; do
  AS_IF([test -d "$mds_dir"], [CUDA_PLACES="$CUDA_PLACES $mds_dir"])
done
CUDA_PLACES="$CUDA_PLACES /usr/local /usr"
])

# MDS_CUDA_FIND: the toolkit below CUDA_DIR.  mds_cuda_why says what it lacks.
AC_DEFUN([MDS_CUDA_FIND], [
mds_cuda_why=
MDS_CUDA_PLACES
MDS_CUDA_ARCHS
MDS_NVCC_WORKS([mds_cuda_why="$NVCC does not compile; config.log says why"])
MDS_CUDA_LIB([cudart], [cuda_runtime_api.h],
  [int n = 0; return cudaGetDeviceCount(&n) == cudaSuccess;], [$CUDA_DIR])
AS_IF([test -n "$mds_found_at"],
  [CUDA_CFLAGS=$mds_found_cflags CUDA_LIBS="$mds_found_libs -lstdc++"],
  [mds_cuda_why="no usable libcudart below $CUDA_DIR"])
MDS_CUDA_LIB([cublasLt], [cublasLt.h],
  [cublasLtHandle_t h; return cublasLtCreate(&h) == CUBLAS_STATUS_SUCCESS;],
  [$CUDA_PLACES])
AS_IF([test -n "$mds_found_at"],
  [CUBLASLT_LIBS=$mds_found_folder
   AC_DEFINE_UNQUOTED([MDS_CUBLASLT_FILE], ["$mds_found_file"], [the cuBLASLt to open])
   AS_CASE([$CUDA_CFLAGS], [$mds_found_cflags], [],
     [CUDA_CFLAGS="$CUDA_CFLAGS $mds_found_cflags"])],
  [mds_cuda_why="no usable libcublasLt below $CUDA_DIR"])
])

# --with-cuda[=DIR] | --without-cuda.  Default: use it if nvcc is found.
AC_DEFUN([MDS_CUDA], [
AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@], [CUDA toolkit below DIR (default: if found)])],
  [], [with_cuda=auto])
CUDA_CFLAGS= CUDA_LIBS= CUBLASLT_LIBS= NVCC=
mds_cuda_why="no nvcc on PATH or in /usr/local/cuda"
AS_CASE([$with_cuda],
  [no], [mds_cuda_why=asked],
  [yes|auto], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])
    CUDA_DIR=${NVCC%/bin/nvcc}],
  [CUDA_DIR=$with_cuda NVCC=$with_cuda/bin/nvcc
   AS_IF([test ! -x "$NVCC"], [NVCC=; mds_cuda_why="no $with_cuda/bin/nvcc"])])
AS_IF([test -n "$NVCC"], [MDS_CUDA_FIND])
AS_IF([test -z "$mds_cuda_why"],
  [MDS_CUDA_HOPPER
   cuda_summary="$CUDA_DIR, for compute capability $CUDA_ARCHS"
   AC_DEFINE([HAVE_CUDA], [1], [the cuda backend is built])],
  [NVCC= CUDA_CFLAGS= CUDA_LIBS= CUBLASLT_LIBS= cuda_summary="no ($mds_cuda_why)"
   AS_CASE([$with_cuda], [auto|no], [],
     [AC_MSG_ERROR([--with-cuda=$with_cuda: $mds_cuda_why])])])
NVCC_WARN_FLAGS="-Xcompiler -Wall,-Wextra,-Wconversion,-Wno-sign-conversion"
NVCC_WARN_FLAGS="$NVCC_WARN_FLAGS -Wno-deprecated-gpu-targets"
AS_VAR_IF([enable_werror], [yes], [NVCC_WARN_FLAGS="$NVCC_WARN_FLAGS -Werror all-warnings"])
AC_SUBST([NVCC]) AC_SUBST([NVCC_WARN_FLAGS]) AC_SUBST([CUDA_CFLAGS]) AC_SUBST([CUDA_LIBS]) AC_SUBST([CUBLASLT_LIBS])
AM_CONDITIONAL([HAVE_CUDA], [test -n "$NVCC"])
# Names for timelines; of headers only, also without CUDA where CPPFLAGS finds them.
mds_saved=$CPPFLAGS; CPPFLAGS="$CPPFLAGS $CUDA_CFLAGS"
AC_CHECK_HEADERS([nvtx3/nvToolsExt.h])
CPPFLAGS=$mds_saved
AM_CONDITIONAL([HAVE_HOPPER], [test -n "$NVCC" && test "x$mds_hopper" = xyes])
MDS_CUDA_OPTIONAL([cudnn], [CUDNN], [cudnn.h], [return (int)cudnnGetVersion();],
  [attention by own kernels])
MDS_CUDA_OPTIONAL([nccl], [NCCL], [nccl.h], [int v; return (int)ncclGetVersion(&v);],
  [one GPU a job])
])
