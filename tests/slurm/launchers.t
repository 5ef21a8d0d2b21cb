#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='what starts ranks in a job: srun for either MPI, mpiexec of MPICH, mpirun of Open MPI; and qsub'
# shellcheck source=tests/slurm/setup.sh
. "${srcdir:?run by tests/slurm/run}/tests/slurm/setup.sh"

if slurm_has_pmix; then
    test_set_prereq SLURM_PMIX
fi
if command -v qsub > /dev/null && command -v generate_pbs_nodefile > /dev/null; then
    test_set_prereq QSUB
fi
# Open MPI takes two nodes on one host for one, whose ranks may share memory.
with_tcp() {
    printf 'environment:\n  OMPI_MCA_btl: "self,tcp"\n  source: "%s"\n  date: 2026-11-21\n' \
        'tests/slurm/launchers.t' >> "$1"
}
# launcher FILE BUILD KIND COMMAND: the machine with another launcher
launcher() {
    profile "$1" "$2" none
    sed -i "s,^  kind: srun,  kind: $3,; s,^  command: srun,  command: $4,
        /^  flags:/d; /^  binding:/d" "$1"
}
# trains LINE: four ranks on two nodes, started by a line that begins so
trains() {
    becomes "$job" COMPLETED 60 && grep "^$1" "$runs/TINY-64-2n/job-$job.log" &&
        grep "ranks 4 " "$runs/TINY-64-2n/job-$job.log" &&
        losses "$runs/TINY-64-2n" >got && falls got
}
# openmpi FOLDER LINE: submit trains.  Once, on a busy host, Open MPI 4.1 crashed inside of
# MPI_Init, as others have seen (open-mpi/ompi#12495): a job that dies of a signal before it has
# named its ranks gets a second go.
openmpi() {
    submit "$1" TRAIN_ITERS=60 && { trains "$2" || {
        grep "Process received signal" "$runs/TINY-64-2n/job-$job.log" &&
            ! grep "ranks 4 " "$runs/TINY-64-2n/job-$job.log" &&
            submit "$1-again" TRAIN_ITERS=60 && trains "$2"
    }; }
}

test_expect_success OPENMPI,SLURM_PMIX 'Open MPI under srun --mpi=pmix' '
    profile openmpi.yaml "$OPENMPI_BUILD" "--mpi=pmix, -u" && with_tcp openmpi.yaml &&
    MACHINE=$PWD/openmpi.yaml && openmpi pmix "env OMPI_MCA_btl=self,tcp srun --mpi=pmix"
'
test_expect_success 'srun: all threads of all cores, and all memory, are for the ranks' '
    submit threads TRAIN_ITERS=5 && becomes $job COMPLETED 60 &&
    about $job | grep "TRES=.*mem=2000M" &&
    grep "srun .* --cpus-per-task=8 " threads/TINY-64-2n/job-$job.log
'
test_expect_success SLURM_PMIX 'MPICH under pmix: one clear line, not four runs of one rank' '
    profile wrong.yaml "$builddir" "--mpi=pmix, -u" &&
    MACHINE=$PWD/wrong.yaml && submit wrong TRAIN_ITERS=5 && becomes $job FAILED 60 &&
    cat wrong/TINY-64-2n/job-$job.log && about $job | grep -x "ExitCode=1:0" &&
    grep "mds: error: srun started 4 copies .*--mpi=pmix or --mpi=pmi2" \
        wrong/TINY-64-2n/job-$job.log >lines && test "$(wc -l <lines)" -eq 1 && test ! -s wrong/TINY-64-2n/metrics.jsonl
'
test_expect_success 'MPICH: mpiexec starts ranks on both nodes' '
    launcher hydra.yaml "$builddir" hydra mpiexec.mpich &&
    MACHINE=$PWD/hydra.yaml && submit hydra TRAIN_ITERS=60 &&
    trains "mpiexec.mpich -n 4 -ppn 2 -hosts n1,n2"
'
test_expect_success OPENMPI 'Open MPI: mpirun' '
    launcher mpirun.yaml "$OPENMPI_BUILD" openmpi mpirun.openmpi && with_tcp mpirun.yaml &&
    MACHINE=$PWD/mpirun.yaml && openmpi mpirun "mpirun.openmpi --host n1:2,n2:2 -n 4 -npernode 2"
'
test_expect_success QSUB 'qsub, and a list of nodes from PBS' '
    launcher pbs.yaml "$builddir" hydra mpiexec.mpich &&
    sed -i "s/scheduler: slurm/scheduler: pbs/; /--exclusive/d; /--mem/d
        s/^    - --gpus.*/    - -l select={nodes}:ncpus=8:mpiprocs=4/
        s/^  init: .*/&; export PBS_NODEFILE=\$(TMPDIR=. generate_pbs_nodefile)/" pbs.yaml &&
    MACHINE=$PWD/pbs.yaml && submit pbs TRAIN_ITERS=60 && grep "^#PBS -l select=2:" pbs/*/job.sh &&
    all_end 60 && cat job.sh.e$job && test "$(state $job)" = COMPLETED &&
    log=pbs/TINY-64-2n/job-$job.log &&
    grep "^mpiexec.mpich -n 4 -ppn 2 -hosts n1,n2 " $log && grep "ranks 4 " $log &&
    losses pbs/TINY-64-2n >got && falls got
'
test_expect_success QSUB 'qsub: a job that is warned submits itself again, until the run is done' '
    MACHINE=$PWD/pbs.yaml && submit again TRAIN_ITERS=200 SAVE_INTERVAL=20 MICRO_BATCH=8 \
        -- --global-batch-size 32 &&
    appears again/TINY-64-2n/checkpoints/latest 60 && scancel --batch --signal=USR1 $job &&
    appears again/TINY-64-2n/done 60 && all_end 30 && grep "ended by signal" again/TINY-64-2n/job-$job.log &&
    first_step_once again/TINY-64-2n && test "$(losses again/TINY-64-2n | wc -l)" -eq 200 &&
    ls again/TINY-64-2n/job-$((job + 1)).log
'

test_done
