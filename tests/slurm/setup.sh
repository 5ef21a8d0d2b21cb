# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034,SC2154  # for those that source it
# Begins every test of this folder: a table of small models, some tokens, and words for jobs.
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by tests/slurm/run}/tests/cli/setup.sh"

for name in MACHINE HOSTFILE NHOSTS NGPU_PER_HOST NGPUS QUEUE PROJECT DURATION NUM_NODES; do
    unset "$name"
done
DATA_PATH=$PWD/tokens.h5
export DATA_PATH
# what a small model learns in no time
for _ in $(seq 300); do
    echo 'GATTACA, GATTACA, GATTACA: seven letters of a strand.'
done > text
mds_data make --tokenizer bytes --output tokens.h5 text
echo 'TINY: {layers: 2, hidden: 32, heads: 4}' > tiny.yaml

# profile FILE BUILD FLAGS: the machine, for programs of that build and with srun FLAGS.
# Those that submit are found without a word.
profile() {
    init=true
    [ "$2" = "$builddir" ] || init="PATH=$2/src/programs:\$PATH"
    sed -e "s/^  flags: .*/  flags: [$3]/" -e "s,^batch:,batch:\\
  init: $init," "$srcdir/tests/slurm/cluster.yaml" > "$1"
}
profile cluster.yaml "$builddir" '--mpi=pmi2, -u'
MACHINE=$PWD/cluster.yaml
export MACHINE

if [ -n "${OPENMPI_BUILD-}" ]; then
    test_set_prereq OPENMPI
fi
# Two may have no libpmix: mds_launch as it was built, and Slurm, whose plug-in opens libpmix.so
# itself.
if grep -q '^#define HAVE_PMIX 1' "$builddir/config.h"; then
    test_set_prereq PMIX
fi
# slurm_has_pmix: for test_set_prereq SLURM_PMIX, where a test needs it
slurm_has_pmix() {
    ! srun -n 1 --mpi=pmix true 2>&1 | grep 'can not load PMIx library\|specified plugin name'
}

tiny='--device cpu --model-table tiny.yaml --threads 1 --eval-iters 0 --log-interval 1
    --lr 3e-3 --global-batch-size 8'

# submit FOLDER VARIABLES... [-- OPTIONS...]: two ranks on each of $nodes (2) nodes,
# of partition $queue (debug) for $walltime (ten minutes).  Data parallel, unless they say else: little to wait for.
# Its number in $job.  $launch_options go to mds_launch.
submit() {
    runs=$1
    shift
    variables=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        variables="$variables $1"
        shift
    done
    [ $# -eq 0 ] || shift
    # shellcheck disable=SC2086  # lists of words
    env MODEL_SIZE_KEY=TINY SEQ_LEN=64 NGPU_PER_HOST=2 MPSIZE=1 $variables mds_launch submit \
        --runs "$runs" ${launch_options-} "${queue:-debug}" "${nodes:-2}" "${walltime:-0:10:00}" me -- $tiny "$@" > submitted &&
        cat submitted && job=$(sed -n 's/.*: //p' submitted)
}

# Seconds that a test gives are those of an idle machine, which CI's is not.
patience=3

# about JOB: what Slurm knows of it, a NAME=VALUE each line
about() {
    scontrol show job -o "$1" | tr ' ' '\n'
}

# state JOB: RUNNING, FAILED, ...
state() {
    about "$1" | sed -n 's/^JobState=//p'
}

# all_end SECONDS: no job is left
all_end() {
    for _ in $(seq $(($1 * patience * 5))); do
        [ -n "$(squeue -h)" ] || return 0
        sleep 0.2
    done
    squeue
    return 1
}

# becomes JOB STATE SECONDS
becomes() {
    for _ in $(seq $(($3 * patience * 5))); do
        [ "$(state "$1")" != "$2" ] || return 0
        sleep 0.2
    done
    echo "job $1 is $(state "$1"), not $2"
    tail -n 30 "$runs"/*/job-"$1".log
    return 1
}

# losses RUNFOLDER: "iteration loss" a line, of an iteration the last
losses() {
    sed -n '/"step"/s/.*"iteration":\([0-9]*\),.*"lm_loss":\([^,]*\),.*/\1 \2/p' \
        "$1/metrics.jsonl" | awk '{ l[$1] = $0; if ($1 > n) n = $1 }
            END { for (i = 1; i <= n; i++) print l[i] }'
}

# falls FILE: the last ten losses are under the first ten, in the mean
falls() {
    awk 'NR <= 10 { first += $2 } { v[NR] = $2 }
        END { for (i = NR - 9; i <= NR; i++) last += v[i]
            print "losses", first / 10, last / 10
            exit !(NR >= 20 && last < first - 1) }' "$1"
}

# appears FILE SECONDS
appears() {
    for _ in $(seq $(($2 * patience * 10))); do
        [ ! -e "$1" ] || return 0
        sleep 0.1
    done
    echo "no $1"
    tail -n 30 "$runs"/*/job-*.log job.sh.[oe]* 2> /dev/null
    return 1
}

# first_step_once RUNFOLDER: no job of it began anew
first_step_once() {
    test "$(grep -c '"event":"step".*"iteration":1,' "$1/metrics.jsonl")" -eq 1
}
