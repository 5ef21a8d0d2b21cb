#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='plan and submit refuse what the job would refuse, and count its evaluations'
# shellcheck source=tests/launch/batch.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/launch/batch.sh"
# shellcheck source=tests/cli/megatron.sh
. "$srcdir/tests/cli/megatron.sh"
unset DATA_PATH MDS_OVERWRITE
MACHINE=localhost
export MACHINE

# ids NAME WORDS: a token file of as many words
ids() {
    awk -v n="$2" 'BEGIN {
        for (d = 0; d < 20; d++) { for (i = 0; i < 90; i++) printf "%d ", (i * (d + 3) + d) % (n - 1) + 1; print "" }
    }' | mds_data make --tokenizer ids --vocab-size "$2" --eod 0 --output "$1.h5" - >/dev/null
}
megatron wide 'id = (i * (d + 3)) % 120 + 1' && megatron narrow 'id = 5 + (i + d) % 3' && ids all 121 && ids more 200
mds_data make --tokenizer codon --output codon.h5 "$srcdir/tests/data/lambda.fna.gz" &&
    mds_data make --tokenizer 6-mer --output 6-mer.h5 "$srcdir/tests/data/lambda.fna.gz"

options='--threads 1 --seq-length 32 --global-batch-size 4 --log-interval 1 --num-layers 2 --hidden-size 32 --num-attention-heads 4'
pretrain() {
    # shellcheck disable=SC2086  # a list of words
    timeout 60 mds_pretrain $options "$@" >out 2>&1 </dev/null
}
# ahead VERB OPTIONS...: what mds_launch says of such a run
ahead() {
    verb=$1
    shift
    # shellcheck disable=SC2086
    mds_launch $verb -- $options "$@" >said 2>err </dev/null
}
# refused OPTIONS...: by the job, by submit and by plan, in the same words
refused() {
    test_must_fail pretrain "$@" && cat out && grep error: out >want && test "$(wc -l <want)" -eq 1 &&
        for verb in "submit --print" submit plan; do
            test_must_fail ahead "$verb" "$@" && cat err && grep error: err >got && test_cmp want got || return 1
        done && test ! -e runs
}
# alike OPTIONS...: which the job and both take
alike() {
    ahead "submit --print" "$@" && cat err && ahead plan "$@" && pretrain "$@"
}
plain='--split 1 --eval-iters 0'

test_expect_success 'windows of the splits, also of files of their own' '
    refused --data-path more.h5 --seq-length 512 --train-iters 4 --pack-documents off &&
    refused --data-path more.h5 --split 1 --train-iters 4 &&
    refused --train-data-path more.h5 --train-iters 4 && alike --data-path more.h5 $plain --train-iters 4
'
test_expect_success 'the vocabulary: of files that state it, and of those that have to be read' '
    pretrain --data-path wide $plain --train-iters 3 --save b && cp -r b keep &&
    for data in wide all.h5; do
        refused --data-path $data $plain --train-iters 4 --vocab-size 60 || return 1
    done &&
    refused --data-path more.h5 $plain --train-iters 4 --load b && grep "200: was its data .* --resize-vocab" got &&
    megatron large "id = i * 2" && refused --data-path large $plain --train-iters 4 --load b &&
    refused --data-path narrow $plain --train-iters 4 --load b --vocab-size 120 &&
    alike --data-path narrow $plain --train-iters 4 --load b && alike --data-path large $plain --train-iters 4 --load b --resize-vocab mean &&
    refused --data-path "0.5 large 0.5 all.h5" $plain --train-iters 4
'
test_expect_success 'the tokenizer that the checkpoint was trained on' '
    pretrain --data-path codon.h5 $plain --train-iters 2 --save codon &&
    refused --data-path 6-mer.h5 $plain --train-iters 3 --load codon --resize-vocab mean && grep "tokens of codon, but this run.s data are 6-mer" got &&
    refused --data-path 6-mer.h5 --skip-train --split 0,1,0 --load codon --resize-vocab mean &&
    alike --data-path 6-mer.h5 $plain --train-iters 3 --load codon --resize-vocab mean --override-model-config
'
test_expect_success 'options of another model, a file remade under its name, checkpoints of another run, none at all' '
    refused --data-path wide $plain --train-iters 4 --load b --swiglu && ids made 121 &&
    pretrain --data-path made.h5 $plain --train-iters 2 --save made && rm made.h5 && ids made 120 &&
    refused --data-path made.h5 $plain --train-iters 3 --load made --vocab-size 121 && grep "is not the file that made/iter_0000002 was trained on" got &&
    refused --data-path wide $plain --train-iters 4 --load b --finetune --save made && grep "has checkpoints up to iteration 2" got &&
    mkdir empty && refused --data-path wide $plain --train-iters 4 --load empty && grep "load empty: there is no checkpoint" got &&
    ahead plan --data-path wide $plain --train-iters 4 --load gone && grep "warn: checkpoint not found on this host: gone; the run fails" err
'
test_expect_success 'a chain that began with another --load goes on from its own newest checkpoint' '
    rm -rf b chain && cp -r keep b && test_expect_code 85 pretrain --data-path more.h5 $plain --train-iters 9 --load b --resize-vocab init --save chain --exit-interval 5 &&
    ahead plan --data-path all.h5 $plain --train-iters 9 --load b --save chain && cat said err && grep "^4 steps = " said &&
    grep "continuing from there" err && ahead plan --data-path all.h5 $plain --train-iters 9 --load b && grep "^6 steps = " said
'
test_expect_success 'Megatron.s files tell the vocabulary of a plan' '
    ahead plan --data-path wide $plain --train-iters 4 && cat said err && grep "vocabulary: the 121 words of wide" err &&
    grep "^  params" said >got && ahead plan --data-path wide $plain --train-iters 4 --vocab-size 121 && grep "^  params" said >want && test_cmp want got
'
test_expect_success 'those that take too long are read in part, which is said' '
    megatron_index long 1 1000000000 && truncate -s 2000000000 long.bin && printf "\\377" >byte && dd if=byte of=long.bin conv=notrunc 2>/dev/null &&
    ahead "plan --plan-seconds 0.1" --data-path long $plain --train-iters 4 && cat err &&
    grep "vocabulary: [1-9][0-9]* % of Megatron.s files were read in 0.1 s, with ids up to 255; the job reads all, and --plan-seconds" err &&
    test_must_fail ahead "plan --plan-seconds 0.1" --data-path long $plain --train-iters 4 --vocab-size 200 && grep "vocab-size 200, but the data has 256 words" err
'
rm -f long.bin
# evaluated: evaluations and their samples in a log, as mds_launch counts them
evaluated() {
    awk '/ loss at / { n++; sub(/.* samples: /, ""); samples += $1 } END { printf "%d evaluation%s (%d samples,\n", n, (n == 1 ? "" : "s"), samples }' out
}
test_expect_success 'outputs of another run, which are replaced with --overwrite only' '
    run="--data-path all.h5 $plain --train-iters" && pretrain $run 3 --save kept --metrics-jsonl m.jsonl --export-weights x.st --trace-dir tr &&
    for output in "--metrics-jsonl m.jsonl" "--export-weights x.st" "--trace-dir tr"; do
        refused $run 4 $output --save new --load new && grep "exists already; give another name" got &&
        ahead "submit --print" $run 4 $output --overwrite --save new || return 1
    done &&
    alike $run 4 --save kept --load kept --metrics-jsonl m.jsonl --export-weights x.st --trace-dir tr
'
test_expect_success 'evaluations are counted as the run makes them' '
    for more in "--eval-interval 2" "--eval-interval 3" "--eval-interval 100" "--eval-interval 1 --eval-iters 1" "--eval-interval 2 --split 8,2,0"; do
        pretrain --data-path all.h5 --split 6,2,2 --train-iters 6 $more && grep samples: out && evaluated >want &&
        ahead plan --data-path all.h5 --split 6,2,2 --train-iters 6 $more && cat said want && grep -F -f want said || return 1
    done &&
    pretrain --data-path all.h5 --split 6,2,2 --train-iters 6 --save whole && pretrain --data-path all.h5 --split 6,2,2 --skip-train --load whole && evaluated >want &&
    ahead plan --data-path all.h5 --split 6,2,2 --skip-train --load whole && grep -F -f want said &&
    ahead "submit --print" --data-path all.h5 --split 6,2,2 --skip-train --load whole && ! grep checkpoints: err &&
    ahead plan --data-path all.h5 --split 6,2,2 --train-iters 6 --eval-iters 0 && grep "^6 steps = " said
'
test_expect_success 'and take their part of the hours and jobs' '
    jobs() {
        DATA_PATH=codon.h5 MODEL_SIZE_KEY=GENSLM_25M SEQ_LEN=64 mds_launch submit debug 1 1:00:00 P --machine polaris --print -- \
            --split 5,5,0 --global-batch-size 4 --train-iters 20000000 "$@" 2>err >out && grep node-hours err
    } &&
    jobs --eval-iters 0 >without && jobs --eval-interval 10 --eval-iters 10000 >with && cat with without &&
    awk "{ sub(/.* node-hours, /, \"\"); jobs[NR] = \$1 } END { exit !(jobs[1] > 1.5 * jobs[2]) }" with without
'
test_done
