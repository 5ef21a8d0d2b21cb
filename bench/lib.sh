# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034,SC2154
# For the scripts of bench/, which source this file.  They set what the functions that they call
# need, of: me (their name), build, python, device, limit, records, and for each row: row gpus
# layers hidden heads seq.

# Options that a layout does not name, for plans that choose nothing: what follows them overrides.
fixed_layout='--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --sequence-parallel=0
    --ds-sequence-parallel-size 1 --context-parallel-size 1 --zero-stage 0
    --loss-tile 0 --sequence-tile 0 --offload-param-device none --no-cpu-checkpointing
    --cpu-offloading-num-layers 0'

die() {
    echo "$me: $1" >&2
    exit 1
}

# shellcheck source=tests/gpu/build.sh
. "$here/../tests/gpu/build.sh"

# Find the build directory, and make a folder to work in.
open_build() {
    unset MDS_BUILD # mds_pretrain would take it for an option
    [ -x "$build/src/programs/mds_pretrain" ] ||
        die "$build: no src/programs/mds_pretrain there; give the build directory"
    build=$(cd "$build" && pwd) || exit 1
    use_build "$(cd "$here/.." && pwd)" "$build" || exit 1
    work=$(mktemp -d "${TMPDIR:-/tmp}/mds-bench.XXXXXX") || exit 1
    sampler=
    trap 'stop_memory_sampler; rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    "$python" "$here/records.py" tokens "$work/tokens" || die "no tokens could be made"
}

# The build directory, and a folder to work in, for programs that run mds_launch plan alone.
open_plans() {
    unset MDS_BUILD # mds_launch knows all variables that begin so
    [ -x "$build/src/programs/mds_launch" ] ||
        die "$build: no src/programs/mds_launch there; give the build directory"
    use_build "$(cd "$here/.." && pwd)" "$(cd "$build" && pwd)" || exit 1
    work=$(mktemp -d "${TMPDIR:-/tmp}/mds-bench.XXXXXX") || exit 1
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
}

# open_results ADD FILE: results go to FILE, records to FILE.jsonl; emptied unless ADD is set
open_results() {
    results=$2 records=$2.jsonl
    mkdir -p "$(dirname "$results")" || exit 1
    [ -n "$1" ] || : > "$records"
}

# add_records WHO: add JSON lines from stdin to the records, with this row and WHO
add_records() {
    sed -n 's/^{/{"row": "'"$row"'", "who": "'"$1"'", /p' | tee -a "$records"
}

# record_failure WHO TRY LOG: a record of $status and of the first error in LOG
record_failure() {
    why=$(grep -a -i 'error\|fail\|refused' "$3" | head -n 1 | tr -d '"\\\t' | cut -c1-200)
    [ "$status" != 124 ] || why='took longer than its limit'
    [ -n "$why" ] || why=$(tail -n 1 "$3" | tr -d '"\\\t' | cut -c1-200)
    echo "{\"try\": \"$2\", \"error\": \"status $status: $why\"}" | add_records "$1"
}

try_help='comma-separated words: N: micro-batch size; none, selective, full,
                      ln, act, ln+act, ln+mlp: what is recomputed (blocks, norms,
                      activation, MLP);
                      kN: blocks per checkpoint; host: checkpoints on the host;
                      hostN: N blocks offloaded; zN: ZeRO stage; opt: optimizer on the
                      host, nvme: in a file in NVME_PATH, rest: weights on the host, too;
                      tpN, sp, uN, ringN, ppN: parallel sizes; gN: micro-batches per
                      step; tN, lN: tiles of sequence and loss; headsN: groups of heads;
                      xN: chunks of tensor-parallel communication; aN%, dN%: blocks that
                      keep attention, and that keep inputs on the device; rope; wN: window of N keys, globalN: but in
                      every N-th block; fp8: linear layers in FP8'

# parse_try TRY: set $options to the options of mds_pretrain that its words stand for.
parse_try() {
    options=
    memory=
    for word in $(echo "$1" | tr , ' '); do
        n=${word#"${word%%[0-9]*}"}
        case $word in
        [0-9]*) more="--micro-batch-size $word" ;;
        none | selective | full) more="--recompute-granularity $word" ;;
        ln) more='--recompute-granularity selective --recompute-modules layernorm' ;;
        act) more='--recompute-granularity selective --recompute-modules mlp_act' ;;
        ln+mlp) more='--recompute-granularity selective --recompute-modules layernorm,mlp' ;;
        ln+act) more='--recompute-granularity selective --recompute-modules layernorm,mlp_act' ;;
        host) more=--cpu-checkpointing ;;
        host[0-9]*) more="--cpu-offloading-num-layers $n" ;;
        opt) more=--cpu-optimizer ;;
        nvme) more="--offload-device nvme --nvme-path ${NVME_PATH:-/tmp}" ;;
        rest) more="--cpu-optimizer --offload-param-device cpu" ;;
        rope) more=--use-rotary-position-embeddings ;;
        fp8) more='--fp8-format hybrid' ;;
        w[0-9]*) more="--window-size $n" ;;
        global[0-9]*) more="--window-attn-skip-freq $n" ;;
        sp) more=--sequence-parallel ;;
        z[0-3]) more="--zero-stage $n" ;;
        tp[0-9]*) more="--tensor-model-parallel-size $n" ;;
        u[0-9]*) more="--ds-sequence-parallel-size $n" ;;
        x[0-9]*) more="--tp-comm-chunks $n" ;;
        ring[0-9]*) more="--context-parallel-size $n" ;;
        pp[0-9]*) more="--pipeline-model-parallel-size $n" ;;
        g[0-9]*) more="--gradient-accumulation-steps $n" ;;
        k[0-9]*) more="--checkpoint-num-layers $n" ;;
        t[0-9]*) more="--sequence-tile $n" ;;
        a[0-9]*%) more='' memory="$memory,attention=$((layers * ${n%?} / 100))" ;;
        d[0-9]*%) more='' memory="$memory,inputs=$((layers * ${n%?} / 100))" ;;
        heads[0-9]*) more="--attention-head-groups $n" ;;
        l[0-9]*) more="--loss-tile $n" ;;
        *)
            echo "error: a try has no word $word; see --help" > "$work/log"
            return 1
            ;;
        esac
        options="$options $more"
    done
    options="$options${memory:+ --activation-memory ${memory#,}}"
}

# Sample the memory in use twice a second: of each GPU (MiB), and of the host (KiB).
start_memory_sampler() {
    : > "$work/memory"
    : > "$work/host"
    (while sleep 0.5; do
        awk '/^MemTotal|^MemAvailable/ { v[++n] = $2 } END { print v[1] - v[2] }' \
            /proc/meminfo >> "$work/host"
        [ "$here_gpus" -eq 0 ] ||
            ask_gpus memory.used >> "$work/memory" 2>&1
    done) &
    sampler=$!
}

stop_memory_sampler() {
    [ -z "$sampler" ] || kill "$sampler" 2> "$work/null"
    sampler=
}

# pretrain TRY STEPS OPTIONS...: run mds_pretrain on the row's shape.  Sets $status and
# $started_at; leaves $work/log and $work/steps.jsonl.
pretrain() {
    status=-
    parse_try "$1" || return
    steps_of_run=$2
    shift 2
    rm -f "$work/steps.jsonl"
    start_memory_sampler
    started_at=$(date +%s.%N)
    # MPIEXEC and the options are lists of words
    # shellcheck disable=SC2086
    timeout -k 5 "$limit" $MPIEXEC -n "$gpus" mds_pretrain --device "$device" --bf16 \
        --data-path "${tokens:-$work/tokens}" --split 1,0,0 --vocab-size "${vocab:-50257}" \
        --num-layers "$layers" --hidden-size "$hidden" --num-attention-heads "$heads" \
        --seq-length "$seq" --lr 1e-4 --weight-decay 0.1 --adam-beta2 0.95 --clip-grad 1.0 \
        --eval-iters 0 --train-iters "$steps_of_run" --log-interval "$steps_of_run" \
        --metrics-jsonl "$work/steps.jsonl" $options ${model_options-} ${BENCH_FLAGS-} "$@" \
        > "$work/log" 2>&1 < /dev/null
    status=$?
    stop_memory_sampler
}

# Print the GPUs, and the versions of CUDA and mds.
describe_machine() {
    if command -v nvidia-smi > "$work/null"; then
        ask_gpus name,memory.total,driver_version |
            sed 's/\(, [0-9]*\),/\1 MiB,/' | sort | uniq -c
    fi
    [ -z "$(command -v nvcc)" ] || nvcc --version | grep release
    mds_pretrain --version
    git -C "$srcdir" log -1 --format='commit %h' 2>&1 | grep '^commit'
}
