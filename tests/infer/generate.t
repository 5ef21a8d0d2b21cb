#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_infer generate: what a model continues sequences with'
# shellcheck source=tests/infer/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/infer/setup.sh"

records 7 8 3 >a.fa
records 6 10 0 >same.fa
cat a.fa same.fa >mixed.fa
# from FOLDER ARGUMENTS...: of a model, to standard output
from() {
    load=$1
    shift
    mds_infer generate --load "$load" "$@" --threads 1
}
generate() {
    from model "$@"
}
# bases FILE: those of each record of FASTA on one line
bases() {
    awk '/^>/ { if (n++) print ""; next } { printf "%s", $0 } END { if (n) print "" }' "$1"
}

test_expect_success 'FASTA: a record for each prompt, in order' '
    generate --max-new-tokens 40 mixed.fa >one 2>err && cat one err && ! grep "warn\|error" err &&
    grep "info: 520 tokens generated in 13 sequences, " err &&
    sed -n "s/^>\(r[0-9]*\) tokens=40 end=length$/\1/p" one >names &&
    { seq -f r%g 7; seq -f r%g 6; } | test_cmp - names &&
    bases one >lines && test "$(wc -l <lines)" -eq 13 && ! grep -v "^[ACGT]\{120\}$" lines &&
    ! awk "!/^>/ && length > 80" one | grep .
'
# likeliest FOLDER PROMPT: the codon with which the model's score of the sequence is best
likeliest() {
    awk -v prompt="$2" 'BEGIN { for (i = 0; i < 64; i++) {
        c = substr("ACGT", int(i / 16) + 1, 1) substr("ACGT", int(i / 4) % 4 + 1, 1) substr("ACGT", i % 4 + 1, 1)
        printf ">%s\n%s%s\n", c, prompt, c } }' >all.fa
    mds_infer score --load "$1" all.fa --threads 1 >scores &&
        sort -t "	" -k 4,4gr scores | grep -v name | head -n 1 | cut -f 1
}
# The likeliest token is the one with which score likes the sequence best.
test_expect_success 'the tokens are those that score finds likeliest' '
    head -n 2 a.fa >p.fa && generate --max-new-tokens 3 p.fa >is && prompt=$(tail -n 1 p.fa) &&
    for i in 1 2 3; do
        likeliest model "$prompt" >next && prompt=$prompt$(cat next) || return 1
    done &&
    echo "$prompt" >want && { tail -n 1 p.fa | tr -d "\n"; bases is; } | test_cmp want -
'
test_expect_success 'with ALiBi, from a prompt longer than the sequences of the training' '
    pretrain --num-layers 2 --seq-length 16 --data-path t.h5 --position-embedding-type alibi --save alibi >out 2>&1 &&
    records 1 30 0 >p.fa && from alibi --max-new-tokens 2 p.fa >is && prompt=$(tail -n 1 p.fa) &&
    for i in 1 2; do
        likeliest alibi "$prompt" >next && prompt=$prompt$(cat next) || return 1
    done &&
    echo "$prompt" >want && { tail -n 1 p.fa | tr -d "\n"; bases is; } | test_cmp want - &&
    from alibi --max-new-tokens 60 --batch-tokens 1 p.fa >x && from alibi --max-new-tokens 60 p.fa >y && test_cmp x y
'
while read -r n options; do
    test_expect_success "the same from $n ranks: $options" "
        timeout 60 \$MPIEXEC -n $n mds_infer generate --load model --max-new-tokens 40 --output ranks \
            --overwrite mixed.fa --threads 1 $options </dev/null >out 2>&1 &&
        cat out && test_cmp one ranks &&
        timeout 60 \$MPIEXEC -n $n mds_infer generate --load model --max-new-tokens 40 --output ranks \
            --overwrite mixed.fa --temperature 1 --num-samples 2 --threads 1 $options </dev/null >out 2>&1 &&
        generate --max-new-tokens 40 --temperature 1 --num-samples 2 mixed.fa >want && test_cmp want ranks
    "
done <<'END'
1 --micro-batch-size 2
2
2 --tensor-model-parallel-size 2
2 --zero-stage 2
4 --tensor-model-parallel-size 2 --micro-batch-size 2
2 --pipeline-model-parallel-size 2
4 --pipeline-model-parallel-size 2 --micro-batch-size 1
4 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2
2 --context-parallel-size 2
2 --ds-sequence-parallel-size 2 --batch-tokens 7
4 --ds-sequence-parallel-size 2 --context-parallel-size 2 --micro-batch-size 2
4 --context-parallel-size 2 --pipeline-model-parallel-size 2 --batch-tokens 30
4 --ds-sequence-parallel-size 2 --tensor-model-parallel-size 2
4 --context-parallel-size 2
2 --context-parallel-size 2 --zero-stage 3
2 --zero-stage 3
4 --zero-stage 3 --micro-batch-size 2
4 --zero-stage 3 --pipeline-model-parallel-size 2 --micro-batch-size 1
4 --zero-stage 3 --context-parallel-size 2 --offload-device cpu --offload-param-device cpu
1 --cpu-offloading-num-layers 2
1 --cpu-offloading-num-layers 1 --batch-tokens 5
2 --cpu-offloading-num-layers 1 --pipeline-model-parallel-size 2 --micro-batch-size 1
4 --cpu-offloading-num-layers 2 --context-parallel-size 2 --tensor-model-parallel-size 2
END
test_expect_success 'neither batches nor pieces of prompts nor other prompts change anything' '
    draw="--temperature 0.9 --top-k 20 --top-p 0.95 --num-samples 3 --max-new-tokens 30" &&
    generate $draw mixed.fa >want && bases want | sort -u >different && test "$(wc -l <different)" -gt 30 &&
    generate $draw --batch-tokens 1 mixed.fa >is && test_cmp want is &&
    generate $draw mixed.fa --micro-batch-size 39 --seq-length 200 >is && test_cmp want is &&
    generate $draw --batch-tokens 100000 mixed.fa >is && test_cmp want is &&
    generate $draw - --seq-length 200 <mixed.fa >is && test_cmp want is &&
    head -n 2 mixed.fa >first.fa && generate $draw first.fa >is && bases want | head -n 3 >some && bases is | test_cmp some -
'
test_expect_success 'a seed draws the same, another one does not; top-k 1 is the likeliest' '
    generate --temperature 1 --max-new-tokens 30 a.fa >x && generate --temperature 1 --max-new-tokens 30 --seed 1234 a.fa >y &&
    test_cmp x y && generate --temperature 1 --max-new-tokens 30 --seed 1235 a.fa >y && ! cmp x y &&
    generate --max-new-tokens 30 a.fa >x && generate --temperature 3 --top-k 1 --max-new-tokens 30 a.fa >y && test_cmp x y &&
    generate --temperature 3 --top-p 0.000001 --max-new-tokens 30 a.fa >y && test_cmp x y
'
# Windows of one short document each: the model learns to end it.
test_expect_success 'it stops at <eod>' '
    awk "BEGIN { for (i = 0; i < 64; i++) print \">d\" i \"\nATGGCATGGCATTAA\" }" >short.fa &&
    mds_data make --tokenizer codon --output e.h5 short.fa &&
    mds_pretrain --hidden-size 32 --num-attention-heads 4 --num-layers 1 --seq-length 6 --lr 3e-2 --eval-iters 0 --threads 1 \
        --global-batch-size 8 --train-iters 60 --data-path e.h5 --use-rotary-position-embeddings --save ends >out 2>&1 &&
    printf ">p\nATGGCA\n>q\nATG\n" >p.fa && from ends p.fa >is && cat is &&
    printf ">p tokens=3 end=eod\nTGGCATTAA\n>q tokens=4 end=eod\nGCATGGCATTAA\n" >want && test_cmp want is
'
test_expect_success '--complete: identity with what is hidden' '
    from ends --complete 2 --output c short.fa 2>err && cat c err &&
    head -n 1 c | tr "\t" " " >names && echo "name length prompt hidden identical identity" | test_cmp - names &&
    test "$(cut -f 2- c | sort -u | tail -n +1 | grep -c "^15	3	2	6	1$")" -eq 1 && grep "mean identity 1.0000" err &&
    awk "/^>/ { print; next } { print substr(\$0, 1, 12) \"TAC\" }" short.fa | head -n 2 >other.fa &&
    from ends --complete 0.4 other.fa >c 2>err && cat c err &&
    grep "^d0	15	3	2	5	0.8333" c && grep "mean identity 0.8333" err &&
    printf ">n\nATGGCATGGCATNNN\n" >n.fa && from ends --complete 2 n.fa >c && grep "^n	15	3	2	3	0.5$" c
'
test_expect_success 'other tokens: bytes of text, overlapping words, ids of a folder of Hugging Face' '
    seq 2000 >numbers.txt && mds_data make --tokenizer bytes --output text.h5 numbers.txt &&
    pretrain --num-layers 1 --seq-length 32 --data-path text.h5 $rope --save text >out 2>&1 &&
    printf "{\"name\": \"a \\\\\"b\", \"text\": \"12\"}\n{\"text\": \"777\"}\n" >p.jsonl &&
    from text --max-new-tokens 5 p.jsonl >is && cat is &&
    sed "s/\"text\": \".*\"}/\"text\": T}/" is >shape &&
    printf "{\"name\": \"a \\\\\"b\", \"tokens\": 5, \"end\": \"length\", \"text\": T}\n{\"name\": \"2\", \"tokens\": 5, \"end\": \"length\", \"text\": T}\n" |
        test_cmp - shape &&
    mds_ckpt export --format hf --output hf model &&
    for i in 1 2 3 4 5 6 7; do echo "1 2 $i 9"; done | mds_data make --tokenizer ids --vocab-size 66 --eod 64 --output a.h5 - &&
    from hf --max-new-tokens 3 a.h5 >is && cat is &&
    test "$(grep -c "^{\"name\": \"[1-7]\", \"tokens\": 3, \"end\": \"length\", \"ids\": \[[0-9]*, [0-9]*, [0-9]*\]}$" is)" -eq 7 &&
    mds_data make --tokenizer 6-mer-overlapping --output o.h5 "$srcdir/tests/data/lambda.fna.gz" &&
    pretrain --num-layers 1 --seq-length 32 --data-path o.h5 $rope --save overlapping >out 2>&1 &&
    from overlapping --max-new-tokens 9 a.fa >is && bases is >lines && ! grep -v "^[ACGTN]\{9\}$" lines
'
test_expect_success 'experts, and what a checkpoint has of windows' '
    pretrain --num-layers 2 --seq-length 64 --data-path t.h5 $rope --disable-bias-linear --num-experts 4 --moe-router-topk 2 \
        --save experts >out 2>&1 &&
    from experts --max-new-tokens 30 mixed.fa >want &&
    from experts --max-new-tokens 30 --batch-tokens 1 mixed.fa >is && test_cmp want is &&
    timeout 60 $MPIEXEC -n 2 mds_infer generate --load experts --max-new-tokens 30 --output is --overwrite mixed.fa --threads 1 \
        --tensor-model-parallel-size 2 </dev/null >out 2>&1 && cat out && test_cmp want is &&
    pretrain --num-layers 2 --seq-length 64 --data-path t.h5 $rope --window-size 9 --save window >out 2>&1 &&
    from window --max-new-tokens 30 mixed.fa >want &&
    from window --max-new-tokens 30 --batch-tokens 1 mixed.fa >is && test_cmp want is
'
while read -r n options; do
    test_expect_success "a dry run says what $n ranks take: $options" "
        generate same.fa --max-new-tokens 40 --dry-run --world-size $n $options >dry &&
        timeout 60 \$MPIEXEC -n $n mds_infer generate --load model same.fa --max-new-tokens 40 --threads 1 --log-level debug $options \
            </dev/null >out 2>wet &&
        table dry >a && table wet >b && cat dry wet && test \"\$(wc -l <a)\" -ge 3 && test_cmp a b &&
        sed -n 's/^  host memory \(.*\), files.*/\1/p' dry | sed 's/^0 B$//' | grep . >a
        sed -n 's/.*debug: host memory of rank 0: //p' wet >b; test_cmp a b &&
        ! grep '^grads\|^optimizer' a
    "
done <<'END'
1
1 --micro-batch-size 2 --batch-tokens 10
2 --tensor-model-parallel-size 2
2 --pipeline-model-parallel-size 2
2 --context-parallel-size 2
4 --ds-sequence-parallel-size 4 --micro-batch-size 1 --batch-tokens 7
4 --context-parallel-size 2 --pipeline-model-parallel-size 2
4 --context-parallel-size 2 --tensor-model-parallel-size 2
1 --cpu-offloading-num-layers 2
2 --cpu-offloading-num-layers 1 --context-parallel-size 2 --batch-tokens 7
END
# refused WORDS ARGUMENTS...: fails with one line that has these words
refused() {
    words=$1
    shift
    test_must_fail mds_infer generate "$@" --threads 1 >out 2>err
    cat err
    test "$(grep -c error err)" -eq 1 && test "$(wc -l <err)" -eq 1 && grep -e "error: .*$words" err
}
test_expect_success 'errors say what, where and what to do' '
    printf ">e\nAC\n" >e.fa && refused "e.fa: e has no tokens; a prompt needs one" --load model e.fa &&
    refused "temperature.*-1" --load model --temperature -1 a.fa &&
    refused "top-p.*1.5" --load model --temperature 1 --top-p 1.5 a.fa &&
    refused "top-p.*0" --load model --temperature 1 --top-p 0 a.fa &&
    refused "top-k: nothing is drawn without --temperature" --load model --top-k 4 a.fa &&
    refused "seed: nothing is drawn" --load model --seed 4 a.fa &&
    refused "num-samples: nothing is drawn" --load model --num-samples 2 a.fa &&
    refused "max-new-tokens.*0" --load model --max-new-tokens 0 a.fa &&
    refused "complete 1.5: give a share below 1, or a number" --load model --complete 1.5 a.fa &&
    refused "complete generates as many tokens as it hides" --load model --complete 0.5 --temperature 1 a.fa &&
    refused "r1 has 8 tokens, and --complete hides 8: there is no prompt left" --load model --complete 8 a.fa &&
    refused "sequence-tile does not concern generation; leave it out" --load model a.fa --sequence-tile 8 &&
    refused "give a larger --seq-length\|max-new-tokens up to 93" --load model a.fa --seq-length 100 &&
    refused "give --seq-length" --load model - &&
    refused "name it before mds_pretrain" --load model &&
    refused "num-layers 3: a rank has the keys and values of 2 blocks; give 2 at most" --load model a.fa --cpu-offloading-num-layers 3 &&
    test_must_fail mds_infer score --load model a.fa --cpu-offloading-num-layers 1 2>err && grep "only evaluated keeps nothing" err &&
    refused "virtual-pipeline-stage does not concern generation; leave it out" --load model a.fa \
        --num-layers-per-virtual-pipeline-stage 1
'
test_expect_success 'learned positions: prompts and new tokens up to their number' '
    pretrain --num-layers 1 --seq-length 32 --data-path t.h5 --save learned >out 2>&1 &&
    records 2 20 0 >fits.fa && from learned --max-new-tokens 13 fits.fa >want &&
    from learned --max-new-tokens 13 --batch-tokens 1 fits.fa >is && test_cmp want is &&
    refused "r1 has 20 tokens, and .* takes 33 with the new ones; --max-new-tokens up to 13" --load learned --max-new-tokens 14 fits.fa &&
    records 2 34 0 >long.fa &&
    refused "r1 has 34 tokens, and .* takes 33; the model learned a position for each" --load learned --max-new-tokens 1 long.fa
'
test_expect_success 'a model whose queries share keys' '
    pretrain --num-layers 2 --seq-length 64 --data-path t.h5 $rope --group-query-attention --num-query-groups 2 --save grouped >out 2>&1
'
while read -r model options; do
    test_expect_success "4 ranks, $model: $options" "
        for draw in '' '--temperature 1 --num-samples 3'; do
            from $model --max-new-tokens 13 \$draw fits.fa >want &&
            timeout 60 \$MPIEXEC -n 4 mds_infer generate --load $model --max-new-tokens 13 \$draw --output is --overwrite fits.fa \
                --threads 1 $options </dev/null >out 2>&1 && cat out && test_cmp want is || return 1
        done
    "
done <<'END'
grouped --context-parallel-size 4 --batch-tokens 20
grouped --ds-sequence-parallel-size 2 --context-parallel-size 2
alibi --context-parallel-size 4 --batch-tokens 20
alibi --context-parallel-size 2 --pipeline-model-parallel-size 2
alibi --context-parallel-size 4 --cpu-offloading-num-layers 2
grouped --tensor-model-parallel-size 2 --cpu-offloading-num-layers 1
window --cpu-offloading-num-layers 2
window --ds-sequence-parallel-size 4 --batch-tokens 20
window --context-parallel-size 2 --tensor-model-parallel-size 2
experts --context-parallel-size 2 --ds-sequence-parallel-size 2
experts --context-parallel-size 2 --ds-sequence-parallel-size 2 --expert-model-parallel-size 4
experts --context-parallel-size 2 --expert-model-parallel-size 2 --tensor-model-parallel-size 2 --batch-tokens 20
experts --context-parallel-size 2 --expert-model-parallel-size 2 --pipeline-model-parallel-size 2
experts --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2
experts --expert-model-parallel-size 2
experts --expert-model-parallel-size 4 --zero-stage 3 --batch-tokens 20
experts --expert-model-parallel-size 4 --context-parallel-size 2 --micro-batch-size 1
experts --expert-model-parallel-size 2 --pipeline-model-parallel-size 2 --cpu-offloading-num-layers 1
experts --expert-model-parallel-size 2 --tensor-model-parallel-size 2
learned --context-parallel-size 4
learned --ds-sequence-parallel-size 4 --batch-tokens 20
END
test_expect_success 'outputs that exist stay' '
    test_must_fail generate --output one a.fa 2>err && cat err && grep "one: exists already" err
'
test_done
