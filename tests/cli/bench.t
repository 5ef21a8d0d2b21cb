#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='bench: on a machine without a GPU the scripts run, and one bad run stops none'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

command -v python3 >/dev/null && test_set_prereq PYTHON
BENCH_DEVICE=cpu
export BENCH_DEVICE

# bench NAME OPTIONS...: bench/NAME with its results in ./results
bench() {
    name=$1
    shift
    "$srcdir/bench/$name" --results results "$@" "$builddir" >out 2>&1 || {
        cat out
        false
    }
}

test_expect_success 'each script says how to use it, and begins nothing' '
    n=0 &&
    for script in $(grep -l "^#!/bin/sh" "$srcdir"/bench/*); do
        timeout 20 "$script" --help >out 2>err && grep -i "^usage: bench/" out && test ! -s err || { echo "$script"; cat err; return 1; }
        n=$((n + 1))
    done &&
    test $n -gt 12 &&
    for script in async-save checkpoint; do
        test_must_fail "$srcdir/bench/$script" build 2>err && grep "is no number of rounds" err || return 1
    done &&
    test_must_fail "$srcdir/bench/offload" nowhere 2>err && grep "give the build directory" err
'

made_with() { sed -n "s/.*Produced by GNUPLOT \([0-9.]* patchlevel [0-9]*\).*/\1/p" "$1"; }
here=$(gnuplot --version 2>/dev/null | sed 's/gnuplot //; s/ *$//')
[ "$here" = "$(made_with "$srcdir/docs/img/beside-peers.svg")" ] && test_set_prereq GNUPLOT
test_expect_success GNUPLOT 'figures: the plots of README are those of bench/results' '
    mkdir img && "$srcdir/bench/figures" img &&
    for plot in beside-peers tflops-by-length scaling fp8-curves mup-rates; do
        cmp img/$plot.svg "$srcdir/docs/img/$plot.svg" || return 1
    done
'

test_expect_success 'context-extension: losses by length and by position, before and after' '
    bench context-extension --steps 4 --extend-steps 2 --type ntk && cat results &&
    grep "^# 343[0-9][0-9] tokens of text; 4 steps with 64 tokens, then 2 with 256 and ntk" results &&
    grep -E "^64( [0-9.]{6}){3}   0-64( [0-9.]{6}){3}$" results &&
    grep -E "^256( [0-9.]{6}){3}   128-256( [0-9.]{6}){3}$" results
'
test_expect_success 'fp8-curves: validation losses of bf16 and both formats of FP8' '
    seq 2000 >text &&
    BENCH_DEVICE=cpu "$srcdir/bench/fp8-curves" --results results --sizes 124m --steps 4 "$builddir" text >out 2>&1 && cat out &&
    grep "^# 124m: 4 steps of 4 x 64 tokens; seed 1234; text of 8894 tokens" results &&
    test "$(grep -cE "^124m [1-4]( [0-9.]{7}){4}( (1\.00|0\.99)[0-9]{3}){3}$" results)" -eq 4 &&
    test_must_fail "$srcdir/bench/fp8-curves" --sizes 1b "$builddir" text 2>err && grep "unknown size 1b" err
'
test_expect_success 'time-to-loss: AdamW, and Muon in fewer steps, at their best rates with a second seed' '
    BENCH_DEVICE=cpu "$srcdir/bench/time-to-loss" --results results --steps 12 --fewer 1.5 --adamw "1e-3 1e-2" --muon 1e-2 \
        --seeds "1 2" "$builddir" text >out 2>&1 && cat out &&
    grep "^# 124m, 8 x 64 tokens a step, text of 8894 tokens" results &&
    test "$(grep -c "^adamw 1e-[23] 12 1 [0-9.]* [0-9.]*$" results)" -eq 2 && grep -q "^adamw 1e-[23] 12 2 " results &&
    test "$(grep -cE "^muon 1e-2 8 [12] [0-9.]+ [0-9.]+   [-+][0-9.]+ 1\.50 [0-9.]+$" results)" -eq 2
'
test_expect_success 'muon: steps with both optimizers, layout by layout; one that fails is a line' '
    "$srcdir/bench/muon" --results results --micro 2 --batch 4 --steps 5 --one ",--no-such-option 1" \
        --two "--zero-stage 1" --profile yes "$builddir" >out 2>&1 && cat out &&
    grep -E "^ +1( +-?[0-9.]+){4} %  +0.0   $" results && grep -E "^ +2( +-?[0-9.]+){4} %  +0.0   --zero-stage 1$" results &&
    grep "^1 rank(s) --no-such-option 1: failed" results && grep "muon_product" results &&
    test_must_fail "$srcdir/bench/muon" --steps 3 "$builddir" 2>err && grep "steps 3: the first three do not count" err
'
test_expect_success 'mup: a loss for each width and rate, without and with muP' '
    "$srcdir/bench/mup" --results results --widths "32 64" --rates "1e-3 4e-3" --steps 10 "$builddir" text >out 2>&1 && cat out &&
    grep "^# 10 steps of 8 x 64 tokens, text of 8894 tokens, seeds 1234; base width 32" results &&
    test "$(grep -cE "^(32|64) (without|with) [14]e-3 [0-9]\.[0-9]{4}$" results)" -eq 8 &&
    grep -E "^# 64 with [14]e-3 [0-9.]+$" results &&
    test "$(awk "\$1 == 32 && \$3 == \"1e-3\" { print \$4 }" results | uniq | wc -l)" -eq 1
'
test_expect_success 'fp8-curves: a signal ends its training runs' '
    mkdir -p stub/src/programs && echo "echo 9 tokens" >stub/src/programs/mds_data &&
    echo "echo \$\$ >>pids; exec sleep 20" >stub/src/programs/mds_pretrain && chmod +x stub/src/programs/* && : >pids &&
    { "$srcdir/bench/fp8-curves" --results results stub text & } && script=$! && tries=0 &&
    until [ "$(wc -l <pids)" -eq 4 ] || [ $((tries += 1)) -gt 100 ]; do sleep 0.1; done &&
    kill $script && test_expect_code 1 wait $script && test "$(wc -l <pids)" -eq 4 &&
    for pid in $(cat pids); do test_must_fail kill -0 $pid || return 1; done
'
# 32 documents of 1519 tokens in all: three rows of 512 if packed, 32 if not.
test_expect_success PYTHON 'packing: real tokens a second of packed and of padded rows, and the ceiling' '
    bench packing --layers 1 --hidden 16 --heads 2 --seq 512 --median 16 --rows 3 --steps 1 &&
    cat results && grep "^# 32 documents, 1519 tokens: .* of 3 rows.; packed 3 rows of 512 tokens, 1.3 % padding" results &&
    awk "\$1 ~ /^(packed|padded|ceiling)\$/ { n++; if (\$2 * \$3 < 1510 || \$2 * \$3 > 1528) bad = 1; s[\$1] = \$2 }
        END { exit bad || n != 3 || s[\"padded\"] <= s[\"ceiling\"] }" results &&
    test_must_fail env BENCH_FLAGS=--nonsense "$srcdir/bench/packing" --seq 512 --median 16 "$builddir" 2>err &&
    grep "the padded run timed no step" err && grep "mds: error: .*--nonsense" err
'
test_expect_success 'startup: a line for each number of ranks, and for one that fails' '
    bench startup --ranks "1 2" && grep -E "^ +2( +[0-9]+\.[0-9]{2}){5}$" results && test "$(grep -c "^ *[12] " results)" -eq 2 &&
    printf "#!/bin/sh\n[ \"\$1\" != -n ] || exec sleep 30\n" >hangs && chmod +x hangs &&
    test_must_fail env MPIEXEC="$PWD/hangs" "$srcdir/bench/startup" --results results --ranks 2 --limit 0.1 "$builddir" &&
    grep "^failed:  2: status 124" results
'
test_expect_success 'kernels: a product is timed' '
    "$builddir/bench/kernels" -t 1 product=64,64,64 >out && cat out &&
    grep -E "^product 64 64 64( 0\.[0-9]+){3}$" out &&
    "$builddir/bench/kernels" -t 1 copy >out && grep -E "^copy [1-9][0-9.e+]*$" out &&
    "$builddir/bench/kernels" -t 1 -p bf16 step=1000 norm=8,64 embedding=8,64,100 \
        loss=8,100 fp8-cast=8,80 >out &&
    grep "^adamw .* GB/s " out && test "$(grep -c "^fp8_cast .* GB/s " out)" -eq 7 &&
    grep "^norm 8 x 64 bwd .* GB/s " out &&
    grep "^embedding 8 of 100 bwd .* GB/s " out &&
    grep "^loss 8 x 100 at once .* GB/s " out
'

test_expect_success PYTHON 'gpu: tries that fail are records, the others are timed' '
    bench gpu --shape "tiny 1 1 16 2 32" --mds-tries "1,nonsense 1,u2 1,host1 1,full,g2" \
        --parts mds --steps 2 --warmup 1 &&
    grep "^ *tiny  *1  *[1-9][0-9]* .* 1,full,g2 " results &&
    grep "^tiny mds 1,nonsense: .*has no word nonsense" results &&
    grep "^tiny mds 1,u2: status 1: .*mds: error" results &&
    grep "^tiny mds 1,host1: status 1: .*num-layers 1: of the 1 block of a model" results &&
    grep "^tiny mds 1,full,g2: .* 2 steps" results
'

test_expect_success PYTHON 'gpu: a later call adds to the records' '
    bench gpu --add --shape "other 2 1 16 2 32" --mds-tries 1,z1 --parts mds --steps 2 \
        --warmup 1 &&
    grep "^ *tiny " results &&
    grep "^ *other  *2 " results
'

# What an operation takes alone and what it loses are what it took.
test_expect_success PYTHON 'gpu: an account of a step, operation by operation' '
    bench gpu --shape "tiny 1 2 16 2 32" --mds-tries "1,none,g2" --parts account --steps 2 \
        --warmup 1 &&
    grep "^tiny account of 1,none,g2, 2 steps:" results &&
    grep "^step .* ms = alone .* copy [0-9.]* GB/s$" results &&
    awk "
        \$1 ~ /^(linear_(fwd|bwd_input|bwd_weight)|attention_(fwd|bwd)|norm_bwd|adamw)$/ {
            seen[\$1] = 1
            d = \$5 - \$6 - \$7
            if (NF != 8 || d > 0.002 || d < -0.002) bad = 1
        }
        \$1 == \"linear_fwd\" && \$6 == \"-\" { bad = 1 } # every shape has a rate
        \$1 == \"norm_bwd\" && \$2 != 10 { bad = 1 } # 2 a layer and the last, twice
        END { n = 0; for (i in seen) n++; exit bad || n != 7 }
    " results &&
    sed "/^product/d" results >none &&
    test_must_fail python3 "$srcdir/bench/account.py" none none 2>err &&
    grep "none: has no line .copy BYTES_A_SECOND" err
'

test_expect_success PYTHON 'gpu: a row that is not there' '
    test_must_fail "$srcdir/bench/gpu" --results none --rows nonsense "$builddir" 2>err &&
    grep "no such row: nonsense" err
'

test_expect_success PYTHON 'longseq: fewer layers than the whole, on a line' '
    bench longseq --shape "tiny 1 8 16 2 64" --layers 1,2 --try 1,full,t32,rope --steps 1 &&
    grep "^tiny  *1  *64  *1,2 of 8 .*1,full,t32,rope" results &&
    grep "^tiny 2 layers, .* 1 steps" results
'

test_expect_success PYTHON 'longseq: layers that have not the mixture of the whole are refused' '
    bench longseq --shape "tiny 1 8 16 2 64" --layers 1,2,8 --try 1,full,k2,t32,rope --steps 1 &&
    grep "^tiny 1,full,k2,t32,rope, 1 layers: status -: error: 1 layers cannot have" results &&
    grep "^ *tiny  *1  *64  *2,8 of 8 " results &&
    bench longseq --shape "tiny 1 4 16 2 64" --layers 3,4 --try 1,none,host1,rope --steps 1 &&
    grep "^tiny 1,none,host1,rope, 3 layers: status -: error: 3 layers cannot have" results &&
    grep "^ *tiny  *1  *64  *4 of 4 " results
'
# Layers of 1 s, and 0.5 s for the rest; 700 TFLOP/s in products, 655 and 541 in attention.
# A block, in units of H^2 a token: 72 of products, 16 again; a million tokens of 128.
record='{"row": "r", "who": "mds", "try": "1,full,t9,a50%", "whole": 40, "hidden": 1024,
    "heads": 8, "vocab": 1000, "seq": 1000000, "need": "1 2", "published": 100,
    "micro_batch": 1, "accumulate": 1, "replicas": 1, "recompute": "full", "gpus": 2,
    "tokens_per_s_per_gpu": 1, "step_min_s": 1, "step_max_s": 1, "steps": 1,
    "causal_tflops_per_gpu": 1, "first_step_s": 1, "loss": 1'
test_expect_success PYTHON 'longseq: the line, the floor and the ratio of known runs' '
    for n in 2 4; do
        echo "$record, \"layers\": $n, \"step_s\": $n.5, \"causal_flops\": ${n}e14," \
            "\"megatron_flops\": ${n}e15}" | tr -d "\n" && echo
    done >records && python3 "$srcdir/bench/records.py" longseq records >out && cat out &&
    floor=$(awk "BEGIN { h = 1024; s = 1e6
        p = s * (40 * h * h * (72 + 16) + 6 * 1000 * h) / 700e12
        a = 2 * 40 * h * s * s * (1.5 / 655e12 + 2.5 / 541e12)
        printf \"%.2f\", (p + a) / 2 }") &&
    grep "^ *r  *2  *1000000  *2,4 of 40  *40.50  *$floor  *49  *494  *100  *4.94 " out
'

test_expect_success PYTHON 'longseq: the longest that fits, by dry runs' '
    bench longseq --longest --rows 1.3b-max --gpu-memory 40 --host-memory 40 &&
    longest=$(sed -n "s/^1.3b-max: longest \([0-9]*\) tokens .*/\1/p" results) &&
    test "$longest" -gt 65536 &&
    test "$longest" -lt 1921024
'

# A layout that cannot be planned and a word that is none stop nothing; three are too few
# for the claim of five.
test_expect_success PYTHON 'plan: predicted beside measured, and whether each claim holds' '
    test_expect_code 2 env NGPUS=2 BENCH_FLAGS="--num-layers 1 --hidden-size 16 \
        --num-attention-heads 2" "$srcdir/bench/plan" --only short --machine localhost \
        --model GPT125M --seq 16 --steps 2 --layouts "1,none,u3 1,none,z1 1,nonsense 1,full,z3,opt" \
        --results results "$builddir" >out 2>&1 &&
    grep "skipped: 1,none,u3: mds: error: 2 ranks do not divide" results &&
    grep "skipped: 1,nonsense: " results &&
    grep "^ *[0-9].* %  *[0-9.]*[1-9][0-9]*  *- .* 1,none,z1$" results &&
    grep "^ *[0-9].* 1,full,z3,opt$" results &&
    grep "^claim memory within 3 %, short: not compared$" results &&
    grep "^claim order of five layouts, short: TOO FEW: 2 ran$" results
'

test_expect_success PYTHON 'plan: a budget that is spent skips what is left' '
    test_expect_code 2 env NGPUS=1 "$srcdir/bench/plan" --only long --machine localhost \
        --model GPT125M --long 16 --budget 0 --layouts "1,none 1,full" \
        --results results "$builddir" >out 2>&1 &&
    grep "skipped: 1,full: 0 s of 0 are left" results
'

test_expect_success 'published: 15 runs of Megatron-LM within 15 %, in their order but for one pair' '
    test_expect_code 1 "$srcdir/bench/published" --rows megatron,sequence-parallel --results results "$builddir" >out 2>&1
    cat out && grep "^7.5B  *128  *4  *1  *32 .* 142  *[-+][0-9.]* %  *computing" results &&
    grep "^claim within 15 % or a reason, megatron: yes: 10 of 10 rows$" results &&
    grep "^claim order of 10 rows, megatron: NO: 33 of 34 pairs; 1.7B was to be faster than 7.5B$" results &&
    grep "^claim within 15 % or a reason, sequence-parallel: yes: 5 of 5 rows$" results &&
    grep "^claim order of 5 rows, sequence-parallel: yes: 7 of 7 pairs$" results
'
test_expect_success 'published: a row that has a reason, and a length' '
    "$srcdir/bench/published" --rows llama3-8b-fp8,longest/25B-32 --results results "$builddir" >out 2>&1 || { cat out; false; } &&
    grep "^\* titan: measured at 500 W" results && grep "^claim within 15 % or a reason, llama3-8b-fp8: yes: 1 of 2 rows; titan" results &&
    grep "^claim published lengths fit: yes: 1 of 1$" results &&
    grep -E "^25B-32 +32 +[0-9]{7} +192000   tensor " results
'

# Published figures that are far off, in the wrong order; a layout that is none.
test_expect_success 'published: an error without a reason, a wrong order and no plan are told' '
    sed -e "/^row megatron.7.5B/s/142$/300/" "$srcdir/bench/published-runs.txt" >table &&
    test_expect_code 1 "$srcdir/bench/published" --table table --results results \
        --rows megatron/7.5B,megatron/145B "$builddir" >out 2>&1 &&
    grep "^claim within .*: NO: 1 of 2 rows; 7.5B -[0-9.]* % has none$" results &&
    grep "^claim order .*: NO: 0 of 1 pairs; 145B was to be faster than 7.5B$" results &&
    sed -e "/^row megatron.7.5B/s/ 128 4 / 128 3 /" "$srcdir/bench/published-runs.txt" >table &&
    sed -i "/^row megatron.7.5B/s/ 128 / 127 /" table &&
    test_expect_code 2 "$srcdir/bench/published" --table table --results results \
        --rows megatron/7.5B "$builddir" >out 2>&1 &&
    grep "^failed:  megatron/7.5B: mds: error: " results &&
    test_must_fail "$srcdir/bench/published" --rows nonsense "$builddir" 2>err &&
    grep "no such row or set" err
'

test_expect_success 'scaling: a line for each number of GPUs, and for one that nothing fits' '
    "$srcdir/bench/scaling" --model GPT1_3B --seq 65536 --machines selene --gpus "32 256" \
        --results results "$builddir" >out 2>&1 || { cat out; false; } &&
    grep "^weak  *selene  *32  *2  *[0-9.]*  *[0-9.]*  tensor .*ZeRO 3, selective" results &&
    test "$(grep -c "^\(weak\|strong\)  *selene  *256  *16 " results)" = 2 &&
    test_must_fail "$srcdir/bench/scaling" --model GPT1T --machines selene --gpus 32 \
        --results results "$builddir" >out 2>&1 &&
    grep "^failed:  weak selene 32: mds: error: no layout of 1048576 tokens fits" results
'

test_expect_success 'kernels: products and attention of the shapes asked for' '
    if test -x "$builddir/bench/kernels"; then
        "$builddir/bench/kernels" -t 1 product=8,8,8 attention=1,8,2,8 >out &&
        grep "^product 8 8 8 0[.0-9]* 0[.0-9]* 0[.0-9]*$" out &&
        grep "^attention 1 8 2 8 0[.0-9]* 0[.0-9]*$" out
    fi
'

test_done
