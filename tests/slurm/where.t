#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_launch where: what Slurm, PMIx and launchers say in a real job'
# shellcheck source=tests/slurm/setup.sh
. "${srcdir:?run by tests/slurm/run}/tests/slurm/setup.sh"

if slurm_has_pmix; then
    test_set_prereq SLURM_PMIX
fi
# row FILE SOURCE NODES RANKS A-NODE GPUS: a line of that table
row() {
    grep "^$2  *$3  *$4  *$5  *$6\( \|\$\)" "$1" || ! cat "$1"
}
# All at once: salloc and one step after the other.
salloc -N 2 --gpus-per-node=2 --exclusive sh -c '
    mds_launch where > alone
    srun --mpi=pmi2 -N 2 -n 5 --output=pmi2.%t mds_launch where
    srun --mpi=pmix -N 2 -n 5 --output=pmix.%t mds_launch where
    mpiexec.mpich -n 3 -ppn 2 -hosts n1,n2 sh -c "mds_launch where > hydra.\$PMI_RANK"
    ! command -v mpirun.openmpi || mpirun.openmpi --host n1:2 -n 2 \
        sh -c "mds_launch where > mpirun.\$OMPI_COMM_WORLD_RANK"
' 2> salloc.log

# Of five ranks on two nodes three are on the first.
test_expect_success 'srun --mpi=pmi2: Slurm says nodes, ranks, and the ranks of each node' '
    row pmi2.0 srun 2 5 3 - && row pmi2.4 srun 2 5 2 - &&
    row pmi2.0 "Slurm (SLURM_JOB_NODELIST)" 2 - - 2 | grep " n1,n2$" &&
    test_must_fail grep "PMIx\|hydra" pmi2.0
'
test_expect_success PMIX,SLURM_PMIX 'srun --mpi=pmix: PMIx goes first, and agrees' '
    row pmix.0 PMIx 2 5 3 - | grep " n1,n2$" && row pmix.4 PMIx 2 5 2 - &&
    row pmix.4 PMIx 2 5 2 - | grep "  rank 4, 1 of its node, node 1  n1,n2$" &&
    row pmix.4 srun 2 5 2 - | grep "  rank 4, 1 of its node, node 1$" && grep "^taken: 2 nodes (PMIx), 2 GPUs a node" pmix.0
'
test_expect_success 'GPUs: two of four were asked for; what disagrees is said, and what is taken' '
    row pmi2.0 CUDA_VISIBLE_DEVICES - - - 2 && row pmi2.0 profile - - - 4 &&
    grep "^taken: 2 nodes (srun), 2 GPUs a node (Slurm (SLURM_JOB_NODELIST))" pmi2.0 &&
    grep "^disagreement: GPUs a node: Slurm (SLURM_JOB_NODELIST) says 2, profile says 4" pmi2.0 &&
    test "$(grep -c ^disagreement pmi2.0)" -eq 1 && grep "^4 ranks: 2 nodes, 2 on each" pmi2.0
'
test_expect_success 'mpiexec of MPICH: its ranks, and the nodes of Slurm; not those of its proxy' '
    row hydra.0 hydra - 3 2 - && row hydra.2 hydra - 3 1 - &&
    row hydra.0 "Slurm (SLURM_JOB_NODELIST)" 2 - - "[2-]" && test_must_fail grep "^srun" hydra.0
'
test_expect_success OPENMPI,PMIX 'mpirun on one node of two: PMIx knows, and the disagreement is said' '
    row mpirun.1 PMIx 1 2 2 - && row mpirun.1 "Open MPI" - 2 2 - &&
    grep "^disagreement: nodes: PMIx says 1, Slurm (SLURM_JOB_NODELIST) says 2" mpirun.1 &&
    grep "^taken: 1 node (PMIx)" mpirun.1
'
test_expect_success 'in an allocation, before any step' '
    row alone "Slurm (SLURM_JOB_NODELIST)" 2 - - - && test_must_fail grep "^srun\|^PMIx" alone &&
    grep "^8 ranks: 2 nodes, 4 on each" alone
'

test_done
