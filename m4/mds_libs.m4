dnl SPDX-License-Identifier: BSD-3-Clause
# The libraries mds stands on.  Each macro sets X_CFLAGS, X_LIBS and x_summary.

# MDS_LINKS(NAME, INCLUDE, CALL, IF-YES, IF-NO): does it build with NAME's flags?  Sets
# mds_needed to the shared libraries that it then needs.
AC_DEFUN([MDS_LINKS], [
mds_saved_cflags=$CFLAGS; mds_saved_libs=$LIBS
CFLAGS="$CFLAGS $$1_CFLAGS"; LIBS="$$1_LIBS $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([$2], [$3])],
  [mds_links=yes
   mds_needed=$($OBJDUMP -p conftest$ac_exeext 2> /dev/null | sed -n 's/^ *NEEDED *//p')],
  [mds_links=no mds_needed=])
CFLAGS=$mds_saved_cflags; LIBS=$mds_saved_libs
AS_IF([test $mds_links = yes], [$4], [$5])
])

# MDS_LIB_BELOW(MACRO, NAME, DIR, HEADER, LIB): sets MACRO_CFLAGS and MACRO_LIBS; ends
# configure if DIR lacks one of the files, as the compiler would take the system's.
AC_DEFUN([MDS_LIB_BELOW], [
mds_include= mds_lib=
for mds_file in "$3/include/$4" "$3"/include/*/"$4"; do
  AS_IF([test -z "$mds_include" && test -r "$mds_file"], [mds_include=${mds_file%/*}])
done
for mds_file in "$3"/lib64/lib$5.* "$3"/lib/lib$5.* "$3"/lib/*-linux-gnu/lib$5.*; do
  AS_IF([test -z "$mds_lib" && test -r "$mds_file"], [mds_lib=${mds_file%/*}])
done
AS_IF([test -z "$mds_include"], [AC_MSG_ERROR([--with-$2=$3: no $4 in $3/include])])
AS_IF([test -z "$mds_lib"], [AC_MSG_ERROR([--with-$2=$3: no lib$5 in $3/lib64 or $3/lib])])
$1_CFLAGS="-I$mds_include" $1_LIBS="-L$mds_lib -Wl,-rpath,$mds_lib -l$5"
])

# MDS_LIB(MACRO, NAME, WHAT, PKG, HEADER, LIB, CALL, [WITHOUT-PKG]): --with-NAME[=DIR],
# --without-NAME; default: if found.  Sets MACRO_CFLAGS and MACRO_LIBS, and NAME_summary:
# "yes", or "no" and why.  WITHOUT-PKG: MACRO_CFLAGS and _LIBS where pkg-config knows none.
AC_DEFUN([MDS_LIB], [
AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2@<:@=DIR@:>@], [$3 below DIR (default: if found)])],
  [], [with_$2=auto])
$2_summary=yes
AS_CASE([$with_$2],
  [no], [$2_summary="no (asked)"],
  [yes|auto], [PKG_CHECK_MODULES([$1], [$4], [:], [m4_default([$8], [$1_LIBS=-l$6])])],
  [MDS_LIB_BELOW([$1], [$2], [$with_$2], [$5], [$6])])
AS_IF([test "$$2_summary" = yes],
  [MDS_LINKS([$1], [[#include <$5>]], [$7], [],
    [$2_summary=no $1_CFLAGS= $1_LIBS=
     AS_CASE([$with_$2], [auto], [],
       [AC_MSG_ERROR([--with-$2=$with_$2: no usable lib$6 and $5; config.log says why])])])])
AC_SUBST([$1_CFLAGS]) AC_SUBST([$1_LIBS])
])

# MDS_SONAME(LIB): sets mds_soname to the name by which what MDS_LINKS has just linked
# needs libLIB; empty if that is no shared library.
AC_DEFUN([MDS_SONAME], [
mds_soname=
for mds_word in $mds_needed; do
  AS_CASE([$mds_word], [lib$1*], [mds_soname=$mds_word])
done
])

AC_DEFUN([MDS_LIBYAML], [
MDS_LIB([YAML], [libyaml], [libyaml], [yaml-0.1], [yaml.h], [yaml],
  [[yaml_parser_t p; return yaml_parser_initialize(&p);]])
AS_IF([test "$libyaml_summary" != yes],
  [AC_MSG_ERROR([libyaml not found, and needed. Debian/Ubuntu: apt-get install libyaml-dev;
  elsewhere: --with-libyaml=DIR])])
])

# Serial HDF5 is enough.
AC_DEFUN([MDS_HDF5], [
AS_IF([$PKG_CONFIG --exists hdf5-serial 2>/dev/null], [mds_pc=hdf5-serial], [mds_pc=hdf5])
MDS_LIB([HDF5], [hdf5], [HDF5], [$mds_pc], [hdf5.h], [hdf5], [[return H5open();]],
  [AS_IF([test -d /usr/include/hdf5/serial],
    [HDF5_CFLAGS=-I/usr/include/hdf5/serial HDF5_LIBS=-lhdf5_serial], [HDF5_LIBS=-lhdf5])])
AS_IF([test "$hdf5_summary" != yes],
  [AC_MSG_ERROR([HDF5 not found, and needed. Debian/Ubuntu: apt-get install libhdf5-dev;
  a cluster: module load hdf5; elsewhere: --with-hdf5=DIR])])
])

# It is opened when products are first needed (kernels/library.h), not linked: only the
# folders to look in stay in OPENBLAS_LIBS.
AC_DEFUN([MDS_OPENBLAS_AT_NEED], [
AC_DEFINE_UNQUOTED([MDS_OPENBLAS_FILE], ["$mds_soname"],
  [the OpenBLAS to open; undefined: it is linked])
mds_words=$OPENBLAS_LIBS OPENBLAS_LIBS=
for mds_word in $mds_words; do
  AS_CASE([$mds_word], [-l*], [], [OPENBLAS_LIBS="${OPENBLAS_LIBS:+$OPENBLAS_LIBS }$mds_word"])
done
])

# Optional: without it the cpu backend uses its own, slower product.
AC_DEFUN([MDS_OPENBLAS], [
MDS_LIB([OPENBLAS], [openblas], [OpenBLAS for the cpu backend's products,], [openblas],
  [cblas.h], [openblas], [[openblas_set_num_threads(1); cblas_sscal(0, 1.0f, 0, 1);]])
AS_IF([test "$openblas_summary" = yes],
  [blas_summary=OpenBLAS
   AC_DEFINE([HAVE_OPENBLAS], [1], [OpenBLAS's cblas is there])
   MDS_SONAME([openblas])
   AS_IF([test -n "$mds_soname"], [MDS_OPENBLAS_AT_NEED])],
  [blas_summary="built-in (slower; OpenBLAS would be faster)"])
])

AC_DEFUN([MDS_ZLIB], [
ZLIB_CFLAGS= ZLIB_LIBS=-lz zlib_summary=yes
MDS_LINKS([ZLIB], [[#include <zlib.h>]], [[return gzopen("x", "r") == 0;]], [],
  [AC_MSG_ERROR([zlib not found, and needed. Debian/Ubuntu: apt-get install zlib1g-dev])])
AC_SUBST([ZLIB_CFLAGS]) AC_SUBST([ZLIB_LIBS])
])

# Optional: without it variants are refused.
AC_DEFUN([MDS_HTSLIB], [
MDS_LIB([HTSLIB], [htslib], [htslib], [htslib >= 1.10], [htslib/vcf.h], [hts],
  [[return bcf_init() == 0;]])
AS_IF([test "$htslib_summary" = yes],
  [AC_DEFINE([HAVE_HTSLIB], [1], [htslib is there])])
])
