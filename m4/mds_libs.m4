# The libraries mds stands on.  Each macro sets X_CFLAGS, X_LIBS and x_summary.

# MDS_LIB_PREFIX(NAME, WITH-VALUE): flags for a library installed below a prefix
AC_DEFUN([MDS_LIB_PREFIX], [
$1_CFLAGS="-I$2/include"
AS_IF([test -d "$2/lib64"], [$1_LIBS="-L$2/lib64 -Wl,-rpath,$2/lib64"],
      [$1_LIBS="-L$2/lib -Wl,-rpath,$2/lib"])
])

# MDS_LINKS(NAME, INCLUDE, CALL, IF-YES, IF-NO): does it build with NAME's flags?
AC_DEFUN([MDS_LINKS], [
mds_saved_cflags=$CFLAGS; mds_saved_libs=$LIBS
CFLAGS="$CFLAGS $$1_CFLAGS"; LIBS="$$1_LIBS $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([$2], [$3])], [mds_links=yes], [mds_links=no])
CFLAGS=$mds_saved_cflags; LIBS=$mds_saved_libs
AS_IF([test $mds_links = yes], [$4], [$5])
])

AC_DEFUN([MDS_LIBYAML], [
AC_ARG_WITH([libyaml], [AS_HELP_STRING([--with-libyaml=DIR], [libyaml below DIR])],
  [], [with_libyaml=yes])
AS_CASE([$with_libyaml],
  [yes], [PKG_CHECK_MODULES([YAML], [yaml-0.1], [:], [YAML_LIBS=-lyaml])],
  [MDS_LIB_PREFIX([YAML], [$with_libyaml])
   YAML_LIBS="$YAML_LIBS -lyaml"])
AS_IF([test "x$with_libyaml" = xyes], [mds_below=], [mds_below=" below $with_libyaml"])
MDS_LINKS([YAML], [[#include <yaml.h>]], [[yaml_parser_t p; return yaml_parser_initialize(&p);]],
  [yaml_summary=yes],
  [AC_MSG_ERROR([libyaml not found$mds_below. Debian/Ubuntu: apt-get install libyaml-dev;
  elsewhere: --with-libyaml=DIR])])
AC_SUBST([YAML_CFLAGS]) AC_SUBST([YAML_LIBS])
])

# Serial HDF5 is enough: pkg-config, then what h5cc says, then plain -lhdf5.
AC_DEFUN([MDS_HDF5], [
AC_ARG_WITH([hdf5], [AS_HELP_STRING([--with-hdf5=DIR], [HDF5 below DIR])],
  [], [with_hdf5=yes])
AS_CASE([$with_hdf5],
  [yes], [mds_h5=
    for mds_pc in hdf5-serial hdf5; do
      AS_IF([test -z "$mds_h5" && $PKG_CONFIG --exists $mds_pc 2>/dev/null],
        [mds_h5=$mds_pc
         HDF5_CFLAGS=$($PKG_CONFIG --cflags $mds_pc)
         HDF5_LIBS=$($PKG_CONFIG --libs $mds_pc)])
    done
    AS_IF([test -z "$mds_h5" && test -d /usr/include/hdf5/serial],
      [HDF5_CFLAGS=-I/usr/include/hdf5/serial; HDF5_LIBS=-lhdf5_serial; mds_h5=serial])
    AS_IF([test -z "$mds_h5"], [HDF5_LIBS=-lhdf5])],
  [MDS_LIB_PREFIX([HDF5], [$with_hdf5])
   HDF5_LIBS="$HDF5_LIBS -lhdf5"])
AS_IF([test "x$with_hdf5" = xyes], [mds_below=], [mds_below=" below $with_hdf5"])
MDS_LINKS([HDF5], [[#include <hdf5.h>]], [[return H5open();]],
  [hdf5_summary=yes],
  [AC_MSG_ERROR([HDF5 not found$mds_below. Debian/Ubuntu: apt-get install libhdf5-dev;
  a cluster: module load hdf5; elsewhere: --with-hdf5=DIR])])
AC_SUBST([HDF5_CFLAGS]) AC_SUBST([HDF5_LIBS])
])

# Optional: without it the cpu backend uses its own, slower product.
AC_DEFUN([MDS_OPENBLAS], [
AC_ARG_WITH([openblas],
  [AS_HELP_STRING([--with-openblas@<:@=DIR@:>@],
    [OpenBLAS for the cpu backend's products (default: if found)])],
  [], [with_openblas=auto])
blas_summary="built-in (slower; OpenBLAS would be faster)"
AS_IF([test "x$with_openblas" != xno], [
  AS_CASE([$with_openblas],
    [yes|auto], [PKG_CHECK_MODULES([OPENBLAS], [openblas], [:], [OPENBLAS_LIBS=-lopenblas])],
    [MDS_LIB_PREFIX([OPENBLAS], [$with_openblas])
   OPENBLAS_LIBS="$OPENBLAS_LIBS -lopenblas"])
  MDS_LINKS([OPENBLAS], [[#include <cblas.h>]],
    [[openblas_set_num_threads(1); cblas_sscal(0, 1.0f, 0, 1);]],
    [blas_summary=OpenBLAS
     AC_DEFINE([HAVE_OPENBLAS], [1], [OpenBLAS's cblas is there])],
    [OPENBLAS_CFLAGS=; OPENBLAS_LIBS=
     AS_IF([test "x$with_openblas" != xauto],
       [AC_MSG_ERROR([--with-openblas: no OpenBLAS found. Debian/Ubuntu: apt-get install
  libopenblas-openmp-dev])])])])
AC_SUBST([OPENBLAS_CFLAGS]) AC_SUBST([OPENBLAS_LIBS])
])

# Optional: without it .gz input is refused.
AC_DEFUN([MDS_ZLIB], [
ZLIB_CFLAGS= ZLIB_LIBS=-lz zlib_summary=yes
MDS_LINKS([ZLIB], [[#include <zlib.h>]], [[return gzopen("x", "r") == 0;]],
  [AC_DEFINE([HAVE_ZLIB], [1], [zlib is there])],
  [ZLIB_LIBS=; zlib_summary="no (.gz input will be refused)"])
AC_SUBST([ZLIB_CFLAGS]) AC_SUBST([ZLIB_LIBS])
])
