#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The recipe of both containers (Containerfile, mds.def): from the source in /src to mds in
# /opt/mds, on Debian or Ubuntu.  With an nvcc in the base image, such as NVIDIA's images
# cuda:...-cudnn-devel have one, it is built for GPUs, else for CPUs.
# Environment: CONFIGURE_FLAGS, JOBS.
set -eu

export DEBIAN_FRONTEND=noninteractive
build='gcc make patchelf pkg-config libhdf5-dev libmpich-dev libopenblas-openmp-dev libhts-dev
    libyaml-dev zlib1g-dev'
apt-get -q update
# mpich: mpiexec, to run in the container alone.
# shellcheck disable=SC2086  # a list of words
apt-get -q -y install --no-install-recommends mpich $build
[ -x /src/configure ] || {
    apt-get -q -y install --no-install-recommends autoconf automake
    /src/bootstrap
}

cuda=--without-cuda
! command -v nvcc && [ ! -x /usr/local/cuda/bin/nvcc ] || cuda=--with-cuda
mkdir /tmp/build
cd /tmp/build
# shellcheck disable=SC2086  # a list of words
/src/configure -q --prefix=/opt/mds --with-mpi=mpich --without-pmix $cuda ${CONFIGURE_FLAGS-}
make -s -j "${JOBS:-$(nproc)}" all
make -s install

# By the name that MPICHs agreed on (the ABI initiative: libmpi.so.12), so that the host's Cray
# MPICH, Intel MPI, MVAPICH or MPICH takes the place of this one if its folder comes first in
# LD_LIBRARY_PATH.  /opt/mds/mpi has ours by that name, and is searched last.
mkdir /opt/mds/mpi
ln -s "$(ldconfig -p | sed -n 's/.*libmpich\.so\.12 .*=> //p' | head -n 1)" /opt/mds/mpi/libmpi.so.12
for program in /opt/mds/bin/*; do
    patchelf --print-needed "$program" 2> /dev/null | grep -q -x 'libmpich\.so\.12' || continue
    patchelf --replace-needed libmpich.so.12 libmpi.so.12 "$program"
    patchelf --add-rpath /opt/mds/mpi "$program" # not both at once: patchelf 0.14 mixes them up
done

# What was only for building goes; the libraries that it brought stay.
cd /
# shellcheck disable=SC2046  # a list of words
apt-mark -q manual $(dpkg-query -W -f '${Package}\n' 'lib*' | grep -v -e '-dev$') > /dev/null
# shellcheck disable=SC2086
apt-get -q -y purge --auto-remove $build
rm -rf /tmp/build /var/lib/apt/lists/* /var/cache/apt/archives/*.deb

for program in mds_data mds_ckpt mds_infer mds_launch mds_pretrain; do
    "/opt/mds/bin/$program" --version
done
