dnl SPDX-License-Identifier: BSD-3-Clause
# What mds_launch stands on, and what its module file says.

# Optional: without it, nodes and ranks come from launchers' variables.
AC_DEFUN([MDS_PMIX], [
MDS_LIB([PMIX], [pmix], [PMIx], [pmix], [pmix.h], [pmix],
  [[pmix_proc_t p; return PMIx_Init(&p, NULL, 0) + PMIx_Finalize(NULL, 0);]])
AS_IF([test "$pmix_summary" = yes], [AC_DEFINE([HAVE_PMIX], [1], [libpmix is there])])
])

# Words for the module file.
AC_DEFUN([MDS_MODULE], [
AC_ARG_VAR([MODULE_PREREQ], [modules that mds needs to be loaded, for its module file])
AC_ARG_VAR([MODULE_CONFLICT], [modules that mds does not go with, for its module file])
])
