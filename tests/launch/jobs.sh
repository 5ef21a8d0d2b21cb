#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# jobscripts/ holds what mds_launch submit writes.  UPDATE=1 writes it there.
srcdir=$(cd "${srcdir:-.}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
t=0
failed=0

# example FILE MACHINE VARIABLES... -- QUEUE NODES WALLTIME PROJECT
example() {
    file=$srcdir/jobscripts/$1
    variables="MACHINE=$2 DATA_PATH=genomes.h5 TRAIN_ITERS=1000"
    shift 2
    while [ "$1" != -- ]; do
        variables="$variables $1"
        shift
    done
    shift
    # shellcheck disable=SC2086  # a list of words
    env -i PATH="$PATH" HOME="$scratch" OMP_NUM_THREADS=1 $variables \
        "$srcdir/ALCF/submit.sh" --print "$@" 2> err |
        sed "s,^PATH=.*src/programs:,PATH=/soft/mds/bin:," > got
    [ -z "$UPDATE" ] || cp got "$file"
    t=$((t + 1))
    if ! cmp -s got "$file" || [ ! -s got ]; then
        printf 'not '
        failed=1
    fi
    echo "ok $t - jobscripts/$(basename "$file")"
    diff "$file" got | sed 's/^/# /'
    sed 's/^/# /' err
    t=$((t + 1))
    bash -n got || { printf 'not ' && failed=1; }
    echo "ok $t - bash can read it"
}

example polaris.pbs polaris MODEL_SIZE_KEY=GPT25B SEQ_LEN=128000 ZERO_STAGE=1 MPSIZE=16 \
    -- prod 16 3:00:00 GenomeLM
example sophia.pbs sophia MODEL_SIZE_KEY=GPT25B SEQ_LEN=64000 ZERO_STAGE=1 \
    -- by-node 4 2:00:00 GenomeLM
example thetagpu.cobalt thetagpu MODEL_SIZE_KEY=GPT25B SEQ_LEN=64000 ZERO_STAGE=1 \
    -- full-node 4 2:00:00 GenomeLM
example dgx2.sbatch dgx2 MODEL_SIZE_KEY=GPT13B SEQ_LEN=2048 MPSIZE=8 PPSIZE=2 ZERO_STAGE=1 \
    OFFLOAD_DEVICE=none GAS=8 -- batch 8 4:00:00 GenomeLM
example perlmutter.sbatch perlmutter MODEL_SIZE_KEY=GPT13B SEQ_LEN=32768 SP_TYPE=ds \
    -- regular 8 2:00:00 m1234
example h200.sbatch h200 MODEL_SIZE_KEY=GPT33B SEQ_LEN=512000 ZERO_STAGE=1 \
    -- batch 4 12:00:00 GenomeLM
# No profile here is of a machine with Flux: nodes as h200.yaml has them.
sed -e 's/scheduler: slurm/scheduler: flux/; s/kind: srun/kind: flux/; s/command: srun/command: flux run/' \
    -e '/^  flags:/d; /^  binding:/d; /^  directives:/,/--mem=0/d' "$srcdir/machines/h200.yaml" > h200-flux.yaml
example h200.flux h200-flux.yaml MODEL_SIZE_KEY=GPT33B SEQ_LEN=512000 ZERO_STAGE=1 \
    -- batch 4 12:00:00 GenomeLM

# warns FOLDER WORD: whether a run in FOLDER is warned of a node's own scratch: yes or no
warns() {
    env -i PATH="$PATH" HOME="$scratch" MACHINE=polaris DATA_PATH=genomes.h5 TRAIN_ITERS=9 \
        MODEL_SIZE_KEY=GPT25B SEQ_LEN=2048 \
        "$srcdir/ALCF/submit.sh" --print --runs "$1" prod 16 1:00:00 GenomeLM > got 2> err
    said=no
    ! grep -q 'says is local to each node' err || said=yes
    t=$((t + 1))
    [ "$said" = "$2" ] || { printf 'not ' && failed=1; }
    echo "ok $t - $1 is a node's own: $2"
}

warns /local/scratch/runs yes
warns /local/scratch2/runs no
echo "1..$t"
exit "$failed"
