#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_pretrain: what it says about bad input'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

small='--data-path t.h5 --num-layers 1 --hidden-size 32 --num-attention-heads 4
    --seq-length 32 --global-batch-size 6 --train-iters 2 --eval-iters 0 --threads 1'
# pretrain ARGS...: two steps of a small model on a genome, unless ARGS say otherwise
pretrain() {
    # shellcheck disable=SC2086  # a list of words
    mds_pretrain $small "$@"
}
# ranks N ARGS...: the same on N ranks
ranks() {
    n=$1
    shift
    # shellcheck disable=SC2086  # lists of words
    timeout 60 $MPIEXEC -n "$n" mds_pretrain $small "$@" </dev/null
}
# ends COMMAND...: with 1 and one error, after no more than information; nothing on
# standard output but steps
ends() {
    test_expect_code 1 "$@" >out 2>err
    status=$?
    cat out err
    test $status -eq 0 && test "$(grep -c "^mds: .*error: " err)" -eq 1 &&
        ! grep "^mds: " err | grep -v "error: " | grep -v "info: "
}
# fails WORDS COMMAND...: ends so before training, and the line has the words
fails() {
    words=$1
    shift
    ends "$@" && test ! -s out && grep "error: " err | grep -q -F -e "$words"
}

test_expect_success 'a genome, and a run that goes well' '
    mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz" &&
    pretrain --export-weights w.safetensors >out 2>err &&
    ! grep "error\|warn" err
'

# ---- data ----

test_expect_success 'data that are not there, cut short, or something else' '
    fails "gone.h5: No such file or directory (relative to $PWD)" \
        pretrain --data-path gone.h5 &&
    head -c 5000 t.h5 >cut.h5 &&
    fails "cut.h5: not an HDF5 file (or truncated" pretrain --data-path cut.h5 &&
    grep "make it again with mds_data make" err &&
    echo hello >text.h5 &&
    fails "text.h5: not an HDF5 file" pretrain --data-path text.h5 &&
    fails "lambda.fna.gz: not a token file: make one with mds_data make" \
        pretrain --data-path "$srcdir/tests/data/lambda.fna.gz"
'
test_expect_success 'splits in which no token counts' '
    { echo ">a" && yes ACG | head -n 400 && echo ">n" && yes NNN | head -n 400; } >n.fa &&
    mds_data make --tokenizer codon --output n.h5 n.fa &&
    fails "validation: no token counts in the loss, of 6 samples of 33 tokens" \
        pretrain --data-path n.h5 --split 1,1,0 --eval-iters 1 &&
    fails "test: no token counts in the loss, of 6 samples" \
        pretrain --data-path n.h5 --split 20,20,40 --eval-iters 1 &&
    pretrain --data-path n.h5 --split 1,0,0 --seed 2 --metrics-jsonl n.jsonl >out 2>err &&
    grep "data: kinds of tokens:.* ambiguous (weight 0)" err &&
    ! grep "lm loss of ambiguous: " out && grep "\"lm_loss_ambiguous\":[0-9]" n.jsonl
'
test_expect_success 'HDF5 of somebody else' '
    LC_ALL=C sed "s/format/farmat/g" t.h5 >foreign.h5 &&
    fails "foreign.h5: HDF5, but not a token file" pretrain --data-path foreign.h5 &&
    grep "make one with mds_data make" err
'
test_expect_success 'a sequence longer than the data' '
    gzip -dc "$srcdir/tests/data/lambda.fna.gz" | head -n 20 >short.fna &&
    mds_data make --tokenizer codon --output short.h5 short.fna &&
    fails "short.h5: 444 tokens in all, but a window takes 2001" \
        pretrain --data-path short.h5 --seq-length 2000 &&
    longest=$(sed -n "s/.*use --seq-length \([0-9]*\) or less/\1/p" err) &&
    fails "short.h5: --split" pretrain --data-path short.h5 --seq-length $((longest + 1)) &&
    pretrain --data-path short.h5 --seq-length "$longest" --train-iters 1 &&
    fails "short.h5: 444 tokens in all" pretrain --data-path short.h5 --split 8,2,0 --eval-iters 1 --seq-length 2000 &&
    longest=$(sed -n "s/.*use --seq-length \([0-9]*\) or less/\1/p" err) &&
    pretrain --data-path short.h5 --split 8,2,0 --eval-iters 1 --seq-length "$longest" --train-iters 1
'
test_expect_success 'a validation split that is too short' '
    fails "t.h5: --split" pretrain --split 9990,9,1 --eval-iters 2
'

# ---- sizes ----

test_expect_success 'shapes and sizes that do not fit' '
    fails "does not divide --hidden-size 32; change one" pretrain --num-attention-heads 5 &&
    fails "is not a multiple of micro-batch 4 x 1 data-parallel rank = 4; the nearest are 4 and 8" \
        pretrain --micro-batch-size 4
'
test_expect_success 'a model that does not fit is refused with a table and advice' '
    fails "memory: each rank needs" pretrain --hidden-size 16384 --num-layers 96 \
        --seq-length 8192 --micro-batch-size 2 &&
    grep "^ *optimizer " err && grep -e "--activation-memory 5 (full recompute, tiles of 4096)" err &&
    test_must_fail pretrain --hidden-size 16384 --num-layers 96 --seq-length 8192 \
        --micro-batch-size 2 --cpu-offloading-num-layers 2 2>err &&
    sed -n "s/^ *\(--act.*\) (.*iB instead/\1/p" err >settings && cat settings &&
    test "$(wc -l <settings)" -eq 2 && while read -r setting; do
        pretrain --cpu-offloading-num-layers 2 --dry-run --num-layers 6 $setting || return 1
    done <settings &&
    fails "memory: each rank needs 73." pretrain --hidden-size 57344 \
        --num-attention-heads 448 --num-layers 128 &&
    grep "^ *all  *73.* TiB" err
'

# ---- names ----

test_expect_success 'names that are nearly right' '
    fails "unknown option --hiden-size; did you mean --hidden-size?" \
        pretrain --hiden-size 64 &&
    fails "unknown variable MDS_LOSS_TILES; did you mean MDS_LOSS_TILE?" \
        env MDS_LOSS_TILES=4 mds_pretrain $small &&
    printf "model:\n  layer: 2\n" >c.yaml &&
    fails "c.yaml:2: unknown key model.layer; did you mean model.layers?" \
        pretrain --config c.yaml &&
    fails "did you mean GPT13B?" env MODEL_SIZE_KEY=GPT13 mds_pretrain --show-config &&
    fails "did you mean AuroraGPT-7B?" env MODEL_ARCH=AuroraGPT-7Bx mds_pretrain --show-config
'
test_expect_success 'what earlier versions had: flags and variables are refused, keys of their files are not' '
    fails "no option of this name any more; see --recompute-modules mlp" pretrain --mlp-tile 4 &&
    fails "no option of this name any more; write --activation-memory inputs=N" pretrain --device-checkpoint-layers 4 &&
    fails "unknown variable MDS_KEEP_ATTENTION_LAYERS; write --activation-memory attention=N" \
        env MDS_KEEP_ATTENTION_LAYERS=4 mds_pretrain $small &&
    fails "unknown variable MDS_ATTENTION_CHUNK; see --attention-head-groups" env MDS_ATTENTION_CHUNK=4 mds_pretrain $small &&
    printf "train:\n  attention_chunk: 0\n  mlp_tile: 64\n  keep_attention: 0\n  device_inputs: 7\n" >gone.yaml &&
    mds_pretrain $small --config gone.yaml --show-config 2>err &&
    grep "gone.yaml:3: train.mlp_tile is gone, and ignored; see --recompute-modules mlp" err && ! grep "attention_chunk\|keep_attention" err &&
    grep "gone.yaml:5: train.device_inputs is gone, and ignored; write --activation-memory inputs=N" err
'
test_expect_success 'options of later versions are refused with a reason' '
    fails "--moe-router-group-topk" pretrain --moe-router-group-topk 2 && grep "see --num-experts" err
'
test_expect_success 'experts' '
    experts="--disable-bias-linear --num-experts 4" &&
    fails "router-topk 5: there are only 4 experts" pretrain $experts --moe-router-topk 5 &&
    fails "norm-placement after: --use-parallel-residual has norms before" pretrain --norm-placement after --use-parallel-residual &&
    fails "qk-norm-across-heads says which norms --qk-layernorm has" pretrain --qk-norm-across-heads &&
    fails "experts have no biases" pretrain --num-experts 4 &&
    fails "--moe-shared-expert-intermediate-size is 40, and FP8 needs a multiple of 16" pretrain $experts \
        --moe-shared-expert-intermediate-size 40 --bf16 --fp8-format hybrid --kv-channels 16 &&
    fails "must be a number N from 1 (every N-th layer has experts)" pretrain $experts --moe-layer-freq 0 &&
    fails "or a list of layers such as" pretrain $experts --moe-layer-freq "([0]*1+[1]" &&
    fails "[0]*1+[1]*11, where 1 is a layer with experts" pretrain $experts --moe-layer-freq "[2]" &&
    fails "is for 3 layers, but --num-layers is" pretrain $experts --moe-layer-freq "([0]+[1]*2)" &&
    fails "leaves no layer with experts" pretrain $experts --num-layers 4 --moe-layer-freq "[0]*4" &&
    fails "s inner width, --ffn-hidden-size 66; 2 would do" pretrain $experts --ffn-hidden-size 66 \
        --moe-ffn-hidden-size 64 --num-layers 2 --moe-layer-freq 2 --tensor-model-parallel-size 4 --dry-run --world-size 4 &&
    fails "does not divide --moe-shared-expert-intermediate-size 50; 2 would do" pretrain $experts \
        --moe-shared-expert-intermediate-size 50 --tensor-model-parallel-size 4 --dry-run --world-size 4 &&
    fails "the model has no experts; leave it out, or give --num-experts" pretrain --expert-model-parallel-size 2 \
        --dry-run --world-size 2 &&
    fails "size 8 does not divide the 4 experts, --num-experts; 1 would do" pretrain $experts --expert-model-parallel-size 8 &&
    fails "size 3 does not divide the 4 experts, --num-experts; 2 would do" pretrain $experts --expert-model-parallel-size 3 \
        --dry-run --world-size 6 &&
    fails "copies of pipeline 1 x ring 1 x Ulysses 1 x tensor 1 (expert 4) = 4 ranks; start 4 or 8; or give --expert-model-parallel-size 2" \
        pretrain $experts --expert-model-parallel-size 4 --dry-run --world-size 6 &&
    fails "inner width, --moe-ffn-hidden-size 50; 2 would do" pretrain $experts --moe-ffn-hidden-size 50 \
        --dry-run --world-size 4 --tensor-model-parallel-size 4 &&
    fails "must be at least 0" pretrain $experts --moe-aux-loss-coeff -1 &&
    fails "must be one of softmax, sigmoid" pretrain $experts --moe-router-score-function sqrtsoftplus &&
    fails "enable-expert-bias: biases are added to sigmoids; add --moe-router-score-function sigmoid" \
        pretrain $experts --moe-router-enable-expert-bias &&
    fails "pre-softmax: there is no softmax with --moe-router-score-function sigmoid; leave one of them out" \
        pretrain $experts --moe-router-pre-softmax --moe-router-score-function sigmoid &&
    fails "must be between 1e-06 and" pretrain $experts --moe-router-topk-scaling-factor 0 &&
    mds_pretrain $small $experts --moe-router-bias-update-rate 1e-2 --show-config 2>err &&
    grep "bias-update-rate is ignored without --moe-router-enable-expert-bias" err &&
    mds_pretrain $small --moe-router-score-function sigmoid --show-config 2>err &&
    grep "score-function is ignored without --num-experts" err
'

test_expect_success 'what only makes sense with a checkpoint' '
    fails "give --load a folder" pretrain --finetune &&
    fails "no-load-optim without --load" pretrain --no-load-optim &&
    fails "--load nothing: there is no checkpoint; to start a new run, leave --load out" \
        pretrain --load nothing &&
    fails "--load nothing: there is no checkpoint; give a folder that --save wrote" \
        pretrain --load nothing --skip-train --eval-iters 1 &&
    fails "--load nothing: there is no checkpoint; give a folder that --save wrote" \
        pretrain --load nothing --save nothing --finetune &&
    pretrain --save-interval 1 2>err && grep "warn: .*nothing is saved; give --save" err
'
test_expect_success 'a --load that was forgotten, and one with nothing left to do' '
    pretrain --save ck 2>err && ! grep "warn:" err &&
    pretrain --save ck --load ck 2>err && ! grep "warn:" err &&
    grep "nothing to train: 2 of 2 steps are done" err &&
    fails "--save ck has checkpoints up to iteration 2, and this run starts anew; to continue" \
        env MDS_OVERWRITE=0 mds_pretrain $small --save ck
'
test_expect_success 'names of profiles, and too few ranks' '
    fails "command line: --machine nowhere: no such profile (" pretrain --machine nowhere &&
    fails "1 rank does not divide into copies of pipeline 1 x" \
        pretrain --tensor-model-parallel-size 2 && grep "= 2 ranks; start 2; or" err
'
test_expect_success 'a dry run in FP8 for a machine without it, with one, and for a file of settings alone' '
    set -- --dry-run --bf16 --fp8-format hybrid --num-attention-heads 2 --machine &&
    fails "--fp8-format: polaris has no FP8: its profile" pretrain "$@" polaris &&
    pretrain "$@" h200 >out && grep "fp8_gemm" out &&
    pretrain "$@" polaris --device cpu >out && grep "fp8_gemm" out &&
    printf "optim:\n  lr: 1e-3\n" >settings.yaml &&
    pretrain "$@" ./settings.yaml >out 2>err && grep "fp8_gemm" out && ! grep "error:" err
'

# ---- files ----

test_expect_success 'places where nothing can be written are found before training' '
    touch plain &&
    for option in --metrics-jsonl --export-weights --tensorboard-dir --trace-dir; do
        fails "plain/x" pretrain $option plain/x || return 1
    done &&
    fails "no/w.safetensors: cannot be written: No such file" \
        pretrain --export-weights no/w.safetensors &&
    fails "no/log.jsonl: cannot be written: No such file" \
        pretrain --metrics-jsonl no/log.jsonl
'
test_expect_success 'a file where a folder is meant, and the other way round' '
    touch plain && mkdir -p folder &&
    for option in --load --save --trace-dir --tensorboard-dir; do
        fails "command line: $option plain: a file; it must be a folder" \
            pretrain $option plain &&
        fails "command line: $option plain/x: inside of a file; it must be a folder" \
            pretrain $option plain/x || return 1
    done &&
    for option in --metrics-jsonl --export-weights --init-weights --model-table; do
        fails "command line: $option folder: a folder; it must be a file" \
            pretrain $option folder || return 1
    done &&
    for option in --save --load --metrics-jsonl --export-weights --trace-dir; do
        fails "command line: $option '\''-'\'': neither standard input nor output will do; give a name" \
            pretrain $option - || return 1
    done && test ! -e - &&
    fails "output '\''-'\'': neither standard" mds_ckpt export --output - ck &&
    fails "output '\''-'\'': neither standard" mds_ckpt export --format hf --output - ck &&
    for option in --config --deepspeed_config; do
        fails "folder: Is a directory; it must be a file of settings" \
            pretrain $option folder || return 1
    done &&
    fails "folder: a folder; name the token files in it" pretrain --data-path folder &&
    fails "environment: MDS_LOAD=plain: a file" env MDS_LOAD=plain mds_pretrain $small &&
    fails "plain: not a folder; give the folder that --save named" mds_ckpt info plain &&
    fails "plain/x: not a folder" mds_ckpt verify --all plain/x &&
    fails "plain: a file; it must be a folder" mds_ckpt reshard ck plain &&
    fails "folder: a folder; it must be a file" \
        mds_data make --tokenizer bytes --output folder plain &&
    fails "folder: cannot be written: a folder; name a file in it" \
        mds_ckpt export --output folder ck &&
    fails "no/x.h5: cannot be written: No such file or directory; make its folder first" \
        mds_data make --tokenizer bytes --output no/x.h5 plain &&
    fails "folder: Is a directory; name the files in it" \
        mds_data make --tokenizer bytes --output x.h5 folder
'
test_expect_success 'folders for results are made, with those above them' '
    pretrain --train-iters 1 --save a/b/ck --trace-dir a/b/trace --tensorboard-dir a/b/t &&
    test -e a/b/ck/latest && test -e a/b/trace/weights.safetensors &&
    ls a/b/t/events.out.tfevents.*
'
test_expect_success 'weights that are none, or of another shape' '
    fails "t.h5: not a safetensors file" pretrain --init-weights t.h5 &&
    fails "w.safetensors: " pretrain --hidden-size 48 --init-weights w.safetensors
'
test -w /dev/full && test_set_prereq DEV_FULL
test_expect_success DEV_FULL 'a full disk under standard output' '
    for command in pretrain "pretrain --show-config" "mds_pretrain --help" \
        "mds_data --help"; do
        test_expect_code 1 $command >/dev/full 2>err &&
        test "$(grep -c "error: standard output: No space" err)" -eq 1 || return 1
    done
'

# ---- the run ----

test_expect_success 'a run that diverges stops and says so' '
    ends pretrain --lr 1000 --weight-decay 1 --lr-decay-style constant --train-iters 60 &&
    grep "error: iteration [0-9]*: loss .* the run has diverged; lower --lr" err
'
test_expect_success 'on several ranks one of them speaks' '
    fails "gone.h5: No such file" ranks 3 --data-path gone.h5 &&
    fails "did you mean --hidden-size?" ranks 3 --hidden-sise 64 &&
    fails "2 x 3 data-parallel ranks = 6; the nearest are 6 and 12" \
        ranks 3 --micro-batch-size 2 --global-batch-size 8
'
test_expect_success 'an option that only prints does so once, however many ranks were started' '
    ranks 3 --dry-run >out 2>err && cat err && test "$(grep -c "^dry run" out)" -eq 1 &&
    grep "^dry run of rank 0 of 3" out &&
    ranks 3 --show-config >out && test "$(grep -c "^model:" out)" -eq 1 &&
    grep "# dry_world: 3 .*as many as were started" out &&
    fails "start 2 or 4" ranks 3 --dry-run --tensor-model-parallel-size 2
'

test_done
