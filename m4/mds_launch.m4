# What mds_launch stands on, and what its module file says.

# Optional: without it, nodes and ranks come from launchers' variables.
AC_DEFUN([MDS_PMIX], [
AC_ARG_WITH([pmix], [AS_HELP_STRING([--with-pmix=DIR], [PMIx below DIR, or no])],
  [], [with_pmix=yes])
pmix_summary=no
AS_CASE([$with_pmix],
  [no], [],
  [yes], [PKG_CHECK_MODULES([PMIX], [pmix], [pmix_summary=yes], [:])],
  [MDS_LIB_PREFIX([PMIX], [$with_pmix])
   PMIX_LIBS="$PMIX_LIBS -lpmix" pmix_summary=yes])
AS_IF([test $pmix_summary = yes],
  [MDS_LINKS([PMIX], [[#include <pmix.h>]],
    [[pmix_proc_t p; return PMIx_Init(&p, NULL, 0) + PMIx_Finalize(NULL, 0);]],
    [AC_DEFINE([HAVE_PMIX], [1], [libpmix is there])],
    [AS_IF([test "$with_pmix" != yes], [AC_MSG_ERROR([no PMIx below $with_pmix])])
     pmix_summary="no (does not link)" PMIX_CFLAGS= PMIX_LIBS=])])
AC_SUBST([PMIX_CFLAGS]) AC_SUBST([PMIX_LIBS])
])

# Optional: without it, profiles' launcher.gpu_binding is not used.
AC_DEFUN([MDS_HWLOC], [
AC_ARG_WITH([hwloc], [AS_HELP_STRING([--with-hwloc=DIR], [hwloc below DIR, or no])],
  [], [with_hwloc=yes])
hwloc_summary=no
AS_CASE([$with_hwloc],
  [no], [],
  [yes], [PKG_CHECK_MODULES([HWLOC], [hwloc >= 2.0], [hwloc_summary=yes], [:])],
  [MDS_LIB_PREFIX([HWLOC], [$with_hwloc])
   HWLOC_LIBS="$HWLOC_LIBS -lhwloc" hwloc_summary=yes])
AS_IF([test $hwloc_summary = yes],
  [MDS_LINKS([HWLOC], [[#include <hwloc.h>]],
    [[hwloc_topology_t t; return hwloc_topology_init(&t) + HWLOC_TYPE_FILTER_KEEP_IMPORTANT;]],
    [AC_DEFINE([HAVE_HWLOC], [1], [libhwloc is there])],
    [AS_IF([test "$with_hwloc" != yes], [AC_MSG_ERROR([no hwloc 2 below $with_hwloc])])
     hwloc_summary="no (does not link)" HWLOC_CFLAGS= HWLOC_LIBS=])])
AC_SUBST([HWLOC_CFLAGS]) AC_SUBST([HWLOC_LIBS])
])

# Words for the module file.
AC_DEFUN([MDS_MODULE], [
AC_ARG_VAR([MODULE_PREREQ], [modules that mds needs to be loaded, for its module file])
AC_ARG_VAR([MODULE_CONFLICT], [modules that mds does not go with, for its module file])
])
