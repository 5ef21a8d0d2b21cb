#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='when checkpoints are written, which one is loaded, and how a run leaves'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"

small='--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1
    --data-path t.h5'
# pretrain OPTIONS...: one rank; what it printed is in out
pretrain() {
    rm -f e.jsonl # runs that go on would append
    # shellcheck disable=SC2086
    mds_pretrain $small "$@" >out 2>&1 </dev/null
}
iterations() {
    (cd "$1" && echo iter_*)
}
steps() {
    sed -n 's/.*"event":"step".*"iteration":\([0-9]*\),.*"lm_loss":\([^,]*\),.*/\1 \2/p' "$1"
}
# begin FOLDER OPTIONS...: a long run in the background that has made a step
begin() {
    dir=$1
    shift
    rm -rf "$dir" && : >out
    # shellcheck disable=SC2086
    mds_pretrain $small --train-iters 100000000 --save "$dir" "$@" >out 2>&1 </dev/null &
    pid=$!
    until grep -q "iteration  *1/" out; do sleep 0.05; done
}

test_expect_success 'each interval and the end' '
    pretrain --train-iters 7 --save a --save-interval 3 --metrics-jsonl a.jsonl &&
    test "$(iterations a)" = "iter_0000003 iter_0000006 iter_0000007" &&
    test "$(cat a/latest)" = iter_0000007 &&
    test "$(ls a/iter_0000007)" = "index.h5
rank_00000.h5"
'
test_expect_success 'only the end without an interval' '
    pretrain --train-iters 3 --save b && test "$(iterations b)" = iter_0000003
'
test_expect_success 'the newest is loaded; the losses are those of a run without a stop' '
    pretrain --train-iters 7 --exit-interval 4 --save c --lr-warmup-iters 2
    test $? -eq 85 &&
    pretrain --train-iters 7 --load c --save c --lr-warmup-iters 2 --metrics-jsonl c.jsonl &&
    pretrain --train-iters 7 --lr-warmup-iters 2 --metrics-jsonl d.jsonl &&
    steps d.jsonl | tail -n 3 >want && steps c.jsonl >got && test_cmp want got &&
    test "$(iterations c)" = "iter_0000004 iter_0000007"
'
test_expect_success 'Muon resumes, too; from another optimizer the moments start at 0' '
    muon="--optimizer muon --bf16" &&
    pretrain $muon --train-iters 7 --exit-interval 4 --save muon
    test $? -eq 85 && cp -r muon adamw &&
    pretrain $muon --train-iters 7 --load muon --save muon --metrics-jsonl muon1.jsonl &&
    ! grep moments out &&
    pretrain $muon --train-iters 7 --metrics-jsonl muon2.jsonl &&
    steps muon2.jsonl | tail -n 3 >muon.want && steps muon1.jsonl >muon.got && test_cmp muon.want muon.got &&
    pretrain --bf16 --train-iters 6 --load adamw --save adamw &&
    grep "adamw/iter_0000004 was saved with Muon: its moments are not used, and start at 0" out &&
    pretrain --bf16 --train-iters 7 --load adamw --save adamw && ! grep moments out &&
    pretrain $muon --train-iters 8 --load adamw --save adamw &&
    grep "adamw/iter_0000007 was saved with AdamW: its moments are not used, and start at 0" out &&
    pretrain --no-load-optim --train-iters 9 --load adamw && ! grep "saved with Muon" out
'
# By default fp16 begins with overflows, more than --hysteresis forgives.
test_expect_success 'the same of every number type, from each of its checkpoints' '
    for type in bf16 fp16; do
        half="--dtype $type --lr-warmup-iters 2 --save-interval 1" &&
        pretrain $half --train-iters 20 --save $type --metrics-jsonl half.jsonl &&
        steps half.jsonl >typed &&
        for i in 01 03 06 18; do
            mds_ckpt verify $type/iter_00000$i &&
            pretrain $half --train-iters 20 --load $type/iter_00000$i --save $type-$i --metrics-jsonl e.jsonl &&
            tail -n $((20 - ${i#0})) typed >rest && steps e.jsonl >got && test_cmp rest got &&
            mds_ckpt diff $type $type-$i || return 1
        done && rm half.jsonl || return 1
    done
'
test_expect_success 'a finished run has nothing more to do' '
    pretrain --train-iters 7 --load c --save c && grep "done: iteration 7 of 7" out &&
    test "$(iterations c)" = "iter_0000004 iter_0000007"
'
test_expect_success 'one checkpoint by its own path' '
    pretrain --train-iters 5 --load c/iter_0000004 --metrics-jsonl e.jsonl &&
    test "$(steps e.jsonl | wc -l)" -eq 1
'
test_expect_success 'records of iterations after it are replaced, those before are kept' '
    cp d.jsonl f.jsonl &&
    pretrain --train-iters 7 --load c/iter_0000004 --lr-warmup-iters 2 --metrics-jsonl f.jsonl &&
    steps d.jsonl >want7 && steps f.jsonl >got7 && test_cmp want7 got7 &&
    test "$(grep -c "\"event\":\"run\"" f.jsonl)" -eq 2 &&
    test "$(grep -c "\"event\":\"end\"" f.jsonl)" -eq 1
'
test_expect_success 'another micro-batch, and another global batch: no sample is lost or repeated' '
    pretrain --train-iters 5 --load c/iter_0000004 --micro-batch-size 1 --global-batch-size 8 \
        --metrics-jsonl e.jsonl && grep "\"consumed_samples\":24," e.jsonl &&
    grep "a step had 4 sequences before, and has 8 now; --global-batch-size sets it" out &&
    pretrain --train-iters 5 --load c/iter_0000004 && ! grep "a step had" out &&
    pretrain --train-iters 5 --load c/iter_0000004 --global-batch-size 8 --save eight &&
    pretrain --train-iters 6 --load eight --global-batch-size 8 && ! grep "a step had" out &&
    pretrain --train-iters 6 --load eight &&
    grep "a step had 8 sequences before, and has 4 now; --global-batch-size sets it" out
'
# total FOLDER OPTIONS...: a job; of it and those before, a line for each step in FOLDER.steps:
# iteration, consumed samples, consumed tokens, learning rate
total() {
    folder=$1
    shift
    pretrain --lr 1e-3 --min-lr 1e-5 --use-rotary-position-embeddings --save "$folder" --load "$folder" \
        --metrics-jsonl "$folder.jsonl" "$@"
    status=$?
    sed -n 's/.*"event":"step".*"iteration":\([0-9]*\),"consumed_samples":\([0-9]*\),"consumed_tokens":\([0-9]*\),.*"learning_rate":\([^,]*\),.*/\1 \2 \3 \4/p' \
        "$folder.jsonl" >"$folder.steps"
    return $status
}
ends_at() {
    test "$(tail -n 1 "$1.steps" | cut -d " " -f 1-3)" = "$2"
}
test_expect_success 'a total in tokens is the tokens trained on, also on other ranks; then nothing is left' '
    opts="--micro-batch-size 2 --global-batch-size 0 --train-tokens 1024" &&
    test_expect_code 85 total tok $opts --exit-interval 8 && ends_at tok "8 16 512" &&
    mds_ckpt info tok | grep "^tokens: 512" &&
    mds_pretrain $small $opts --load tok --dry-run --world-size 2 >out &&
    grep "length 1024 tokens, 512 of them done; 4 steps left" out &&
    $MPIEXEC -n 2 mds_pretrain $small --use-rotary-position-embeddings $opts --save tok --load tok \
        </dev/null >out 2>&1 &&
    grep "iteration  *9/  *12 |" out && grep "done: iteration 12 of 12" out && mds_ckpt info tok | grep "^tokens: 1024" &&
    total tok $opts && grep "nothing to train: 1024 of 1024 tokens are done" out &&
    total tok $opts --global-batch-size 1 --micro-batch-size 1 --train-tokens 1100 && ends_at tok "15 35 1120"
'
test_expect_success 'a total, a warm-up and a decay in samples: the rate is that of the samples, whatever the batch' '
    opts="--train-samples 64 --lr-warmup-samples 16 --lr-decay-style cosine --global-batch-size" &&
    total whole64 $opts 2 && ends_at whole64 "32 64 2048" &&
    test_expect_code 85 total grown $opts 2 --exit-interval 5 &&
    test_expect_code 85 total grown $opts 4 --exit-interval 10 &&
    test_expect_code 85 total grown $opts 1 --exit-interval 11 &&
    total grown $opts 16 && ends_at grown "13 63 2016" && grep "done: iteration 13 of 13" out &&
    total grown $opts 16 && grep "63 of 64 samples are done, and less than a batch is left" out &&
    awk "NR == FNR { rate[\$2] = \$4; next } \$2 in rate { n++; if (rate[\$2] != \$4) bad = 1 }
         END { exit bad || n != 10 }" whole64.steps grown.steps
'
test_expect_success 'tokens are counted by the length that sequences had; a warm-up in steps beside a total in tokens' '
    opts="--train-tokens 2048 --lr-warmup-iters 4 --lr-decay-style linear" &&
    test_expect_code 85 total long $opts --exit-interval 8 && ends_at long "8 32 1024" &&
    test_expect_code 85 total long $opts --seq-length 64 --exit-interval 10 && ends_at long "10 40 1536" &&
    total long $opts --seq-length 16 && ends_at long "18 72 2048" &&
    awk "{ fall = before - \$4; if (NR > 4 && (fall <= 0 || fall > 2e-4)) bad = 1; before = \$4 }
         END { exit bad || before != 1e-5 }" long.steps
'
# A second file of the same tokenizer, and others of the same name and size.
gzip -dc "$srcdir/tests/data/lambda.fna.gz" >whole.fna
{ head -n 1 whole.fna && sed -n '200,500p' whole.fna; } >part.fna
{ head -n 1 whole.fna && sed -n '300,600p' whole.fna; } >other.fna
mds_data make --tokenizer codon --output u.h5 part.fna && mds_data make --tokenizer codon --output other.h5 other.fna
test_expect_success 'a mix that changes: each file goes on where it stands, on any number of ranks' '
    test_expect_code 85 pretrain --train-iters 30 --exit-interval 10 --save mix --load mix && ! grep "data: .*goes on" out &&
    test_expect_code 85 pretrain --train-iters 30 --exit-interval 20 --save mix --load mix --data-path 1 t.h5 3 u.h5 &&
    grep "info: data: the mix changes at sample 40" out && grep "data: u.h5: new" out &&
    grep "data: t.h5: goes on after 0.[0-9]* epochs$" out &&
    mds_ckpt info mix | grep "^data: t.h5: 50 samples" && mds_ckpt info mix | grep "^data: u.h5: 30 samples" &&
    pretrain --train-iters 22 --load mix --data-path 1 t.h5 3 u.h5 --metrics-jsonl one.jsonl && ! grep "the mix changes" out &&
    $MPIEXEC -n 2 mds_pretrain $small --train-iters 22 --load mix --data-path 1 t.h5 3 u.h5 --metrics-jsonl two.jsonl </dev/null >out 2>&1 &&
    steps one.jsonl >steps1 && steps two.jsonl | paste -d " " steps1 - |
        awk "{ d = \$2 - \$4; if (d < 0) d = -d; if (d > 1e-5 * \$2 || \$1 != \$3) bad = 1 } END { exit bad || NR != 2 }" &&
    pretrain --train-iters 30 --save mix --load mix --data-path u.h5 --global-batch-size 8 &&
    grep "data: t.h5: left out after" out && mds_ckpt info mix | grep "^data: t.h5: 50 samples.*not in the mix any more" &&
    mds_ckpt reshard mix mix2 && mds_ckpt info mix2 | grep "^data: u.h5: 110 samples"
'
test_expect_success 'a file that was remade under its name is refused; by another name it is a new one' '
    cp u.h5 kept.h5 && cp other.h5 u.h5 &&
    test_must_fail pretrain --train-iters 40 --load mix --load-fallback --data-path u.h5 &&
    grep "error: u.h5: is not the file that mix/iter_0000030 was trained on: that had 7.*; this has 7.* give it another name" out &&
    test "$(grep -c "error:" out)" -eq 1 && ! grep "trying" out &&
    pretrain --load mix --skip-train --eval-iters 1 --data-path u.h5 &&
    ln -s u.h5 v.h5 && pretrain --train-iters 31 --load mix --data-path v.h5 && grep "data: v.h5: new" out &&
    cp kept.h5 u.h5 && pretrain --train-iters 31 --load mix --data-path u.h5 && ! grep "the mix changes" out &&
    pretrain --train-iters 31 --load mix --data-path kept.h5 && ! grep "the mix changes" out
'
test_expect_success 'a file that is replaced while it is read: the next save tells, unless it is a copy' '
    begin replaced --data-path u.h5 --save-interval 20 --keep-last 2 && touch u.h5 &&
    until grep "saved replaced/iter_0000040" out; do sleep 0.05; done && ! grep "warn" out &&
    cp other.h5 moving.h5 && mv moving.h5 u.h5 &&
    until grep "warn: u.h5: was replaced or written to while this run reads it" out; do sleep 0.05; done &&
    kill -9 $pid && { wait $pid || :; } && mv kept.h5 u.h5
'
test_expect_success 'the first job of a chain begins; elsewhere a missing checkpoint is a slip' '
    pretrain --train-iters 2 --load new --save new && grep "starting a new run" out &&
    pretrain --train-iters 2 --load ./also/ --save also && grep "starting a new run" out &&
    pretrain --train-iters 2 --load ./also/ --save also && ! grep "saved also" out &&
    test_must_fail pretrain --train-iters 2 --load nwe --save new &&
    grep "error: --load nwe: there is no checkpoint" out &&
    test_must_fail pretrain --train-iters 2 --load nwe --save nwe --finetune
'
# chain FOLDER OPTIONS...: three jobs of one command, of two steps each
chain() {
    dir=$1 dir_jobs=0
    shift
    while [ $dir_jobs -lt 3 ]; do
        dir_jobs=$((dir_jobs + 1))
        pretrain --train-iters 100 --exit-interval 2 --save "$dir" "$@"
        test $? -eq 85 || return 1
    done
}
test_expect_success 'jobs of one command that begin from another run go on from their own checkpoints' '
    chain far --load c/iter_0000004 && test "$(iterations far)" = "iter_0000006 iter_0000008 iter_0000010" &&
    grep "info: --save far has iteration 8 of the run that started with --load c/iter_0000004: continuing" out &&
    grep "loaded far/iter_0000008" out && ! grep "warn" out &&
    chain fine --load c --finetune && test "$(cat fine/latest)" = iter_0000006 &&
    grep "iteration 4 of the run that started with --load c --finetune: continuing" out &&
    chain plain --load c --no-load-optim && test "$(iterations plain)" = "iter_0000008 iter_0000010 iter_0000012" &&
    pretrain --train-iters 12 --load plain --save plain2 && mds_ckpt reshard far/iter_0000008 far2 &&
    pretrain --train-iters 9 --load c/iter_0000004 --save far2 && grep "loaded far2/iter_0000008" out
'
test_expect_success 'in one folder, too, --finetune and --no-load-optim are done once' '
    cp -r c once && chain once --load once --finetune && test "$(cat once/latest)" = iter_0000006 &&
    cp -r c once2 && chain once2 --load once2 --no-load-optim && test "$(cat once2/latest)" = iter_0000012 &&
    grep "of the run that started with --load once2 --no-load-optim: continuing" out
'
test_expect_success 'a run that went back goes on from there; what is of another run is replaced with a warning' '
    cp -r c back && chain back --load back/iter_0000004 && test "$(cat back/latest)" = iter_0000010 &&
    pretrain --train-iters 8 --load back/iter_0000008 --save back && grep "warn: --save back has checkpoints up to iteration 10, and this run starts from back/iter_0000008 and will replace them" out &&
    pretrain --train-iters 6 --load c/iter_0000004 --save fine --finetune && grep "loaded c/iter_0000004" out &&
    grep "warn: --save fine has checkpoints up to iteration 6, and this run starts from c/iter_0000004" out
'
test_expect_success 'without --overwrite nothing of another run is replaced' '
    unset MDS_OVERWRITE && mds_ckpt diff c/iter_0000004 c/iter_0000004 >/dev/null && cp -r c kept &&
    test_must_fail pretrain --train-iters 6 --save kept && diff -r -x .lock c kept &&
    grep "error: --save kept has checkpoints up to iteration 7, and this run starts anew; to continue from them, give --load kept, else" out &&
    test_must_fail pretrain --train-iters 6 --save kept --load c --finetune && diff -r -x .lock c kept &&
    test_must_fail timeout 60 $MPIEXEC -n 2 mds_pretrain $small --train-iters 6 --save kept >out 2>&1 </dev/null &&
    grep "error: .*--save kept has checkpoints" out && diff -r -x .lock c kept &&
    pretrain --train-iters 6 --metrics-jsonl m.jsonl --export-weights x.st --trace-dir tr && cp m.jsonl m &&
    test_must_fail pretrain --train-iters 6 --metrics-jsonl m.jsonl && grep "error: m.jsonl: exists already; give" out &&
    test_must_fail pretrain --train-iters 6 --load c/iter_0000004 --metrics-jsonl m.jsonl && test_cmp m m.jsonl &&
    test_must_fail pretrain --train-iters 6 --export-weights x.st && grep "error: x.st: exists already" out &&
    test_must_fail pretrain --train-iters 6 --trace-dir tr && grep "error: tr/weights.safetensors: exists" out &&
    pretrain --train-iters 6 --overwrite --metrics-jsonl m.jsonl --export-weights x.st --trace-dir tr --save kept &&
    grep "warn: --save kept has checkpoints up to iteration 7, and this run starts anew and will replace them" out
'
test_expect_success 'and a run that starts again, or goes on, replaces its own' '
    pretrain --train-iters 5 --save own --metrics-jsonl own.jsonl --export-weights own.st && rm -r own own.st &&
    pretrain --train-iters 5 --save own --metrics-jsonl own.jsonl --export-weights own.st &&
    pretrain --train-iters 8 --save own --load own --metrics-jsonl own.jsonl --export-weights own.st &&
    test "$(steps own.jsonl | wc -l)" -eq 8 &&
    sed "s/\"save\":\"own\",//" own.jsonl >old.jsonl && pretrain --train-iters 9 --save own --load own --metrics-jsonl old.jsonl &&
    pretrain --skip-train --load own --metrics-jsonl m.jsonl --eval-iters 1
    MDS_OVERWRITE=1 && export MDS_OVERWRITE
'
test_expect_success 'a job that was killed in its first save left nothing to go on from: the next begins' '
    mkdir -p first/iter_0000001.partial && cp c/iter_0000007/rank_00000.h5 first/iter_0000001.partial &&
    : >first/iter_0000001.partial/index.h5 && test_must_fail mds_ckpt verify first 2>err &&
    grep "first: there is no checkpoint" err &&
    pretrain --train-iters 2 --load first --save first && grep "starting a new run" out &&
    test "$(cd first && echo *)" = "iter_0000002 latest"
'
test_expect_success 'finetune takes weights and begins anew' '
    pretrain --train-iters 2 --load c --finetune --metrics-jsonl e.jsonl &&
    test "$(steps e.jsonl | cut -d" " -f1 | tr "\n" " ")" = "1 2 " &&
    ! grep "$(steps d.jsonl | sed -n "1s/.* //p")" e.jsonl
'
test_expect_success 'without the optimizer: the same next loss, then others' '
    pretrain --train-iters 7 --load c/iter_0000004 --lr-warmup-iters 2 --no-load-optim \
        --metrics-jsonl e.jsonl &&
    steps e.jsonl >got && head -n 1 want >want1 && head -n 1 got >got1 &&
    test_cmp want1 got1 && ! test_cmp want got
'
test_expect_success 'the last few are kept, and each so many' '
    pretrain --train-iters 10 --save k --save-interval 1 --keep-last 2 --keep-every 4 &&
    test "$(iterations k)" = "iter_0000004 iter_0000008 iter_0000009 iter_0000010" &&
    mds_ckpt prune --keep-last 1 --dry-run k && test "$(iterations k | wc -w)" -eq 4 &&
    mds_ckpt prune --keep-last 1 k &&
    for none in nowhere k/iter_0000009; do
        test_must_fail mds_ckpt prune --keep-last 1 $none 2>err &&
            grep "$none: not a folder of checkpoints; give the one" err || return 1
    done &&
    test "$(iterations k)" = "iter_0000009 iter_0000010" && test "$(cat k/good)" = iter_0000009
'
# room BYTES OPTIONS...: a disk that has so much left
room() {
    bytes=$1
    shift
    rm -rf full
    FAULTFS=room:$bytes FAULTFS_PATH=full LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
        ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        pretrain --train-iters 7 --save full --save-interval 2 "$@"
}
test_expect_success 'what a checkpoint takes is said, and if there is no room for all of them' '
    room 1470000 && grep "info: a checkpoint takes 358.50 KiB; full has 1.40 MiB free" out && ! grep "warn" out &&
    room 1460000 && grep "warn: a checkpoint takes 358.* has room for 3 more (1.39 MiB); this run needs room for 4: free" out &&
    room 1460000 --keep-last 2 && ! grep "warn" out &&
    room 1100000 --keep-last 2 && grep "warn: .*needs room for 3: free" out
'
# no_room FOLDER OPTIONS...: a disk on which no file of a checkpoint can be written
no_room() {
    FAULTFS=full:0 FAULTFS_PATH=$1/iter_ LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
        ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        test_expect_code 1 pretrain --train-iters 7 --save "$@"
}
test_expect_success 'surplus checkpoints are removed before a save needs their space' '
    pretrain --train-iters 4 --save surplus --save-interval 1 &&
    no_room surplus --load surplus/iter_0000002 --keep-last 1 && grep "No space" out &&
    test "$(iterations surplus | wc -w)" -eq 4 &&
    echo garbled >surplus/good && no_room surplus --load surplus --keep-last 1 && grep "No space" out &&
    test "$(iterations surplus)" = iter_0000004 && mds_ckpt verify surplus
'
test_expect_success 'checkpoints and records follow the umask' '
    (umask 027 && pretrain --train-iters 2 --save masked/run --save-interval 1 --async-save \
        --metrics-jsonl masked/m.jsonl --tensorboard-dir masked/tb) &&
    test -z "$(find masked -type f ! -perm 640 -o -type d ! -perm 750)" &&
    (umask 002 && mds_ckpt reshard a masked2/run) &&
    test -z "$(find masked2 -type f ! -perm 664 -o -type d ! -perm 775)"
'
test_expect_success 'an iteration saved again replaces the old one' '
    cp k/iter_0000010/index.h5 old.h5 &&
    pretrain --train-iters 10 --save k &&
    test "$(iterations k)" = "iter_0000009 iter_0000010" &&
    ! cmp -s old.h5 k/iter_0000010/index.h5 && mds_ckpt verify k
'

test_expect_success 'a path of more than a thousand letters' '
    name=$(printf "%0200d" 0) && long=$name/$name/$name/$name/$name/$name &&
    mkdir -p $long && cp -r a $long && mds_ckpt verify $long/a &&
    pretrain --train-iters 8 --load $long/a && grep "loaded .*iter_0000007" out
'

# fp16 begins with a loss scale that is too high by half, and doubles it after each two
# steps: every second overflow halves it.
scales() {
    for i in 1 2 3 4 5 6 7 8; do
        mds_ckpt info "$1/iter_000000$i" | awk '{ v[$1] = $NF }
            END { printf "%d:%d:%.0f ", v["iteration:"], v["updates:"], v["loss"] }'
    done
}
test_expect_success 'fp16: overflows lower the loss scale and change no weight; both go on where they were' '
    scaled="--fp16 --initial-loss-scale 3500000 --loss-scale-window 2 --train-iters 8" &&
    pretrain $scaled --save h --save-interval 1 && scales h &&
    test "$(scales h)" = "1:0:3500000 2:0:1750000 3:1:1750000 4:2:3500000 \
5:2:3500000 6:2:1750000 7:3:1750000 8:4:3500000 " &&
    mds_ckpt info h/iter_0000006 | grep "^samples: 24$" &&
    test_must_fail mds_ckpt diff h/iter_0000004 h/iter_0000006 >same &&
    grep "^[1-9][0-9]* lists of numbers compared, 0 differ" same &&
    for i in 3 5; do
        pretrain $scaled --load h/iter_000000$i --save h$i &&
        mds_ckpt diff h/iter_0000008 h$i >same && grep " 0 differ" same || return 1
    done
'

# bare OPTIONS...: as pretrain, but the model is nobody's word
bare() {
    rm -f e.jsonl
    mds_pretrain --seq-length 32 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 \
        --threads 1 --data-path t.h5 "$@" >out 2>&1 </dev/null
}
test_expect_success 'the model is the checkpoint'"'"'s, unless it is given' '
    bare --train-iters 7 --load c/iter_0000004 --lr-warmup-iters 2 --metrics-jsonl e.jsonl &&
    ! grep "was saved with" out && steps d.jsonl | tail -n 3 >want && steps e.jsonl >got && test_cmp want got &&
    mds_pretrain --show-config --load c >out && grep "^  layers: 2  *# checkpoint c/iter_0000007$" out &&
    grep "^  seq_length: 32 .*# checkpoint c/" out &&
    HEADS=4 mds_pretrain --show-config --load c >out && grep "^  heads: 4  *# environment HEADS$" out &&
    mds_pretrain --load c --dry-run >out && grep "32 tokens a step" out &&
    mds_launch plan --machine localhost -- --load c --train-iters 9 >out && grep "^a model, 32 tokens," out
'
test_expect_success 'a run computes in the types of the run that saved, unless others are given' '
    pretrain --num-attention-heads 2 --train-iters 3 --save h16 --bf16 --fp8-format hybrid &&
    bare --train-iters 4 --load h16 && ! grep "was saved with.*dtype" out && grep "in bf16.*FP8" out &&
    bare --train-iters 4 --load h16 --finetune && grep "in bf16.*FP8" out &&
    bare --train-iters 4 --load h16 --fp8-format none && grep "info: .*--fp8-format hybrid (now none)" out &&
    bare --train-iters 4 --load h16 --dtype fp32 && grep "info: .*--dtype bf16 (now fp32)" out &&
    mds_launch --print --machine localhost --ranks 1 -- --load h16 --train-iters 4 --data-path t.h5 >out &&
    grep -e "--load h16" out && test_must_fail grep -e "--dtype" -e "bf16" out # ranks read them there, too
'
test_expect_success 'options that change what the model computes are refused without --override-model-config' '
    while read -r option was now; do
        test_must_fail pretrain --train-iters 7 --load c $option=$now &&
        grep "error: c/iter_0000007: was saved with .*$option $was (now $now).*--override-model-config" out &&
        test_must_fail pretrain --train-iters 7 --load c --finetune $option=$now || return 1
    done <<-END &&
	--num-attention-heads 4 2
	--kv-channels 8 16
	--norm-epsilon 1e-05 1e-06
	--position-embedding-type learned_absolute rope
	--position-embedding-type learned_absolute alibi
	--normalization LayerNorm RMSNorm
	--swiglu false true
	--untie-embeddings-and-output-weights false true
	--hidden-size 32 64
	END
    MDS_NORM_EPSILON=1e-6 pretrain --train-iters 9 --load c --save eps --override-model-config &&
    grep "warn: c/iter_0000007: was saved with --norm-epsilon 1e-05 (now 1e-06), and --override" out &&
    bare --train-iters 10 --load eps && mds_ckpt info --config eps | grep "norm_eps: 1e-06" &&
    test_must_fail pretrain --override-model-config && grep "override-model-config without --load" out &&
    test_must_fail pretrain --train-iters 7 --load c --hidden-size 64 --override-model-config &&
    grep "error: c/iter_0000007: embedding.* x 32, this model.s is .* x 64; " out
'
test_expect_success 'what may change is said in a line' '
    pretrain --train-iters 7 --load c/iter_0000004 --lr 2e-3 --seed 5 --zero-stage 1 --hidden-dropout 0.1 &&
    grep "info: c/iter_0000004: was saved with --hidden-dropout 0 (now 0.1), --zero-stage 0 (now 1), --lr 0.001 (now 0.002)" out >line &&
    grep "seed 1234 (now 5)" line && test "$(grep -c "was saved with" out)" -eq 1
'
test_expect_success 'a damaged checkpoint of a model that nobody else knows is named' '
    cp -r c torn && for i in 4 7; do echo >torn/iter_000000$i/index.h5; done &&
    test_must_fail bare --train-iters 7 --load torn && grep "error: torn/iter_0000004/index.h5: " out &&
    cp c/iter_0000004/index.h5 torn/iter_0000004 && bare --train-iters 7 --load torn --load-fallback &&
    grep "loaded torn/iter_0000004" out
'
# As saved, with the losses of the run that was not interrupted; tests/data/README.md has the options.
format2="--num-layers 1 --hidden-size 4 --num-attention-heads 2 --ffn-hidden-size 8 --swiglu
    --use-rotary-position-embeddings --rotary-base 500 --make-vocab-size-divisible-by 2 --seq-length 32
    --global-batch-size 4 --lr 1e-2 --train-iters 6 --eval-iters 0 --threads 1 --data-path n.h5"
test_expect_success 'a checkpoint of format 2, written by an earlier version, is resumed' '
    tar xzf "$srcdir/tests/data/checkpoint-format2.tar.gz" && mds_ckpt verify format2 &&
    mds_ckpt reshard format2 resharded && { mds_ckpt diff format2 resharded >out || :; } && grep "63 lists.* 0 differ" out &&
    mds_ckpt info format2 | grep "^tokens: 512$" &&
    mds_data make --tokenizer nucleotide --output n.h5 "$srcdir/tests/data/lambda.fna.gz" &&
    mds_pretrain $format2 --load format2 --metrics-jsonl format2.jsonl >out 2>&1 &&
    steps format2.jsonl >got && cat got && printf "5 1.744835082\n6 1.732481575\n" | paste -d " " - got |
        awk "{ d = \$2 - \$4; if (d < 0) d = -d; if (d > 1e-6 || \$1 != \$3) bad = 1 }
             END { exit bad || NR != 2 }"
'

# ---- in the background ----

test_expect_success 'saved in the background: the same files, and every interval has one' '
    pretrain --train-iters 6 --save bg --save-interval 2 --async-save &&
    test "$(iterations bg)" = "iter_0000002 iter_0000004 iter_0000006" &&
    test "$(grep -c "saved.*training waited" out)" -eq 2 &&
    pretrain --train-iters 6 --save fg --save-interval 2 &&
    for i in 2 4 6; do
        mds_ckpt verify bg/iter_000000$i &&
        mds_ckpt diff bg/iter_000000$i fg/iter_000000$i | grep " 0 differ" || return 1
    done
'
# The disk takes half a second for each file; a step some milliseconds.
test_expect_success 'training goes on meanwhile, and the last one is waited for' '
    FAULTFS=late:500 FAULTFS_PATH=.partial LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
        ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        pretrain --train-iters 1000 --exit-interval 8 --save bg2 --save-interval 5 --async-save
    test $? -eq 85 && grep -e "iteration  *6/" -e "saved bg2/iter_0000005" out >order &&
    head -n 1 order | grep "iteration" && tail -n 1 order | grep "saved" &&
    test "$(iterations bg2)" = "iter_0000005 iter_0000008" &&
    test "$(cat bg2/latest)" = iter_0000008
'
test_expect_success 'memory for it is in the dry run, and it needs a folder' '
    pretrain --train-iters 6 --save bg --async-save --dry-run --world-size 2 &&
    grep "host memory .* for saving in the background" out &&
    grep "checkpoint .* in 3 files at most" out &&
    test_must_fail pretrain --train-iters 6 --async-save &&
    grep "error: .*--async-save: nothing is saved" out
'

# ---- signals ----

for sig in TERM:86 USR1:85; do
    test_expect_success "SIG${sig%:*}: the step is finished and saved, status ${sig#*:}" '
        begin s && kill -${sig%:*} $pid && { wait $pid; test $? -eq ${sig#*:}; } &&
        grep "ended by signal" out && mds_ckpt verify s
    '
done
test_expect_success 'not if that is not wanted' '
    begin s --exit-signal-handler=0 && kill -TERM $pid && { wait $pid; test $? -eq 143; } && test ! -e s/latest
'
test_expect_success 'time is up: the same' '
    pretrain --train-iters 100000000 --save u --exit-duration-in-mins 0.5s
    test $? -eq 85 && grep "ended by duration" out && mds_ckpt verify u
'
# in_a_step COMMAND...: what it begins is then in a step that waits for a disk, for good
in_a_step() {
    rm -f hold held
    FAULTFS=hold FAULTFS_PATH=held.jsonl ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        LD_PRELOAD=$builddir/tests/ckpt/faultfs.so "$@" --metrics-jsonl held.jsonl
    : >hold
    until test -e held || ! kill -0 "$pid"; do sleep 0.05; done
}
test_expect_success 'a second signal leaves at once' '
    in_a_step begin v &&
    kill -TERM $pid && sleep 0.2 && kill -TERM $pid && sleep 2.2 && kill -TERM $pid &&
    { wait $pid; test $? -eq 143; } && test ! -e v/latest
'
test_expect_success 'but not SIGTERM after the warning, SIGUSR1, however often that comes; the next one does' '
    in_a_step begin v && kill -USR1 $pid && sleep 2.2 && kill -USR1 $pid && rm hold && { wait $pid; test $? -eq 85; } &&
    in_a_step begin v && kill -USR1 $pid && sleep 2.2 && kill -TERM $pid && sleep 0.2 && kill -USR1 $pid && rm hold &&
    { wait $pid; test $? -eq 86; } && mds_ckpt verify v && rm -r v &&
    in_a_step begin v && kill -USR1 $pid && kill -TERM $pid && sleep 2.2 && kill -TERM $pid &&
    { wait $pid; test $? -eq 143; } && test ! -e v/latest
'

# start OPTIONS...: as begin, two ranks; their process ids are in pids/, the job's is pid
start() {
    rm -rf pids s && mkdir pids && : >out
    # shellcheck disable=SC2086  # lists of words
    $MPIEXEC -n 2 sh -c 'echo >pids/$$ && exec mds_pretrain "$@"' sh $small --save s \
        --train-iters 100000000 --zero-stage 1 "$@" >out 2>&1 </dev/null &
    pid=$!
    until grep -q "iteration  *1/" out; do sleep 0.05; done
    rank=$(cd pids && echo *) && rank=${rank##* }
}
test_expect_success 'a signal to one rank of several: all save, the job leaves with 85' '
    start && kill -USR1 $rank && { wait $pid; test $? -eq 85; } &&
    grep "ended by signal" out && mds_ckpt verify s && ! grep "error" out
'
test_expect_success 'time is up for several: the same' '
    start --exit-duration-in-mins 0.5s && { wait $pid; test $? -eq 85; } &&
    grep "ended by duration" out && mds_ckpt verify s
'
test_expect_success 'a second signal to one of several ends the job at once, without a word of death' '
    in_a_step start && kill -TERM $rank && sleep 2.2 &&
    kill -TERM $rank && { wait $pid; status=$?; } && test $status -ne 0 && test $status -ne 85 &&
    test ! -e s/latest && ! grep "last collective" out
'

# ---- the tool ----

test_expect_success 'info says where from, verify that it is sound' '
    mds_ckpt info c >out && grep "iteration: 7" out && grep "ranks: 1" out &&
    size=$(cat c/iter_0000007/* | wc -c | awk "{ printf \"%.2f KiB\", \$1 / 1024 }") &&
    grep -x "files: $(ls c/iter_0000007 | wc -l), $size" out &&
    mds_ckpt info --tensors c | grep "layer.1.mlp.up.weight  *128 x 32" &&
    mds_ckpt info --config c >run.yaml && grep "layers: 2 " run.yaml &&
    mds_ckpt verify --all c >out && test "$(grep -c sound out)" -eq 2
'
test_expect_success 'the configuration starts the same run' '
    mds_pretrain --config run.yaml --metrics-jsonl e.jsonl --save w --no-load-optim \
        --load c/iter_0000004 >out 2>&1 && test -e w/iter_0000007
'
test_expect_success 'export gives what --export-weights does' '
    pretrain --train-iters 7 --load c --export-weights x.safetensors &&
    mds_ckpt export --output y.safetensors c &&
    pretrain --train-iters 1 --init-weights x.safetensors --metrics-jsonl x.jsonl &&
    pretrain --train-iters 1 --init-weights y.safetensors --metrics-jsonl y.jsonl &&
    steps x.jsonl >x && steps y.jsonl >y && test_cmp x y
'
test_expect_success 'weights in a file start a run whose vocabulary is padded otherwise' '
    pretrain --train-iters 1 --make-vocab-size-divisible-by 96 --init-weights x.safetensors --metrics-jsonl y.jsonl &&
    steps y.jsonl >y && test_cmp x y && rm -f y.jsonl &&
    pretrain --train-iters 1 --make-vocab-size-divisible-by 96 --export-weights y.safetensors &&
    pretrain --train-iters 1 --init-weights y.safetensors
'
test_expect_success 'diff: the same bits, a tolerance, other weights, another function' '
    cp -r a twin && mds_ckpt diff a twin >out && grep "108 lists of numbers compared, 0 differ" out &&
    test_must_fail mds_ckpt diff a c/iter_0000004 >out 2>err &&
    grep "^iteration: 7 | 4$" out && grep "^samples: 28 | 16$" out && grep "differ$" err &&
    grep "^weight layer.1.mlp.up.weight: relative L2 .*, largest .* 4096 numbers" out &&
    grep "configuration: checkpoint.save: a | c" out &&
    mds_ckpt diff --weights --tolerance 99 a c/iter_0000004 >out &&
    grep "^36 lists of numbers compared, 0 differ; worst relative L2 " out &&
    pretrain --train-iters 1 --save heads --num-attention-heads 2 --load a --finetune --override-model-config &&
    test_must_fail mds_ckpt diff --tolerance 99 heads a >out 2>err &&
    grep "configuration: model.heads: 2 | 4" out &&
    pretrain --train-iters 1 --save deep --num-layers 3 &&
    test_must_fail mds_ckpt diff --weights --tolerance 99 a deep >out 2>err &&
    grep "^layer.2.mlp.up.weight: only in deep/iter_0000001" out &&
    pretrain --train-iters 1 --save wide --ffn-hidden-size 96 &&
    test_must_fail mds_ckpt diff a wide >out 2>err &&
    grep "^layer.0.mlp.up.weight: 128 x 32 | 96 x 32$" out
'
test_expect_success 'reshard takes nothing but a layout, and replaces nothing' '
    mds_ckpt reshard a a4 --tensor-model-parallel-size 2 --world-size 4 &&
    test "$(ls a4/iter_0000007 | wc -l)" -eq 5 &&
    mds_ckpt info a4 >out && grep "^layout: pipeline 1 x data 2 .* tensor 2," out &&
    grep "^made from: a/iter_0000007" out && grep "^  program: mds_pretrain" out &&
    mds_ckpt info --config a4 >four.yaml && grep "tensor: 2 " four.yaml &&
    grep "accumulation: 2 .*derived" four.yaml && grep "dry_world: 0 " four.yaml &&
    test_must_fail env MDS_OVERWRITE=0 mds_ckpt reshard a a4 2>err && grep "a4/iter_0000007: exists already; .*--overwrite" err &&
    test_must_fail mds_ckpt reshard a b4 --num-layers 3 2>err &&
    grep "num-layers does not concern the layout" err &&
    test_must_fail mds_ckpt reshard a b4 --tensor-model-parallel-size 3 2>err &&
    test "$(wc -l <err)" -eq 1 && grep "does not divide" err &&
    test_must_fail mds_ckpt reshard a 2>err && grep "a folder for the new one" err &&
    test_must_fail mds_ckpt reshard a /proc/none/folder 2>err && grep "cannot create this folder: No such file" err &&
    test ! -e b4
'
test_expect_success 'reshard into a folder with a run: only with --force, and latest is said to move' '
    cp -r c run && test_must_fail mds_ckpt reshard a/iter_0000003 run 2>err &&
    grep "error: run: holds a run at iteration 7, .*(iteration 3) instead: .*--force" err &&
    test "$(cat run/latest)" = iter_0000007 && test "$(iterations run)" = "$(iterations c)" &&
    mds_ckpt reshard --force a/iter_0000003 run >out && grep "^run/latest: names iteration 3 now, 7 before" out &&
    test "$(cat run/latest)" = iter_0000003 &&
    test_must_fail env MDS_OVERWRITE=0 mds_ckpt reshard a/iter_0000003 --force run 2>err && grep "iter_0000003: exists already" err &&
    mds_ckpt reshard a/iter_0000003 run --overwrite && mds_ckpt verify run
'
test_expect_success 'reshard: what only some layouts allow stays behind' '
    pretrain --train-iters 1 --save left --num-layers 4 --cpu-offloading-num-layers 2 &&
    mds_ckpt reshard left left4 --pipeline-model-parallel-size 4 && mds_ckpt verify left4 &&
    mds_ckpt info --config left4 >four.yaml && grep "offload_layers: 0 " four.yaml
'
test_expect_success 'reshard has nothing to say of what the run was, such as its files for training and validation' '
    mds_ckpt reshard a quiet 2>err && test ! -s err && rm -rf quiet &&
    mds_pretrain ${small%--data-path*} --train-data-path t.h5 --valid-data-path t.h5 --train-iters 1 --save apart >out 2>&1 &&
    mds_ckpt reshard apart quiet 2>err && test ! -s err && mds_ckpt diff apart quiet
'
documents="$(for n in 1 2 3 4; do awk -v n=$n 'BEGIN { for (i = 0; i < 700; i++) printf "%d ", (i * n) % 37 + 1; print "" }'; done)"
made() {
    sed -n 's/.*data: d.h5: .* document.* in .* rows.*/rows/p; s/.*data: windows may cross.*/windows/p' out
}
test_expect_success 'reshard keeps how samples are made, which the data decided' '
    echo "$documents" | mds_data make --tokenizer ids --vocab-size 40 --eod 0 --output d.h5 - &&
    pretrain --data-path d.h5 --split 1 --train-iters 1 --window-stride 16 --save packs && test "$(made)" = rows &&
    mds_ckpt reshard packs packs2 --tensor-model-parallel-size 2 && rm -f [ab].jsonl &&
    pretrain --data-path d.h5 --split 1 --train-iters 2 --load packs --metrics-jsonl a.jsonl && test "$(made)" = rows &&
    pretrain --data-path d.h5 --split 1 --train-iters 2 --load packs2 --metrics-jsonl b.jsonl && test "$(made)" = rows &&
    steps a.jsonl >want && steps b.jsonl >got && test_cmp want got &&
    pretrain --data-path d.h5 --split 1 --split-at tokens --train-iters 1 --pack-documents off --save cuts && test "$(made)" = windows &&
    mds_ckpt reshard cuts cuts2 --tensor-model-parallel-size 2 &&
    pretrain --data-path d.h5 --split 1 --train-iters 2 --load cuts2 && test "$(made)" = windows
'
test_expect_success 'slips are told in a line' '
    test_must_fail mds_ckpt verfy c 2>err && grep "did you mean verify" err &&
    test_must_fail mds_ckpt prune --keep-lst 2 c 2>err &&
    grep "unknown option --keep-lst; did you mean --keep-last" err &&
    test_must_fail mds_ckpt info c c 2>err && grep "is one operand too many" err &&
    test_must_fail mds_ckpt verify --dry-run c 2>err && grep "option --dry-run belongs to .prune.; give it after" err &&
    test_must_fail mds_ckpt prune --keep-last 0 c 2>err && grep "must be at least 1" err &&
    test_must_fail mds_ckpt verify nowhere 2>err && grep "nowhere: there is no checkpoint" err &&
    test_must_fail mds_ckpt prune c 2>err && grep "keep-last" err &&
    test_must_fail mds_ckpt export c 2>err && grep "output is missing: FILE" err &&
    test_must_fail mds_ckpt 2>err && grep "no subcommand given" err &&
    test_must_fail mds_ckpt info 2>err && grep "info needs one checkpoint" err
'
test_expect_success 'a finished run, loaded and saved elsewhere: the same state in another layout' '
    # MPIEXEC and small are lists of words
    # shellcheck disable=SC2086
    $MPIEXEC -n 4 mds_pretrain $small --make-vocab-size-divisible-by 8 --zero-stage 1 \
        --tensor-model-parallel-size 2 --train-iters 3 --save four >out 2>&1 </dev/null &&
    pretrain --make-vocab-size-divisible-by 16 --train-iters 3 --load four --save one &&
    test "$(ls one/iter_0000003)" = "index.h5
rank_00000.h5" &&
    mds_ckpt export --output four.st four && mds_ckpt export --output one.st one &&
    cmp four.st one.st
'
# validated OPTIONS...: where a run that goes on in v evaluates validation
validated() {
    pretrain --save v --load v --eval-iters 1 --eval-interval 2 --split 50,25,25 "$@"
    sed -n "s/ validation loss at iteration \([0-9]*\) .*/\1/p" out | tr "\n" " "
}
test_expect_success 'a job does not evaluate again where an earlier one has evaluated, and does where it has not' '
    test "$(validated --train-iters 4)" = "2 4 " && test "$(cat v/evaluated)" = iter_0000004 &&
    test "$(validated --train-iters 9 --exit-interval 6)" = "" && test "$(validated --train-iters 9)" = "6 8 9 " &&
    rm v/evaluated && test "$(validated --train-iters 10 --load v/iter_0000006)" = "6 8 10 "
'
# The recipe of docs/context-extension.md, from 64 to 256 tokens.
cat >words.awk <<'END'
BEGIN {
    for (x = 1; i++ < 9000;) {
        x = (x * 1103 + 12345) % 65536
        printf "%s ", substr("the of and to in that it was his he with as for had you not", 1 + 4 * int(x / 4096), 3)
    }
}
END
extend='--global-batch-size 16 --threads 1 --data-path w.h5 --split 90,10,0 --split-at tokens --eval-interval 1000'
# extend OPTIONS...; the loss of the last evaluation is in $loss
extend() {
    # shellcheck disable=SC2086
    mds_pretrain $extend "$@" >out 2>&1 </dev/null && loss=$(sed -n "s/.*lm loss value: \([^ ]*\) .*/\1/p" out | tail -n 1)
}
yarn='--rope-scaling-type yarn --rope-scaling-factor 4 --original-max-position-embeddings 64'
test_expect_success 'longer sequences by --finetune: YaRN is nearer before training, and trains to where the short ones were' '
    awk -f words.awk >words && mds_data make --tokenizer bytes --output w.h5 words &&
    extend --num-layers 2 --hidden-size 32 --num-attention-heads 2 --normalization rmsnorm --swiglu --disable-bias-linear \
        --use-rotary-position-embeddings --seq-length 64 --train-iters 200 --lr 1e-2 --eval-iters 2 --save short && short=$loss &&
    extend --load short --skip-train --seq-length 256 --eval-iters 1 && plain=$loss &&
    test_must_fail extend --load short --seq-length 256 --train-iters 1 $yarn && tr "\n" " " <out >line &&
    grep "saved with --rope-scaling-type none (now yarn), --rope-scaling-factor 1 (now 4), --original" line &&
    extend --load short --override-model-config --skip-train --seq-length 256 --eval-iters 1 $yarn && before=$loss &&
    extend --load short --finetune --override-model-config --seq-length 256 --train-iters 20 --lr 3e-3 --lr-warmup-iters 2 \
        --eval-iters 1 --save long $yarn && after=$loss &&
    echo "64 tokens $short, 256 $plain, with YaRN $before, trained $after" &&
    awk "BEGIN { exit !($before < $plain - 0.3 && $after < $before - 0.1 && $after < $short + 0.1) }" &&
    extend --load long --seq-length 256 --train-iters 22 --eval-iters 0 && grep "iteration  *22/" out &&
    mds_pretrain --load long --show-config >config && grep "rope_scaling_type: yarn .*# checkpoint long/" config &&
    test_must_fail extend --load long --seq-length 256 --train-iters 22 --rope-scaling-factor 8 && grep "factor 4 (now 8)" out
'
# values FOLDER SET: as bytes, by HDF5's virtual data sets
values() {
    h5dump -d "$2" -b LE -o "$1.raw" "$1/iter_0000003/index.h5" >out
}
if command -v h5dump >h5dump.path; then
    test_expect_success 'h5dump reads tensors whole, made of rows, of columns and of both' '
        for set in weight/embedding.word.weight weight/layer.0.attention.q.weight \
            adam_m/layer.0.attention.out.weight adam_v/layer.1.mlp.down.weight \
            weight/layer.1.mlp.up.bias weight/final_norm.gamma; do
            values four /$set && values one /$set && cmp four.raw one.raw &&
                test -s one.raw || return 1
        done
    '
    test_expect_success 'and NaN where a file is missing' '
        rm one/iter_0000003/rank_00000.h5 &&
        h5dump -d /weight/final_norm.gamma one/iter_0000003/index.h5 | grep -i nan
    '
fi

test_done
