#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_infer embed: hidden states of sequences'
# shellcheck source=tests/infer/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/infer/setup.sh"

PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 PYTHONPATH=$srcdir/tests/parity
export PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS PYTHONPATH
python=${PYTHON_TORCH:-python3}
"$python" -c 'import h5py' 2>/dev/null && test_set_prereq H5PY
"$python" -c 'import h5py, torch' 2>/dev/null && test_set_prereq TORCH

records 30 8 3 >a.fa
shape='--num-layers 4 --seq-length 112'
llama='--num-key-value-heads 2 --normalization RMSNorm --swiglu --untie-embeddings-and-output-weights'
# shellcheck disable=SC2086
pretrain $shape --data-path t.h5 $rope $llama --save llama --export-weights llama.st >out 2>&1
# shellcheck disable=SC2086
pretrain $shape --data-path t.h5 --save gpt --export-weights gpt.st >>out 2>&1

# embed MODEL OUTPUT ARGUMENTS...
embed() {
    load=$1 output=$2
    shift 2
    mds_infer embed --load "$load" --output "$output" --overwrite "$@"
}
same() {
    "$python" "$srcdir/tests/infer/embed.py" same "$@"
}
pooled() {
    "$python" "$srcdir/tests/infer/embed.py" pooled "$@"
}

test_expect_success TORCH 'each block has the hidden states that PyTorch computes' '
    for m in llama gpt; do
        test $m = llama && options="$rope $llama" || options=
        for layer in 1 2 3 4; do
            embed $m $m$layer.h5 --layer $layer --pool none a.fa --threads 1 2>err && cat err &&
            grep "30 sequences read behind block $layer of 4, 1545 rows written" err &&
            "$python" "$srcdir/tests/infer/embed.py" model $m.st a.fa $m$layer.h5 $shape --hidden-size 32 \
                --num-attention-heads 4 $options || return 1
        done || return 1
    done
'
test_expect_success H5PY 'the last block unless another is named' '
    embed llama last.h5 --pool none a.fa --threads 1 && embed llama two.h5 --pool none --layer 2 a.fa --threads 1 &&
    embed llama four.h5 --pool none --layer 4 a.fa --threads 1 && same last.h5 four.h5 0 &&
    test_must_fail same last.h5 two.h5 1e-2
'
test_expect_success H5PY 'means and last tokens, of sequences and of windows' '
    for pool in mean last; do
        for window in 0 1 7 64 1000; do
            embed llama p.h5 --pool $pool --pool-window $window --layer 2 a.fa --threads 1 &&
            pooled two.h5 p.h5 || return 1
        done || return 1
    done
'
while read -r n options; do
    test_expect_success H5PY "$n ranks give the same: $options" "
        for of in '4 last' '2 two'; do
            timeout 60 \$MPIEXEC -n $n mds_infer embed --load llama --layer \${of% *} --pool none --output ranks.h5 --overwrite \
                a.fa --threads 1 $options </dev/null >out 2>&1 &&
            cat out && same \${of#* }.h5 ranks.h5 2e-6 || return 1
        done
    "
done <<'END'
2
2 --zero-stage 3
2 --tensor-model-parallel-size 2
2 --tensor-model-parallel-size 2 --sequence-parallel
2 --tensor-model-parallel-size 2 --sequence-parallel --tp-comm-chunks 3
2 --tensor-model-parallel-size 2 --sequence-parallel --sequence-tile 16
2 --ds-sequence-parallel-size 2
2 --context-parallel-size 2
2 --pipeline-model-parallel-size 2
4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel
4 --context-parallel-size 2 --ds-sequence-parallel-size 2
4 --tensor-model-parallel-size 2
2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2
END
test_expect_success H5PY 'neither batches nor rows nor tiles change them' '
    for options in "--micro-batch-size 1" "--sequence-tile 13" "--seq-length 256" "--no-use-flash-attn"; do
        embed llama o.h5 --pool none a.fa --threads 1 $options && same last.h5 o.h5 2e-6 || return 1
    done &&
    embed llama mean.h5 a.fa --threads 1 && embed llama few.h5 --batch-tokens 1 a.fa --threads 1 && same mean.h5 few.h5 2e-6
'
test_expect_success H5PY 'in f16, and by a model in bf16' '
    embed llama half.h5 --pool none --output-type f16 a.fa --threads 1 && same last.h5 half.h5 4.9e-4 float16 &&
    embed llama low.h5 --pool none a.fa --threads 1 --dtype bf16 && same last.h5 low.h5 5e-2 && test_must_fail same last.h5 low.h5 1e-6
'
test_expect_success H5PY 'token files, lines of JSON, standard input; a folder of Hugging Face' '
    mds_data make --tokenizer codon --output a.h5 a.fa && mds_ckpt export --format hf --output hf llama &&
    awk "/^>/ { n = substr(\$1, 2); next } { printf \"{\\\"name\\\": \\\"%s\\\", \\\"text\\\": \\\"%s\\\"}\n\", n, \$0 }" a.fa >a.jsonl &&
    embed llama mean.h5 --layer 2 a.fa --threads 1 &&
    embed llama is.h5 --layer 2 a.jsonl --threads 1 && same mean.h5 is.h5 0 &&
    embed llama is.h5 --layer 2 - --threads 1 --seq-length 96 <a.fa && same mean.h5 is.h5 2e-6 &&
    embed hf is.h5 --tokenizer codon --layer 2 a.fa --threads 1 && same mean.h5 is.h5 2e-6 &&
    awk "/^>/ { print \">\" ++n; next } 1" a.fa >n.fa && embed llama mean.h5 n.fa --threads 1 &&
    embed llama is.h5 a.h5 --threads 1 && same mean.h5 is.h5 0
'
test_expect_success H5PY 'a window of attention in some blocks' '
    pretrain --num-layers 3 --seq-length 64 --data-path t.h5 $rope --window-size 5 --window-attn-skip-freq [1,0,1] --save windows >out 2>&1 &&
    for layer in 1 2; do
        embed windows w.h5 --layer $layer --pool none a.fa --threads 1 &&
        embed windows v.h5 --layer $layer --pool none a.fa --threads 1 --no-use-flash-attn && same w.h5 v.h5 2e-6 || return 1
    done
'
test_expect_success H5PY 'sequences of no token are nan, and counted; of one they are not' '
    printf ">a\nAC\n>b\n\n>c\nACG\n>d\nACGTTT\n" >short.fa && embed llama short.h5 --pool none short.fa --threads 1 2>err && cat err &&
    grep "warn: 2 of 4 sequences have no tokens" err && grep "3 rows written" err &&
    for options in "" "--pool last" "--pool-window 1"; do
        embed llama p.h5 $options short.fa --threads 1 && pooled short.h5 p.h5 || return 1
    done
'
while read -r n options; do
    test_expect_success "a dry run says what $n ranks take: $options" "
        mds_infer embed --load llama --output d.h5 --layer 2 a.fa --threads 1 --dry-run --world-size $n $options >dry &&
        test_must_fail test -e d.h5 &&
        timeout 60 \$MPIEXEC -n $n mds_infer embed --load llama --output d.h5 --layer 2 a.fa --threads 1 --log-level debug $options \
            </dev/null >out 2>wet &&
        rm d.h5 && table dry >a && table wet >b && cat wet && test \"\$(wc -l <a)\" -ge 3 && test_cmp a b
    "
done <<'END'
1
1 --micro-batch-size 1 --sequence-tile 16
2 --tensor-model-parallel-size 2 --sequence-parallel
4 --context-parallel-size 2 --pipeline-model-parallel-size 2
END
# refused WORDS ARGUMENTS...: fails with one line that has these words
refused() {
    words=$1
    shift
    test_must_fail mds_infer embed "$@" --threads 1 >out 2>err
    cat err
    test "$(grep -c error err)" -eq 1 && grep -e "error: .*$words" err
}
test_expect_success 'errors say what, where and what to do' '
    records 1 40 0 >r.fa && rm -f e.h5 &&
    refused "layer 5: llama/iter_0000005 has 4 blocks; give 1 to 4" --load llama --output e.h5 --layer 5 r.fa &&
    refused "layer 1: .* cannot be shared by 2 parts of the pipeline" --load llama --output e.h5 --layer 1 r.fa \
        --pipeline-model-parallel-size 2 --dry-run &&
    refused "output is missing" --load llama r.fa && refused "load is missing" --output e.h5 r.fa &&
    refused "name it before" --load llama --output e.h5 &&
    refused "a row for a window, or for each token" --load llama --output e.h5 --pool none --pool-window 4 r.fa &&
    refused "r1 has 40 tokens, and .* takes 32; give a larger" --load llama --output e.h5 r.fa --seq-length 32 &&
    records 1 113 0 >long.fa && refused "r1 has 113 tokens, and .* takes 112; the model learned" --load gpt --output e.h5 long.fa &&
    refused "unknown option --strand" --load llama --output e.h5 r.fa --strand both && test_must_fail test -e e.h5 &&
    refused "nowhere/e.h5" --load llama --output nowhere/e.h5 r.fa &&
    embed llama e.h5 r.fa --threads 1 && refused "e.h5: exists already" --load llama --output e.h5 r.fa &&
    test_must_fail mds_infer score --load llama r.fa --layer 2 2>err && grep "unknown option --layer" err
'
test_expect_success H5PY '--resume leaves what is complete, and refuses what is of something else' '
    rm -f e.h5 e.h5.run && records 3 40 0 >r.fa &&
    embedded() { mds_infer embed --load llama --output e.h5 --resume "$@" --threads 1 2>err || { cat err; return 1; }; } &&
    embedded r.fa && ! grep already err && cp e.h5 first.h5 && grep "^layer: 4$" e.h5.run && grep "^pool: mean$" e.h5.run &&
    embedded r.fa && grep "e.h5 is complete already" err && cmp e.h5 first.h5 &&
    timeout 60 $MPIEXEC -n 2 mds_infer embed --load llama --output e.h5 --resume r.fa --threads 1 </dev/null >out 2>&1 && grep "complete already" out &&
    test_must_fail embedded --layer 2 r.fa && grep "e.h5: was begun with .layer: 4., and this is .layer: 2." err &&
    test_must_fail embedded --overwrite r.fa && grep "leave out one of them" err &&
    rm e.h5 && embedded --layer 2 r.fa && ! grep already err && grep "^layer: 2$" e.h5.run &&
    test_must_fail mds_infer generate --load llama --resume r.fa 2>err && grep "resume is for score and embed" err
'
test_expect_success 'on a full disk there is no file, and the reason' '
    for bytes in 3000 60000; do
        test_must_fail env FAULTFS=full:$bytes FAULTFS_PATH=full.h5 LD_PRELOAD="$builddir/tests/ckpt/faultfs.so" \
            mds_infer embed --load llama --pool none --batch-tokens 64 --output full.h5 a.fa --threads 1 2>err
        cat err && test "$(grep -c error err)" -eq 1 && grep "error: full.h5: .*No space left" err &&
        test_must_fail test -e full.h5 && test_must_fail test -e full.h5.partial || return 1
    done
'
test_done
