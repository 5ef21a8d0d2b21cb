#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copies of the program that are each alone although a launcher started several.
prog=${builddir:?source tests/env.sh first}/tests/mpi/collectives
unset PMI_SIZE OMPI_COMM_WORLD_SIZE MV2_COMM_WORLD_SIZE SLURM_STEP_NUM_TASKS SLURM_STEP_ID

# run NAME WANT COMMAND...: WANT is "runs", or a pattern in the refusal.
t=0
run() {
    name=$1 want=$2
    shift 2
    out=$(timeout 60 "$@" 2>&1)
    rc=$?
    printf '%s\n' "$out" | sed 's/^/# /'
    if [ "$want" = runs ]; then
        [ $rc -eq 0 ]
    else
        [ $rc -ne 0 ] && [ $rc -ne 124 ] && printf '%s\n' "$out" | grep -q "$want"
    fi || printf 'not '
    t=$((t + 1))
    echo "ok $t - $name"
}

echo 1..13
run "without a launcher" runs "$prog"
run "in a script under salloc or sbatch" runs \
    env SLURM_JOB_ID=7 SLURM_NTASKS=8 SLURM_NPROCS=8 SLURM_PROCID=0 "$prog"
run "in salloc's interactive step" runs \
    env SLURM_JOB_ID=7 SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=8 "$prog"
run "one rank per step of a farm" runs \
    env PMI_SIZE=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=8 "$prog"
run "srun without a fitting plugin" "srun started 8 copies.*--mpi=" \
    env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=8 "$prog"
run "a launcher that speaks PMI" "started 4 copies.*(PMI_SIZE).*--with-mpi" \
    env PMI_SIZE=4 "$prog"
run "Open MPI's launcher" "Open MPI's launcher started 4 copies" \
    env OMPI_COMM_WORLD_SIZE=4 "$prog"
if unshare -rm true 2> /dev/null; then
    # shellcheck disable=SC2016 # the inner shell's
    little='mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$0"'
    want="warn: /dev/shm of $(hostname) has 64.00 KiB left for its 4 ranks"
    run "little shared memory" "$want" \
        env PMI_SIZE=8 PMI_RANK=0 MPI_LOCALNRANKS=4 unshare -rm sh -c "$little" "$prog"
    run "also on another node than the first rank's" "$want" env PMI_SIZE=8 PMI_RANK=4 \
        MPI_LOCALNRANKS=4 MPI_LOCALRANKID=0 unshare -rm sh -c "$little" "$prog"
    run "one rank of each node looks there" "" env PMI_SIZE=8 PMI_RANK=5 \
        MPI_LOCALNRANKS=4 MPI_LOCALRANKID=1 unshare -rm sh -c "$little" "$prog"
    case $out in *"warn: /dev/shm"*) printf 'not ' ;; esac
    echo "ok $((t += 1)) - and one alone"
    run "srun tells the ranks of all nodes" "/dev/shm of $(hostname) has .* for its 4 ranks" \
        env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=10 SLURM_PROCID=6 SLURM_LOCALID=0 \
        SLURM_NODEID=3 SLURM_STEP_TASKS_PER_NODE='2(x3),4' unshare -rm sh -c "$little" "$prog"
else
    while [ $t -lt 12 ]; do
        echo "ok $((t += 1)) # SKIP no other /dev/shm can be had"
    done
fi
case $MPIEXEC in
    *mpich) other=mpiexec.openmpi ;;
    *openmpi) other=mpiexec.mpich ;;
    *) other= ;;
esac
if command -v "${other:-none}" > /dev/null; then
    run "started with $other" "started 2 copies" "$other" -n 2 "$prog"
else
    echo "ok $((t += 1)) # SKIP no other MPI's mpiexec"
fi
