dnl SPDX-License-Identifier: BSD-3-Clause
# What --version says this was built with.

# MDS_HEADER_VERSION(CFLAGS, HEADER, EXPRESSION): sets mds_version to what the header's
# macros expand to, without quotes and blanks; empty if they are no number.
AC_DEFUN([MDS_HEADER_VERSION], [
printf '@%:@include <%s>\nmds_version_is %s\n' '$2' '$3' > conftest.c
mds_version=$($CC $CPPFLAGS $1 -E -P conftest.c 2>&AS_MESSAGE_LOG_FD |
  sed -n 's/^mds_version_is//p' | tr -d '" ' |
  sed 's/^@<:@A-Za-z@:>@*//; s/L\././g; s/L$//')
AS_CASE([$mds_version], [[[0-9]]*], [], [mds_version=])
rm -f conftest.c
])

# MDS_FEATURE(NAME, SUMMARY, [WHAT IT IS OF]): a line of --version; WHAT instead of "yes"
AC_DEFUN([MDS_FEATURE], [
AS_CASE([$2], [no*], [mds_text="$2"], [mds_text="m4_default([$3], [$2])"])
mds_features="$mds_features$(printf '  %-14s %s' '$1' "$mds_text")\\n"
])

# Versions are those of the headers: an opened library may be a later one.
AC_DEFUN([MDS_FEATURES], [
mds_features=
AS_CASE([$mds_mpi_name],
  [OpenMPI], [MDS_HEADER_VERSION([], [mpi.h],
    [OMPI_MAJOR_VERSION.OMPI_MINOR_VERSION.OMPI_RELEASE_VERSION])],
  [MDS_HEADER_VERSION([], [mpi.h], [MPICH_VERSION])])
MDS_FEATURE([MPI], [$mds_mpi_name], [$mds_mpi_name $mds_version])
MDS_FEATURE([OpenMP], [$(or_no "$OPENMP_CFLAGS")], [yes])
MDS_FEATURE([SIMD dispatch], [$simd_dispatch])
MDS_HEADER_VERSION([$OPENBLAS_CFLAGS], [openblas_config.h], [OPENBLAS_VERSION])
MDS_FEATURE([OpenBLAS], [$openblas_summary], [${mds_version:-yes}])
MDS_HEADER_VERSION([$HDF5_CFLAGS], [hdf5.h], [H5_VERS_MAJOR.H5_VERS_MINOR.H5_VERS_RELEASE])
MDS_FEATURE([HDF5], [$hdf5_summary], [${mds_version:-yes}])
MDS_HEADER_VERSION([$ZLIB_CFLAGS], [zlib.h], [ZLIB_VERSION])
MDS_FEATURE([zlib], [$zlib_summary], [${mds_version:-yes}])
MDS_HEADER_VERSION([$PMIX_CFLAGS], [pmix_version.h],
  [PMIX_VERSION_MAJOR.PMIX_VERSION_MINOR.PMIX_VERSION_RELEASE])
MDS_FEATURE([PMIx], [$pmix_summary], [${mds_version:-yes}])
MDS_HEADER_VERSION([$HTSLIB_CFLAGS], [htslib/hts.h], [HTS_VERSION])
AS_IF([test -n "$mds_version"],
  [mds_version=$((mds_version / 100000)).$((mds_version / 100 % 1000))])
MDS_FEATURE([htslib], [$htslib_summary], [${mds_version:-yes}])
MDS_HEADER_VERSION([$CUDA_CFLAGS], [cuda_runtime_api.h], [CUDART_VERSION])
AS_IF([test -n "$mds_version"],
  [mds_version=$((mds_version / 1000)).$((mds_version % 1000 / 10))])
MDS_FEATURE([CUDA], [$cuda_summary], [$mds_version for compute capability $CUDA_ARCHS])
MDS_HEADER_VERSION([$CUDA_CFLAGS $CUDNN_CFLAGS], [cudnn.h],
  [CUDNN_MAJOR.CUDNN_MINOR.CUDNN_PATCHLEVEL])
MDS_FEATURE([cuDNN], [$cudnn_summary], [${mds_version:-yes}])
MDS_HEADER_VERSION([$CUDA_CFLAGS $NCCL_CFLAGS], [nccl.h],
  [NCCL_MAJOR.NCCL_MINOR.NCCL_PATCH])
MDS_FEATURE([NCCL], [$nccl_summary], [${mds_version:-yes}])
AC_DEFINE_UNQUOTED([MDS_BUILT_WITH], ["$mds_features"], [lines of --version])
])
