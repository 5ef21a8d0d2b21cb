dnl SPDX-License-Identifier: BSD-3-Clause
# MDS_MPI: before AC_PROG_CC.  Finds the MPI compiler wrapper and makes it CC, for every
# file: whoever has a working MPI has a working wrapper, Cray's cc included.
#
#   --with-mpi=mpich | openmpi   Debian's suffixed names (mpicc.mpich, mpiexec.mpich)
#   --with-mpi=DIR               DIR/bin/mpicc, DIR/bin/mpiexec
#   --with-mpi=WRAPPER           a wrapper by name or path
AC_DEFUN([MDS_MPI], [
AC_ARG_WITH([mpi],
  [AS_HELP_STRING([--with-mpi=WHICH],
    [mpich, openmpi, a prefix, or a compiler wrapper (default: the first mpicc found)])],
  [], [with_mpi=yes])
AC_ARG_VAR([MPIEXEC], [command that starts MPI programs (default: beside the wrapper)])
mds_mpicc=
AS_CASE([$with_mpi],
  [no], [AC_MSG_ERROR([mds_pretrain needs MPI: leave --without-mpi out])],
  [yes], [AS_IF([test -n "$CC"], [mds_mpicc=$CC],
    [AC_PATH_PROGS([mds_mpicc_found], [mpicc.mpich mpicc mpicc.openmpi cc])
     mds_mpicc=$mds_mpicc_found])],
  [mpich|openmpi], [mds_mpicc=mpicc.$with_mpi
    : ${MPIEXEC=mpiexec.$with_mpi}],
  [AS_IF([test -d "$with_mpi"], [mds_mpicc=$with_mpi/bin/mpicc], [mds_mpicc=$with_mpi])])
AS_IF([test -z "$mds_mpicc"],
  [AC_MSG_ERROR([no MPI compiler found. Debian/Ubuntu: apt-get install mpich libmpich-dev;
  a cluster: module load its MPI; elsewhere: --with-mpi=DIR])])
AS_IF([test "x$with_mpi" != xyes && ! command -v "${mds_mpicc%% *}" >/dev/null 2>&1],
  [AC_MSG_ERROR([--with-mpi=$with_mpi: there is no $mds_mpicc])])
AS_IF([test -z "$CC" || test "x$with_mpi" != xyes], [CC=$mds_mpicc])
])

# MDS_MPI_CHECK: after AC_PROG_CC.  Links a call, names the implementation, finds mpiexec.
AC_DEFUN([MDS_MPI_CHECK], [
AC_MSG_CHECKING([whether $CC builds MPI programs])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[return MPI_Init(0, 0);]])],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no])
   AC_MSG_ERROR([$CC cannot build MPI programs. Debian/Ubuntu: apt-get install mpich
  libmpich-dev; a cluster: module load its MPI; elsewhere: --with-mpi=DIR])])
AC_MSG_CHECKING([which MPI this is])
mds_mpi_name=MPI
for mds_pair in MPICH_VERSION:MPICH OPEN_MPI:OpenMPI I_MPI_VERSION:IntelMPI \
                CRAY_MPICH_VERSION:CrayMPICH; do
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#ifndef ${mds_pair%%:*}
#error
#endif]])], [mds_mpi_name=${mds_pair#*:}])
done
AC_MSG_RESULT([$mds_mpi_name])
AS_IF([test -z "$MPIEXEC"],
  [mds_word=${CC%% *}
   mds_dir=$(dirname "$(command -v "$mds_word" 2>/dev/null)")
   mds_suffix=$(basename "$mds_word" | sed -n 's/^mpi[[a-z]]*//p')
   for mds_try in "$mds_dir/mpiexec$mds_suffix" mpiexec srun; do
     AS_IF([command -v "$mds_try" >/dev/null 2>&1], [MPIEXEC=$mds_try; break])
   done])
AS_IF([test -z "$MPIEXEC"], [MPIEXEC=mpiexec])
AC_SUBST([MPIEXEC])
AC_DEFINE_UNQUOTED([MDS_MPIEXEC], ["$MPIEXEC"], [What starts programs of it])
AC_DEFINE_UNQUOTED([MDS_MPI_NAME], ["$mds_mpi_name"], [The MPI this was built with])
])
