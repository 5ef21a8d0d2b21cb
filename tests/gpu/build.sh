# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Sourced by the tests and benchmarks for machines with GPUs.

# ask_gpus FIELD,...: print nvidia-smi's fields, one line for each GPU that this process may use
ask_gpus() {
    nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} \
        --query-gpu="$1" --format=csv,noheader,nounits
}

# use_build SOURCES BUILD: set the environment of a build, which may have been moved, and keep
# the user's MPIEXEC.  Sets here_gpus to the number of GPUs.
use_build() {
    own_mpiexec=${MPIEXEC-}
    # shellcheck disable=SC1091
    . "$2/tests/env.sh" || return
    srcdir=$1 builddir=$2 PATH=$2/src/programs:$PATH
    MPIEXEC=${own_mpiexec:-$MPIEXEC}
    [ -n "$(command -v "${MPIEXEC%% *}")" ] || MPIEXEC=mpiexec
    # Open MPI would bind a single rank and all its threads to one core
    OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy:-none}
    PRTE_MCA_hwloc_default_binding_policy=${PRTE_MCA_hwloc_default_binding_policy:-none}
    MDS_OVERWRITE=1 # scripts use a name again and again
    export MDS_OVERWRITE srcdir builddir PATH MPIEXEC OMPI_MCA_hwloc_base_binding_policy \
        PRTE_MCA_hwloc_default_binding_policy
    # shellcheck disable=SC2034  # for those that source this
    here_gpus=$(ask_gpus index 2> /dev/null | awk '/^[0-9]/ { n++ } END { print n + 0 }')
}
