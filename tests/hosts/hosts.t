#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='four hosts of two ranks, linked by 1 Gbit/s: both MPIs, layouts across hosts, a host that vanishes'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by tests/hosts/run}/tests/cli/setup.sh"
# shellcheck source=tests/hosts/hosts.sh
. "$srcdir/tests/hosts/hosts.sh"

for name in MACHINE HOSTFILE NHOSTS NGPU_PER_HOST NGPUS QUEUE PROJECT DURATION NUM_NODES; do
    unset "$name"
done
hosts_up "${HOSTS_FOLDER:?run by tests/hosts/run}" 4 || { echo 'Bail out! the hosts did not come up'; exit 1; }
printf '%s\n' h1 h2 h3 h4 > "$hosts/hostfile"
# PBS has full names, a line for each chunk.
for host in h1 h2 h3 h4; do echo $host.cluster; done > "$hosts/nodefile"
mds_data make --tokenizer codon --output tokens.h5 "$srcdir/tests/data/lambda.fna.gz"
OMPI_MCA_plm_rsh_agent=$hosts/ssh OMPI_MCA_oob_tcp_if_include=eth0 OMPI_MCA_btl_tcp_if_include=eth0
export OMPI_MCA_plm_rsh_agent OMPI_MCA_oob_tcp_if_include OMPI_MCA_btl_tcp_if_include
if [ -n "${OPENMPI_BUILD-}" ]; then
    test_set_prereq OPENMPI
fi

# machine FILE KIND COMMAND FLAGS NAME VALUE...: a profile with that launcher and those variables of the MPI's network
machine() {
    sed -e "s/^  kind: srun/  kind: $2/; s/^  command: .*/  command: $3/; s|^  flags: .*|  flags: [$4]|" \
        -e '/^  binding:/d; s/gpus: 4/gpus: 2/' "$srcdir/tests/slurm/cluster.yaml" > "$1"
    printf 'environment:\n  source: "tests/hosts/hosts.t"\n  date: 2026-11-23\n' >> "$1"
    file=$1
    shift 4
    while [ $# -gt 0 ]; do
        echo "  $1: \"$2\"" >> "$file"
        shift 2
    done
}
machine hydra.yaml hydra mpiexec.mpich "-launcher, ssh, -launcher-exec, $hosts/ssh" UCX_TLS tcp,sysv,self UCX_NET_DEVICES eth0
machine openmpi.yaml openmpi mpirun.openmpi --allow-run-as-root OMPI_MCA_btl self,tcp

# What PBS Pro sets in a job on its first node, and Cobalt.
pbs() (
    export PBS_NODEFILE="$hosts/nodefile" PBS_JOBID=4017.pbs-01.cluster PBS_ENVIRONMENT=PBS_BATCH PBS_O_WORKDIR="$PWD" \
        PBS_O_HOST=login.cluster PBS_JOBNAME=mds PBS_QUEUE=prod PBS_NODENUM=0 PBS_TASKNUM=1 PBS_MOMPORT=15003 \
        PBS_JOBCOOKIE=0 NCPUS=1 OMP_NUM_THREADS=1
    "$@"
)
cobalt() (
    export COBALT_NODEFILE="$hosts/hostfile" COBALT_JOBID=4017 COBALT_PARTNAME=1-4 COBALT_JOBSIZE=4 COBALT_PARTSIZE=4
    "$@"
)
tiny='--device cpu --threads 1 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64
    --data-path tokens.h5 --eval-iters 0 --log-interval 1 --global-batch-size 8 --tensor-model-parallel-size 2'

test_expect_success 'each host sees itself, its own disk and the others' '
    for host in h1 h2 h3 h4; do
        on h1 "$hosts/ssh" -x $host.cluster hostname \> "$hosts/local/who" \; hostname || return
    done >names && test_cmp "$hosts/hostfile" names && test "$(on h3 cat "$hosts/local/who")" = h3 && test ! -e "$hosts/local/who"
'
test_expect_success 'MPICH from the list of nodes of PBS: the check names four hosts of two ranks' '
    for try in 1 2 3; do # UCX would hang at the end of one in five
        pbs on h1 timeout 30 mds_launch check --machine hydra.yaml --layout given -- $tiny >out 2>&1; status=$?
        cat out && test $status -eq 0 || return
    done && grep "^mpiexec.mpich .* -n 8 -ppn 2 -f $hosts/nodefile env UCX_TLS=tcp,sysv,self" out &&
    for host in h1 h2 h3 h4; do grep "^  $host  .* G " out || return; done && grep "^  data all_reduce  *4 " out && grep "^preflight: no faults" out
'
# Speeds of collectives across hosts, beside those that the links lead to (src/plan/network.c), within a factor of 1.8:
# eight ranks share two cores here.  Two groups share each link, or each node has two ranks of a group.
delay=1e-4
[ -s "$hosts/netem" ] && echo "# links have no delay: $(cat "$hosts/netem")" || delay=2e-3
sed "s/net_bytes_s: 3e9/net_bytes_s: 125e6/; s/gpu_bytes_s: 3e9/gpu_bytes_s: 500e6/; s/latency_s: 2e-6/latency_s: $delay/" \
    hydra.yaml >links.yaml
# predicted ROWS OPTION...: so many rows of groups across hosts are as predicted
predicted() {
    want=$1
    shift
    for try in 1 2 3; do
        # shellcheck disable=SC2086  # a list of words
        on h1 timeout 60 mds_launch check --machine links.yaml --hostfile "$hosts/hostfile" --layout given -- $tiny \
            --num-attention-heads 8 --seq-length 128 "$@" >out 2>&1
        awk -v want="$want" '
            /^collectives over/ { table = 1 }
            /^predicted from/ { table = 2 }
            !/^  [a-z]* (all_|ring)/ || $1 == "tp" { next }
            { k = table == 1 ? 8 : 6; bytes_s = $k * ($(k + 1) == "G" ? 1000 : $(k + 1) == "M" ? 1 : 0.001) }
            table == 1 { measured[$1 " " $2] = bytes_s }
            table == 2 {
                ratio = measured[$1 " " $2] / bytes_s
                printf "  %-20s of %d: predicted %.1f, measured %.1f MB/s\n", $1 " " $2, $3, bytes_s, measured[$1 " " $2]
                if (ratio < 1.8 && ratio > 1 / 1.8) good++; else bad++
            }
            END { exit bad || good != want }' out && return
    done
    cat out
    return 1
}
test_expect_success 'all-reduce, all-to-all and rings across hosts take as long as plans say' '
    predicted 2 --tensor-model-parallel-size 2 &&
    predicted 4 --tensor-model-parallel-size 1 --ds-sequence-parallel-size 4 --context-parallel-size 2 &&
    predicted 3 --tensor-model-parallel-size 1 --context-parallel-size 8
'
# rows MPIEXEC... -- ROW...: layouts of tests/parity
rows() {
    words=
    while [ "$1" != -- ]; do words="$words $1"; shift; done
    shift
    MPIEXEC=$words on h1 sh "$srcdir/tests/parity/matrix.t" "$@" >rows.out 2>&1
    status=$?
    sed 's/^/  /' rows.out
    return $status
}
# bytes HOST: that it has sent and received
bytes() {
    on "$1" cat /proc/net/dev | tr : ' ' | awk '$1 == "eth0" { printf "%.0f\n", $2 + $10 }'
}
test_expect_success 'MPICH from a hostfile: tensor ranks on one host, pipelines, Ulysses, rings and ZeRO across' '
    before=$(bytes h3) &&
    UCX_TLS=tcp,sysv,self UCX_NET_DEVICES=eth0 rows mpiexec.mpich -launcher ssh -launcher-exec "$hosts/ssh" -f "$hosts/hostfile" \
        -ppn 2 -- gpt-tp2-sp-ring4-z1-sel gpt-tp2-sp-u4-z2 gpt-tp2-sp-pp2-dp2-z1-sel llama-tp2-sp-u2-ring2-z3-host &&
    test $(($(bytes h3) - before)) -gt 1000000
'
test_expect_success OPENMPI 'Open MPI from a hostfile: two of these' '
    (builddir=$OPENMPI_BUILD && export OMPI_MCA_btl=self,tcp && rows mpirun.openmpi --hostfile "$hosts/hostfile" -npernode 2 -- \
        gpt-tp2-sp-u4-z2 gpt-tp2-sp-pp2-dp2-z1-sel)
'
test_expect_success OPENMPI 'Open MPI from the list of nodes of PBS' '
    pbs on h1 "$OPENMPI_BUILD/src/programs/mds_launch" run --machine openmpi.yaml --layout given -- $tiny \
        --train-iters 2 >out 2>&1; status=$?; cat out && test $status -eq 0 &&
    grep "^mpirun.openmpi .*--hostfile $hosts/nodefile -n 8 -npernode 2" out && grep "^done: iteration 2 of 2" out
'
test_expect_success OPENMPI 'Open MPI from the list of nodes of Cobalt' '
    cobalt on h1 "$OPENMPI_BUILD/src/programs/mds_launch" run --machine openmpi.yaml --layout given -- $tiny \
        --train-iters 2 >out 2>&1; status=$?; cat out && test $status -eq 0 &&
    grep "^mpirun.openmpi .*--hostfile $hosts/hostfile -n 8 -npernode 2" out && grep "^done: iteration 2 of 2" out
'
# vanish HOST ITERATION COMMAND...: it loses its network after that iteration; the seconds until the end in $took
vanish() {
    host=$1 iteration=$2
    shift 2
    rm -f steps.jsonl
    "$@" >out 2>&1 &
    for _ in $(seq 300); do
        ! grep -q "\"iteration\":$iteration," steps.jsonl 2>/dev/null || break
        sleep 0.1
    done
    begin=$(date +%s) && plug "$host" down
    wait $!
    status=$? took=$(($(date +%s) - begin))
    plug "$host" up
    cat out
}
# Twelve steps on h1 to h3, with h4 to spare.
on_three() {
    # shellcheck disable=SC2086  # a list of words
    pbs on h1 timeout 60 mds_launch run --machine hydra.yaml --nodes 3 --exclude-file excluded "$@" --layout given -- $tiny \
        --global-batch-size 12 --train-iters 12 --save ck --load ck --save-interval 4 --metrics-jsonl steps.jsonl \
        --distributed-timeout-minutes 4s
}
losses() {
    sed -n 's/.*"event":"step".*"iteration":\([0-9]*\),.*"lm_loss":\([^,]*\).*/\1 \2/p' steps.jsonl
}
test_expect_success 'a host that vanishes is named within the limit' '
    vanish h3 3 pbs on h1 mds_launch run --machine hydra.yaml --layout given --max-restarts 0 -- $tiny \
        --train-iters 100000 --metrics-jsonl steps.jsonl --distributed-timeout-minutes 4s &&
    echo "ended after $took s, status $status" && test $status -ne 0 && test $took -ge 3 && test $took -le 20 &&
    grep "rank 0 h1. error: .* rank [45] has been silent for 4 s.* on h3" out
'
test_expect_success 'and the run goes on with a spare host, to the same losses' '
    rm -f steps.jsonl && on_three >out 2>&1; cat out; losses >whole && test "$(wc -l <whole)" -eq 12 && rm -r ck &&
    vanish h3 5 on_three && echo "ended after $took s" && test $status -eq 0 && losses >got && test_cmp whole got &&
    grep "^mpiexec.mpich .* -hosts h1.cluster,h2.cluster,h4.cluster " out &&
    grep -E "warn: node h3.* is left out: (rank [45] has been silent for 4 s|it does not answer)" out && grep "^h3" excluded
'
# undisturbed STATUS: that run has ended with the losses of the whole one, perhaps on fewer ranks
undisturbed() {
    cat out && test "$1" -eq 0 && losses >got && paste -d " " whole got | awk "
        { d = \$2 - \$4; if (d < -1e-6 || d > 1e-6 || \$1 != \$3) bad = 1 }
        END { exit bad || NR != 12 }"
}
test_expect_success 'a host that is dead at the start is named, and a spare one takes its place' '
    rm -rf ck steps.jsonl excluded && plug h3 down && on_three >out 2>&1; status=$?; plug h3 up; undisturbed $status &&
    grep "warn: node h3.* is left out: it does not answer" out && grep "info: starting without it" out && grep "^h3.* # .*: it does not answer" excluded
'
test_expect_success 'two that are lost at once are both named; without spares for both the status is 75' '
    rm -rf ck steps.jsonl excluded && : >out && { on_three >out 2>&1 & } && pid=$! &&
    until grep -q "iteration  *5/" out || ! kill -0 $pid; do sleep 0.1; done; plug h2 down; plug h3 down; wait $pid; status=$?
    plug h2 up; plug h3 up; cat out; test $status -eq 75 && grep "^h2" excluded && grep "^h3" excluded &&
    grep "error: the run is not started again: the job has no spare node for 1 node" out && mds_ckpt verify ck
'
test_expect_success 'one that is cut off while MPI starts, too' '
    for delay in 0.05 0.25; do
        rm -rf ck steps.jsonl excluded && : >out && { on_three >out 2>&1 & } && pid=$! &&
        until grep -q "^mpiexec.mpich" out || ! kill -0 $pid; do sleep 0.02; done
        sleep $delay && plug h3 down; wait $pid; status=$?; plug h3 up; undisturbed $status && grep "node h3.* is left out" out || return
    done
'
# own HOST NAME: the processes of that name on that host of this test; other tests may run the same program
own() {
    uts=$(on "$1" readlink /proc/self/ns/uts) && on "$1" pgrep -x "$2" |
        while read -r p; do test "$(readlink "/proc/$p/ns/uts")" != "$uts" || echo "$p"; done
}
# The first rank is on h2, mds_launch and mpiexec on h1.
test_expect_success 'the host of the first rank: its ranks end, and the next ones take the lock from it' '
    printf "%s\n" h2 h3 h4 >three && rm -rf ck steps.jsonl excluded && : >out &&
    { on h1 timeout 90 mds_launch run --machine hydra.yaml --hostfile three --nodes 2 --exclude-file excluded --layout given -- $tiny \
        --global-batch-size 12 --train-iters 12 --save ck --load ck --save-interval 4 --metrics-jsonl steps.jsonl \
        --distributed-timeout-minutes 4s >out 2>&1 & } && pid=$! &&
    until grep -q "iteration  *5/" out || ! kill -0 $pid; do sleep 0.1; done
    lost=$(own h2 mds_pretrain)
    plug h2 down; wait $pid; status=$?
    for _ in $(seq 150); do kill -0 $lost 2>/dev/null || break; sleep 0.1; done
    left=$(for p in $lost; do kill -0 $p 2>/dev/null && echo $p; done)
    plug h2 up; undisturbed $status && test -n "$lost" && test -z "$left" && grep "node h2.* is left out" out && ! grep "another run saves there" out
'
# Twelve steps, with validation that would take minutes after each.
# shellcheck disable=SC2086  # lists of words
long() {
    pbs on h1 timeout 60 mds_launch run --machine hydra.yaml --nodes 3 --layout given -- $tiny --data-path long.h5 --split 5,95,0 \
        --eval-interval 1 --global-batch-size 12 --train-iters 12 --save late --load late --metrics-jsonl late.jsonl --exit-signal-handler "$@"
}
test_expect_success 'the walltime ends an evaluation on three hosts: all save and leave, and the next job begins with it' '
    for _ in $(seq 100000); do echo "words of a text that is long enough for minutes of evaluation"; done >words &&
    mds_data make --tokenizer bytes --output long.h5 words && : >out &&
    { long --eval-iters 1e12 >out 2>&1 & } && pid=$! &&
    until grep "iteration  *1/" out; do sleep 0.1; done && sleep 1 && begin=$(date +%s) &&
    launcher=$(own h1 mds_launch) && kill -USR1 $launcher && sleep 2 && { kill -TERM $launcher; wait $pid; status=$?; cat out; } &&
    echo "ended after $(($(date +%s) - begin)) s, status $status" && test $status -ge 85 && test $status -le 86 &&
    test "$(cat late/latest)" = iter_0000001 && grep "evaluation at iteration 1 is left to the next job: signal" out &&
    long --eval-iters 2 --exit-interval 1 >out 2>&1; status=$?; cat out && test $status -eq 85 &&
    grep -A 1 "\"event\":\"run\"" late.jsonl | tail -n 1 | grep "\"event\":\"eval\".*\"iteration\":1,"
'

test_done
