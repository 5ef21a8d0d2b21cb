#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_pretrain: runs, and how they end'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output tokens.h5 "$srcdir/tests/data/lambda.fna.gz"

small='--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32
    --train-iters 6 --global-batch-size 4 --lr 1e-3 --log-interval 2 --eval-iters 0
    --threads 1 --data-path tokens.h5'
# pretrain OPTIONS...: a small run
pretrain() {
    # shellcheck disable=SC2086  # a list of words
    mds_pretrain $small "$@"
}
# ranks N OPTIONS...: the same on N ranks, each of which leaves its process id in pids/
# shellcheck disable=SC2086  # lists of words
ranks() {
    n=$1
    shift
    rm -rf pids && mkdir pids &&
        timeout 60 $MPIEXEC -n "$n" sh -c 'echo >pids/$$ && exec "$@"' sh \
            ${under-} mds_pretrain $small "$@" </dev/null
}
# in_background OPTIONS...: steps on two ranks until stopped, the third is done on return;
# output in out, in the end the status in status
in_background() {
    rm -f status out
    {
        ranks 2 --train-iters 100000000 --log-interval 1 "$@" >out 2>&1
        echo $? >status
    } &
    until grep -q "iteration  *3/" out 2>/dev/null; do
        test ! -e status || return 1
        sleep 0.1
    done
}
# running: ranks of the last run that are alive.  Zombies are not; they are what containers
# without an init keep.
running() {
    for f in pids/*; do
        awk '$1 == "State:" && $2 !~ /^[ZX]/ { print FILENAME }' "/proc/${f#pids/}/status"
    done 2>/dev/null
}
losses() {
    sed -n 's/.*"lm_loss":\([^,]*\),.*/\1/p' "$1"
}

test_expect_success 'a run trains, evaluates and reports' '
    pretrain --eval-iters 2 --eval-interval 4 --metrics-jsonl run.jsonl \
        --tensorboard-dir tb --export-weights w.safetensors >out 2>err &&
    ! grep "error\|warn" err &&
    grep -E "^ iteration +6/ +6 \| consumed samples: +24 \| consumed tokens: +768 \|" out &&
    grep "lm loss: [0-9.]*E+00 | grad norm:" out &&
    grep "validation loss at iteration 4 " out &&
    grep "unigram entropy" out &&
    grep "activations" out &&
    test "$(grep -c "\"event\":\"step\"" run.jsonl)" -eq 6 &&
    test -s w.safetensors &&
    ls tb/events.out.tfevents.* &&
    ! ls ./*.partial
'
test_expect_success 'each split has its files; epochs and meeting documents are told once' '
    mds_data make --tokenizer codon --output two.h5 "$srcdir/tests/data/lambda.fna.gz" \
        "$srcdir/tests/data/lambda.fna.gz" &&
    (small=${small%--data-path*} &&
        ranks 2 --pack-documents off --train-data-path two.h5 --valid-data-path tokens.h5 --global-batch-size 400 \
            --eval-iters 1 >o 2>e &&
        test_expect_code 1 pretrain --valid-data-path tokens.h5 2>missing &&
        pretrain --skip-train --init-weights w.safetensors --eval-iters 1 \
            --train-iters 10000 --train-data-path two.h5 \
            --test-data-path tokens.h5 >alone 2>&1) &&
    grep "data: two.h5, test tokens.h5: codon, 48.50 k" alone && grep "test loss at" alone &&
    ! grep "validation loss\|epochs" alone &&
    grep "needs --train-data-path" missing && cat e && grep "validation loss at" o &&
    grep "data: 32.34 k tokens for training, 16.17 k for validation, 0 for test$" e &&
    grep "data: two.h5: 2.38 epochs, each of 1010 windows of 32 tokens$" e &&
    test "$(grep -c "windows may cross from one document into the next" e)" -eq 1 &&
    pretrain >o 2>e && ! grep "epochs\|may cross" e
'
test_expect_success 'files of one input, held apart: a warning' '(
    genome=$srcdir/tests/data/lambda.fna.gz &&
    mds_data make --tokenizer codon --strand reverse --output reverse.h5 "$genome" &&
    small=${small%--data-path*} && said="both made from $genome, so tokens held out of one" &&
    pretrain --data-path 1 tokens.h5 1 reverse.h5 >o 2>e && grep -F "tokens.h5 and reverse.h5 were $said" e &&
    pretrain --train-data-path two.h5 --valid-data-path tokens.h5 >o 2>e && grep -F "$said" e &&
    pretrain --data-path 1 tokens.h5 1 reverse.h5 --split 1 >o 2>e && ! grep warn e &&
    cp tokens.h5 alike.h5 && pretrain --data-path 1 tokens.h5 1 alike.h5 >o 2>e && ! grep warn e
)'
# evaluated RANKS OPTIONS...: split, iteration and loss of each evaluation; weights stay
evaluated() {
    n=$1
    shift
    rm -f eval.jsonl && ranks "$n" --lr 0 --split 50,25,25 "$@" --metrics-jsonl eval.jsonl >evals &&
        sed -n 's/.*"eval",.*"split":"\([a-z]*\)","iteration":\([0-9]*\),"lm_loss":\([0-9.]*\),.*/\1 \2 \3/p' \
            eval.jsonl | awk '{ printf "%s %d %.8f\n", $1, $2, $3 }'
}
# A quarter of the genome has 126 windows.
test_expect_success 'evaluation: when asked for, over the first windows or all, for any ranks and batch' '
    evaluated 1 --train-iters 5 --eval-interval 2 --eval-iters 3 >each &&
    test "$(cut -d" " -f1,2 each | tr "\n" " ")" = "validation 2 validation 4 validation 5 test 5 " &&
    tail -n 2 each | sed "s/ 5 / 1 /" >twelve && head -n 3 each | cut -d" " -f3 | uniq | wc -l | grep -x 1 &&
    evaluated 1 --train-iters 1 --eval-iters 1 --global-batch-size 12 >got && test_cmp twelve got &&
    evaluated 2 --train-iters 1 --eval-iters 3 >got && test_cmp twelve got &&
    evaluated 1 --train-iters 1 --eval-iters 14 --global-batch-size 9 >all && ! cmp -s twelve all &&
    evaluated 1 --train-iters 1 --eval-iters 15 --global-batch-size 9 >got && test_cmp all got &&
    evaluated 2 --train-iters 1 --eval-iters 2 --global-batch-size 252 >got && test_cmp all got
'
# Each window once: batches that do not divide 126, ranks that get fewer rows or none, stages.
test_expect_success 'evaluation: every window once, in any batch and layout' '
    for way in "1 16" "1 100 --micro-batch-size 25" "2 32 --micro-batch-size 16" "4 160 --micro-batch-size 5" \
        "3 12" "2 10 --pipeline-model-parallel-size 2 --micro-batch-size 5" "2 8 --context-parallel-size 2" \
        "4 48 --zero-stage 3 --micro-batch-size 4"; do
        set -- $way && n=$1 batch=$2 && shift 2 &&
        evaluated $n --train-iters 1 --eval-iters 1e9 --global-batch-size $batch "$@" >got &&
            test_cmp all got && test "$(grep -c "loss at .* | targets: 4032 | samples: 126 |" evals)" -eq 2 || {
            echo "$way" && return 1
        }
    done &&
    evaluated 1 --train-iters 1 --eval-iters 3 >got && grep "targets: 384 | samples: 12 of 126 |" evals
'
# value WHAT: the loss, and the number of targets, of lines of evals
value() {
    sed -n "s/^ validation loss at iteration 1$1 | lm loss value: \([^ ]*\) .* targets: \([0-9]*\) .*/\1 \2/p" evals
}
test_expect_success 'evaluation of a mix: the mean over all tokens, and each file by name' '
    evaluated 1 --train-iters 1 --eval-iters 1e9 --data-path two.h5 >got && alone=$(value "") && test -n "$alone" &&
    for n in 1 2; do
        evaluated $n --train-iters 1 --eval-iters 1e9 --global-batch-size 10 --data-path 9 tokens.h5 1 two.h5 \
            >got && grep "validation loss" evals && test "$(value " in two.h5")" = "$alone" &&
        { value "" && value " in tokens.h5" && value " in two.h5"; } | awk "
            NR == 1 { all = \$1; targets = \$2; next }
            { sum += \$1 * \$2; n += \$2 }
            END { d = all - sum / n; exit !(NR == 3 && n == targets && d < 2e-6 && d > -2e-6) }" || return 1
    done &&
    grep "\"eval_file\",.*\"file\":\"two.h5\",\"lm_loss\":" eval.jsonl &&
    evaluated 1 --train-iters 1 --eval-iters 9 --pack-documents off --data-path 9 tokens.h5 1 two.h5 >got &&
    grep "samples: 36 of 378" evals && grep "in tokens.h5 .* targets: 384 " evals &&
    grep "in two.h5 .* targets: 768 " evals
'

test_expect_success 'exported weights start another run where the first ended' '
    pretrain --lr 0 --train-iters 1 --init-weights w.safetensors --eval-iters 2 >out2 2>&1 &&
    last=$(sed -n "s/.*validation loss at iteration 6 | lm loss value: \([^ ]*\) .*/\1/p" out) &&
    test -n "$last" &&
    grep "validation loss at iteration 1 | lm loss value: $last" out2
'
test_expect_success 'a file that --show-config printed gives the same run' '
    pretrain --show-config >run.yaml &&
    mds_pretrain --config run.yaml --metrics-jsonl a.jsonl >out 2>&1 &&
    pretrain --metrics-jsonl b.jsonl >out 2>&1 &&
    losses a.jsonl >a && losses b.jsonl >b &&
    test "$(wc -l <a)" -ge 6 && test_cmp a b
'
test_expect_success '--profile says where the time of its steps went, and changes nothing' '
    pretrain --metrics-jsonl a.jsonl >out 2>&1 &&
    pretrain --metrics-jsonl p.jsonl --profile --profile-step-start 2 \
        --profile-step-end 5 >out 2>&1 &&
    losses a.jsonl >a && losses p.jsonl >p && test_cmp a p &&
    grep "^profile: where the device.s time goes" out &&
    grep "^ *linear_fwd " out && grep "^ *adamw " out &&
    ! grep "^communication" out &&
    grep -c "\"event\":\"profile_step\"" p.jsonl >n && test "$(cat n)" -eq 3 &&
    grep "\"event\":\"profile_step\".*\"iteration\":3," p.jsonl &&
    grep "\"event\":\"profile_operation\".*\"name\":\"attention_fwd\",\"steps\":3" p.jsonl
'
test_expect_success '--profile names what the host does of --cpu-optimizer' '
    ! grep "profile_host" p.jsonl &&
    pretrain --cpu-optimizer --metrics-jsonl h.jsonl --profile --profile-step-start 2 \
        --profile-step-end 5 >out 2>&1 &&
    grep "^updates by rank 0.s host, per step" out &&
    grep "^ *adamw " out >rows && test "$(wc -l <rows)" -eq 1 &&
    sed -n "s/.*profile_host.*\"adamw\",\"steps\":3,\"calls\":\([0-9]*\),\"time_s\":\([^,]*\),.*/\1 \2/p" \
        h.jsonl >host && test "$(wc -l <host)" -eq 1 &&
    awk "{ exit !(\$1 >= 6 && \$1 % 3 == 0 && \$2 > 0) }" host
'
test_expect_success '--deterministic-mode changes nothing on cpu, and runs repeat there anyway' '
    pretrain --deterministic-mode --metrics-jsonl d.jsonl >out 2>&1 &&
    losses d.jsonl >d && test_cmp a d
'
test_expect_success 'USE_FLASH_ATTN=0: losses are the same to rounding, and the log says so' '
    ! grep "attention: plain" out &&
    USE_FLASH_ATTN=0 pretrain --metrics-jsonl n.jsonl >out 2>&1 &&
    grep "attention: unfused math" out && ! grep "warn" out &&
    losses n.jsonl >n && paste a n >both && test "$(wc -l <both)" -eq 6 &&
    awk "{ d = \$1 - \$2; if (d > 1e-5 || d < -1e-5) exit 1 }" both
'
test_expect_success '--profile on two ranks: communication, and what is not overlapped' '
    ranks 2 --zero-stage 3 --metrics-jsonl p.jsonl --profile --profile-step-start 1 \
        --profile-step-end 2 >out 2>&1 &&
    grep "^communication of rank 0" out && grep "^ *reduce_scatter " out &&
    grep "\"event\":\"profile_comm\".*\"name\":\"all_gather\"" p.jsonl
'
test_expect_success '--profile of steps that do not come is a warning, of no steps a fault' '
    pretrain --profile >out 2>&1 && grep "warn.*--profile: nothing was measured" out &&
    test_must_fail pretrain --profile --profile-step-end 10 >out 2>&1 &&
    grep "command line: --profile measures the steps after" out
'
test_expect_success '--skip-train: the time it says is that of the evaluation' '
    pretrain --skip-train --init-weights w.safetensors --eval-iters 20 --metrics-jsonl skipped.jsonl --log-level debug >out 2>err &&
    grep "evaluated in" out && cat skipped.jsonl && ! grep "debug: iteration .* so far" err &&
    sed -n "s/.*\"train_s\":\([^,]*\).*/\1/p" skipped.jsonl | awk "{ n++; bad = \$1 < 0.002 } END { exit n != 1 || bad }"
'
test_expect_success '--log-level: errors alone, or what helps to find a fault too' '
    pretrain --train-iters 1 --log-level error >out 2>err && test ! -s err && grep "iteration" out &&
    pretrain --train-iters 1 --log-level debug >out 2>err && grep "mds: info: device: cpu" err &&
    grep "mds: debug: .* per rank: " err &&
    grep "mds: debug: iteration 1: [0-9]* s so far, backward, layer 1 of 2, micro-batch 4 of 4" err &&
    test_must_fail pretrain --log-level loud 2>err &&
    grep "loud" err && grep "error, warn, info, debug" err
'
# on_screen COLUMNS: what a run writes on a terminal that is so wide
on_screen() {
    SHELL=/bin/sh cols=$1 small=$small script -qec 'stty cols $cols && mds_pretrain $small' /dev/null \
        </dev/null >out && cat -v out
}
script -qec true /dev/null </dev/null >/dev/null 2>&1 && test_set_prereq SCRIPT
test_expect_success SCRIPT 'a line that is rewritten, but not where mpirun feigns a terminal' '
    on_screen 80 | grep "\^M^\[\[Kstep 1/6 " && on_screen 0 >seen && cat seen &&
    grep "iteration  *6/" seen && ! grep "\^\[\[K\|step 1/6" seen
'
test_expect_success 'leaves after --exit-interval' '
    test_expect_code 1 pretrain --exit-interval 4 >out 2>&1 &&
    grep "iteration 4 of 6" out && ! grep "iteration  *6/" out
'
test_expect_success 'leaves after --exit-duration-in-mins' '
    test_expect_code 1 pretrain --train-iters 100000000 --exit-duration-in-mins 1s --log-interval 100000 \
        >out 2>&1 &&
    grep -i "duration" out
'
# leaves_at SIGNAL [COMMAND...]: ranks run under the command; the shell itself lets those in
# the background ignore SIGINT
leaves_at() {
    sig=$1
    shift
    rm -f w2.safetensors
    under="$*" in_background --exit-signal-handler --export-weights w2.safetensors &&
        (cd pids && kill -s "$sig" -- *) &&
        wait && cat out && test "$(kill -l "$(cat status)")" = "$sig" &&
        grep -i "signal" out && test -s w2.safetensors
}
test_expect_success 'leaves in order at a signal when asked to, saving weights' 'leaves_at USR1'
! env --default-signal=INT true 2>/dev/null || test_set_prereq DEFAULT_SIGNAL
test_expect_success DEFAULT_SIGNAL 'and at Ctrl-C' 'leaves_at INT env --default-signal=INT'
test_expect_success DEFAULT_SIGNAL 'a run that saves does so at Ctrl-C without being asked to' '
    rm -rf ctrlc && under="env --default-signal=INT" in_background --save ctrlc &&
    (cd pids && kill -s INT -- *) && wait && cat out && grep "ended by signal" out && mds_ckpt verify ctrlc
'
test_expect_success 'a rank that is killed in mid-step takes the run with it, in seconds' '
    in_background &&
    before=$(date +%s) &&
    kill -KILL "$(ls pids | tail -n 1)" &&
    wait && cat out &&
    test $(($(date +%s) - before)) -lt 15 &&
    test "$(cat status)" -ne 0 && test "$(cat status)" -ne 124 &&
    sleep 1 && test -z "$(running)"
'
test_expect_success 'a rank that falls silent ends the run after --distributed-timeout-minutes' '
    in_background --distributed-timeout-minutes 5s &&
    kill -STOP "$(ls pids | tail -n 1)" &&
    wait && cat out &&
    grep "error: .*: rank [01] has been silent for 5 s" out &&
    test "$(cat status)" -ne 0 && test "$(cat status)" -ne 124 &&
    sleep 1 && test -z "$(running)"
'
test_expect_success '--log-format short: lines for people, with the last validation' '
    pretrain --eval-iters 1 --eval-interval 2 --log-format short >out 2>err && cat out err && ! grep "iteration  " out &&
    grep "^step 2/6  loss [0-9.]*  [0-9.]* k* *tokens/s  ETA [0-9.]* s$" out &&
    grep "^step 4/6  loss [0-9.]*  val [0-9.]*  [0-9]" out && grep "^validation at step 4: loss [0-9.]*, perplexity [0-9.]*, 4 of 25 windows$" out &&
    test "$(grep -c "info: evaluating validation: 4 windows" err)" -eq 3
'
test_expect_success 'a file has the line of Megatron, and so has --log-format megatron' '
    pretrain >out && grep "^ iteration  *2/" out && pretrain --log-format megatron >out && grep "^ iteration  *2/" out
'
script -qec true /dev/null >/dev/null 2>&1 && test_set_prereq SCRIPT
test_expect_success SCRIPT 'a terminal has the short line' '
    TERM=dumb script -qec "stty cols 80; mds_pretrain $(echo $small)" /dev/null >out </dev/null; tr "\r" "\n" <out | grep "^[^a-z]*step 6/6  loss " && ! grep "^ iteration" out
'
test_expect_success 'a short run shows more than its last line, unless --log-interval says otherwise' '
    pretrain --log-interval 0 >out && test "$(grep -c "^ iteration " out)" -eq 6 && pretrain --log-interval 0 --train-iters 25 >out &&
    test "$(grep -c "^ iteration " out)" -eq 5 && pretrain --log-interval 100 >out && test "$(grep -c "^ iteration " out)" -eq 1
'

# loss_at FILE: of each iteration
loss_at() {
    sed -n 's/.*"iteration":\([0-9]*\),.*"lm_loss":\([^,]*\),.*/\1 \2/p' "$1"
}
test_expect_success 'attention logits are logged and clipped; what cannot be clipped is refused' '
    rm -f plain.jsonl clip.jsonl && pretrain --log-max-attention-logit --metrics-jsonl plain.jsonl >out &&
    grep "\"attention_logit_bounds\":\[[0-9.]*,[0-9.]*\]" plain.jsonl && test_must_fail grep clipped plain.jsonl &&
    pretrain --qk-clip --qk-clip-threshold 9 --init-method-std 0.5 --log-format megatron --metrics-jsonl clip.jsonl >out &&
    grep "| attention logits up to: [0-9.]* (layer [01]) | clipped heads: [0-9]* |" out &&
    grep "\"iteration\":1,.*\"qk_clipped_heads\":[1-9]" clip.jsonl &&
    test_must_fail pretrain --qk-clip --qk-clip-threshold 5 2>err && grep "error: .*--qk-clip-threshold 5 .*at least 2 ln(" err &&
    test_must_fail pretrain --qk-clip --qk-layernorm 2>err && grep "error: .*--qk-layernorm undo" err &&
    pretrain --qk-clip-alpha 1 >out 2>err && grep "warn: .*--qk-clip-alpha is ignored without --qk-clip" err
'

test_expect_success 'the z-loss acts on weights; the loss that is shown is without it' '
    rm -f plain.jsonl z.jsonl && pretrain --metrics-jsonl plain.jsonl >out && pretrain --z-loss 1 --metrics-jsonl z.jsonl >out &&
    loss_at plain.jsonl >plain && loss_at z.jsonl >z && test "$(wc -l <z)" -eq 6 && test "$(head -n 1 plain)" = "$(head -n 1 z)" &&
    test "$(tail -n 1 plain)" != "$(tail -n 1 z)" && test_must_fail pretrain --z-loss -1 2>err && grep "error: .*--z-loss" err
'

test_done
