#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='what the documentation names is there'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

texts=$(cd "$srcdir" && ls README.md NEWS.md HACKING.md docs/*.md docs/*.1 docs/adr/*.md kernels/README.md)

# text FILE: without roff's hyphens and heading
text() {
    sed 's/\\-/-/g; /^\.TH /d; /^\.Dt /d' "$srcdir/$1"
}
# options: those in what is read, one a line
options() {
    grep -o -E -e '(^|[^-A-Za-z])--[a-z][A-Za-z0-9_-]*[a-z0-9]' | grep -o -e '--.*' | sort -u
}

echo "of others: --cpu-bind --partition --signal" \
    "--deepspeed --no-masked-softmax-fusion --num-workers --expert-model-parallel-size --decrease-batch-size-if-needed" \
    "--moe-grouped-gemm --moe-token-dispatcher-type --moe-router-dtype" \
    "--use-mcore-models --ckpt-format --group-query-attention --calculate-per-token-loss" \
    "--vocab-file --merge-file --tokenizer-type" \
    "--account --constraint --cpus-per-task --exclusive --gpus-per-node --gres --mem --mpi" \
    "--ntasks-per-node --qos --without-cuda --args --no-kill" \
    "of containers, profilers, ReFrame, EasyBuild:" \
    "--build-arg --capture-range-end --depth --fakeroot --gpu --image --launch-count --module" \
    "--nccl --nv --nvtx --nvtx-include --performance-report --ppn --rm --robot --set" \
    "--sourcepath" \
    "of this program, before:" \
    "--attention-chunk --device-checkpoint-layers --keep-attention-layers --mlp-tile" >foreign
test_expect_success 'every option is one of ours' '
    for program in mds_pretrain mds_launch mds_data mds_ckpt mds_infer; do
        $program --help || return 1
    done >help &&
    { cat help foreign "$srcdir/configure" "$srcdir/quickstart.sh" "$srcdir"/scripts/* \
        "$srcdir"/tests/gpu/run "$srcdir"/bench/[a-z]*[a-z] "$srcdir"/bench/peers/*.py; } 2>err | options >known &&
    for text in $texts; do
        text $text | options | comm -23 - known | sed "s,^,$text: ,"
    done >unknown &&
    test_must_fail test -s unknown || { cat unknown && false; }
'
test_expect_success 'manual pages that are written by hand have every option' '
    for program in mds_launch mds_data mds_ckpt mds_infer; do
        $program --help | options >has && test -s has || return 1
        text docs/$program.1 | sed "s/Fl -/--/g" | options | comm -23 has - |
            sed "s,^,docs/$program.1 lacks ,"
    done >untold &&
    test_must_fail test -s untold || { cat untold && false; }
'
# Of mds_pretrain's options, in backquotes or on a line of their own, those without a word that
# stands for others (FILE, n, full|selective).  What they want besides is not said there.
test_expect_success 'options take the values that are said of them' '
    mds_pretrain --help | options >ours &&
    for text in $texts; do
        text $text | grep -o "\`--[a-z][^\`]*\`\|^    --[a-z].*" | tr -d "\`" | grep " " |
            grep -v -w "[A-Z][A-Z]*\|[a-z]" | grep -v "[|<]\|\.\.\."
    done | sort -u >lines && test "$(wc -l <lines)" -gt 20 &&
    while read -r line; do
        echo "${line%% *}" | grep -q -x -F -f ours || continue
        mds_pretrain --show-config --model-size-key GPT125M $line >out 2>err
        grep -e "command line: .*\(.: must\|needs a value\|no option\|unknown\)" err && echo "in: $line"
    done <lines >wrong
    test_must_fail test -s wrong || { cat wrong && false; }
'
command -v python3 >/dev/null && test_set_prereq PYTHON
# -S: without installed libraries
test_expect_success PYTHON 'the program that needs PyTorch says how it is used, and what it needs' '
    convert="python3 -S $srcdir/scripts/mds_from_megatron" &&
    $convert --help | grep "num-attention-heads N" &&
    test_expect_code 1 $convert --num-attention-heads 2 . out.safetensors 2>err &&
    grep "mds_from_megatron: error: .*has no PyTorch" err && test "$(wc -l <err)" -eq 1
'
test_expect_success 'every event is in docs/events.md, and no other' '
    { cat "$srcdir"/src/*/*.c | grep -o "begin(&e, \(device ? \"[a-z_]*\" : \)*\"[a-z_]*\"" | grep -o "\"[a-z_]*\"" | tr -d "\"" &&
        sed -n "s/^ *record [^e]*event[^a-z]*\([a-z]*\).*/\1/p" "$srcdir/scripts/status"; } | sort -u >written && test "$(wc -l <written)" -gt 15 &&
    sed -n "s/^| \`\([a-z_]*\)\` | .* | .*/\1/p" "$srcdir/docs/events.md" | sort -u >told && test_cmp written told
'
test_expect_success 'every variable is read by something' '
    for text in $texts; do
        text $text | grep -o -w -E "MDS_[A-Z_]*[A-Z]" | sort -u | while read -r name; do
            grep -q -w "$name" help ||
                grep -r -q -w "$name" "$srcdir/src" "$srcdir/tests" "$srcdir/quickstart.sh" \
                    "$srcdir/m4" "$srcdir/Makefile.am" || echo "$text: $name"
        done
    done >unknown &&
    test_must_fail test -s unknown || { cat unknown && false; }
'
test_expect_success 'what docs/from-megatron-deepspeed.md calls a variable is one' '
    sed -n "/^## Variables/,/^## Flags/p" "$srcdir/docs/from-megatron-deepspeed.md" |
        grep "^|" | grep -o "\`[A-Z_0-9]*\`" | tr -d "\`" | sort -u >named &&
    test "$(wc -l <named)" -gt 45 &&
    { tr "\n" " " <help | grep -o "\[[A-Z][^]]*\]"
        grep "^unset" "$srcdir/ALCF/train-llama.sh"; } | grep -o -E "[A-Z_0-9]+" |
        sort -u >known_variables &&
    comm -23 named known_variables >unknown &&
    test_must_fail test -s unknown || { cat unknown && false; }
'
modules='(src|kernels|tests|bench|docs|scripts|machines|ALCF|jobscripts)'
test_expect_success 'every file is there' '
    for text in $texts; do
        folder=$(dirname "$srcdir/$text")
        { text $text | grep -o "]([^):#]*)" | sed "s/](//; s/)//"
            text $text | grep -o -w -E "$modules/[a-zA-Z0-9_./-]*[a-z]"; } |
            grep -v "machines/\(NAME\|mine\)\|ALCF/helpers.sh" | sort -u |
            while read -r path; do
            test -e "$folder/$path" || test -e "$srcdir/$path" || test -e "$builddir/$path" ||
                echo "$text: $path"
        done
    done >unknown &&
    test_must_fail test -s unknown || { cat unknown && false; }
'

# names TEXT: what is in backquotes there, a name a line
names() {
    tr "\n" " " <"$srcdir/$1" | grep -o "\`[^\`]*\`" | tr -d "\`"
}
# Pages to follow in an editor: `name` occurs in the source, `file.c` exists, and for
# `name` (`file.c`) the file defines the function.
test_expect_success 'functions and files that pages for developers name are there' '
    (cd "$srcdir" && find src kernels tests bench -type f | sort >"$OLDPWD/files" &&
        cat "$OLDPWD/files" && find src kernels tests bench -name "*.[chm]*" -exec cat {} +) >source &&
    grep -o -w -E "[A-Za-z_][A-Za-z0-9_]*" source | sort -u >words && test "$(wc -l <words)" -gt 5000 &&
    sed -n "s/^ *# *include <\(.*\)>/\1/p" source | sort -u >>files &&
    for text in docs/architecture.md HACKING.md docs/start-developer.md kernels/README.md; do
        names $text | grep -v "OPTIONS=" | grep -o -w -E "[a-z][A-Za-z0-9]*_[A-Za-z0-9_]+" |
            grep -v -x name_bwd | sort -u | comm -23 - words | sed "s,^,$text: no ,"
        names $text | grep -x -E "[a-z0-9_/]+\.(c|h|cu|cuh|sh|t)" | sort -u |
            while read -r path; do
            grep -q "\(^\|/\)$path\$" files || echo "$text: no $path"
        done
        tr -s "\n " " " <"$srcdir/$text" | grep -o "\`[a-z_0-9]*\` (\`[a-z_0-9/]*\.c\`" |
            tr -d "\`(" | sort -u | while read -r name path; do
            echo "$name" >>followed
            cat "$srcdir/$path" "$srcdir/src/$path" 2>err | grep -q "^[a-z].*\<$name(" ||
                echo "$text: no $name in $path"
        done
    done >unknown &&
    test "$(sort -u followed | wc -l)" -gt 3 &&
    test_must_fail test -s unknown || { cat unknown && false; }
'
# Call trees: `name  [file.c]  [remark]`, indented by two under the caller.  Without a file the
# function is in its caller's file.  The file defines the function, and the caller's body names it.
# body FUNCTION FILE
body() {
    awk -v begin="^[a-z].*[ *]$1\\\\(" '$0 ~ begin { on = 1 } on
        on && /\);$/ && !inside { on = 0 }
        /^{/ { inside = 1 }
        /^}/ { inside = 0; if (on) exit }' "$2"
}
test_expect_success 'docs/architecture.md: callers, functions and files of the trees' '
    awk "/^    [^ ]/ { tree = /^    [a-z_0-9]+  +[a-z_\/0-9]+\\.c( |\$)/ } tree && /^    /" \
        "$srcdir/docs/architecture.md" >trees && test "$(wc -l <trees)" -gt 100 &&
    awk "{ match(\$0, /[^ ]/); depth = (RSTART - 5) / 2
            name[depth] = \$1
            file[depth] = \$2 ~ /^[a-z_0-9\/]+\\.c\$/ ? \$2 : file[depth - 1]
            print \$1, file[depth], name[depth - 1], file[depth - 1] }" trees |
        sort -u | while read -r name path caller file; do
        body $name "$srcdir/src/$path" | grep -q "^{" || echo "no $name in $path"
        test -z "$file" || body $caller "$srcdir/src/$file" | grep -q -w "$name" ||
            echo "$caller in $file does not call $name"
    done >unknown &&
    test_must_fail test -s unknown || { cat unknown && false; }
'

# ---- what dry runs print ----

# prints WORDS COMMAND...: and the documentation has them
prints() {
    words=$1
    shift
    "$@" >out || return 1
    tr -s " " <out | grep -F -e "$words" || { cat out && false; }
}
test_expect_success 'README: the commands for clusters' '
    sed -n "s/^    \(export MODEL_SIZE_KEY.*\)/\1/p" "$srcdir/README.md" >cluster &&
    sed -n "s/^    \(mds_launch plan.*\)/\1/p; s/^    \(mds_launch submit.*\)/\1 --print/p" \
        "$srcdir/README.md" >>cluster &&
    test "$(wc -l <cluster)" -eq 4 && cat cluster &&
    sh -e cluster >out && grep "^   1 .* layout\|^   1 .*tensor" out &&
    grep "^#PBS -l select=10:system=polaris" out && grep "^#SBATCH --qos=regular" out
'
# Those that are whole, in code blocks and in --help.
test_expect_success 'commands of mds_pretrain, dry_runs' '
    mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz" &&
    cp t.h5 ecoli.h5 && cp t.h5 tokens.h5 &&
    mds_pretrain --help | cat - "$srcdir/README.md" "$srcdir"/docs/*.md |
        sed -e ":more" -e "/\\\\\$/{N;s/\\\\\n *//;b more" -e "}" |
        sed -n "/\.\.\./d; /[$][a-z]/d; s/^    *\(\$ \)*//; /^[A-Za-z].* mds_pretrain --/p; /^mds_pretrain --[^h]/p" |
        sed "s/mpiexec -n \([0-9]*\) mds_pretrain/& --world-size \1/; s/mpiexec -n [0-9]* //
            s/mds_pretrain --/mds_pretrain --dry-run --/" | sort -u >commands &&
    cat commands && test "$(wc -l <commands)" -gt 5 &&
    while read -r line; do
        sh -c "$line" >out 2>err || { echo "$line" && cat err; }
    done <commands >wrong
    test_must_fail test -s wrong || { cat wrong && false; }
'
test_expect_success 'docs/from-megatron-deepspeed.md: what is said of a flag' '
    said=$(sed -n "s/^    \(mds: info: accepted without effect: --deepspeed.*\)/\1/p" \
        "$srcdir/docs/from-megatron-deepspeed.md") && test -n "$said" &&
    mds_pretrain --deepspeed --no-masked-softmax-fusion --num-workers 2 --num-layers 1 \
        --hidden-size 32 --num-attention-heads 2 --seq-length 32 --dry-run >out 2>err &&
    grep -F -x -e "$said" err && test "$(grep -c "without effect" err)" -eq 1 &&
    mds_pretrain --num-workers 2 --num-layers 1 --hidden-size 32 --num-attention-heads 2 \
        --show-config >config && grep "#   --num-workers .* files are mapped" config &&
    mds_pretrain --config config --show-config >again && test_must_fail grep -e --num-workers again
'
test_expect_success 'programs in the pages can be pasted from the source, too' '
    ! grep -n "^ .*<<" "$srcdir"/docs/*.md "$srcdir"/*.md &&
    sed -n "/^cat > to_ids.py/,/^END/p" "$srcdir/docs/data.md" >paste && sh paste && test -s to_ids.py &&
    { ! command -v python3 || python3 -m py_compile to_ids.py; }
'
test_expect_success 'docs/running.md: what a run prints and writes' '
    mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz" &&
    mds_pretrain --data-path t.h5 --num-layers 1 --hidden-size 32 --num-attention-heads 2 \
        --seq-length 32 --train-iters 2 --eval-iters 1 --log-interval 1 --threads 1 --fp16 \
        --metrics-jsonl m.jsonl >out 2>&1 &&
    sed -n "/^Then, every/,/^A loss/p" "$srcdir/docs/running.md" | grep "^| " | cut -d"|" -f2 |
        grep -o "\`[^\`]*\`" | tr -d "\`" | sed "s/^iteration .*/iteration/" >fields &&
    test "$(wc -l <fields)" -gt 10 &&
    while read -r field; do
        grep -q -F -e " $field" out || { echo "no $field" && return 1; }
    done <fields &&
    for event in run step eval end; do
        grep -q "\"event\":\"$event\"" m.jsonl || return 1
    done
'
# The commands of start-laptop.md, a line each, and what they print; for the losses of 600 steps
# run this test with TEST_LONG=1.
ecoli=/usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz
test -r $ecoli && test_set_prereq ECOLI
laptop() {
    sed -n "/^## 2/,/^## Longer/p" "$srcdir/docs/start-laptop.md" |
        sed -e ":more" -e "/\\\\$/{N;s/\\\\\n *//;b more" -e "}" |
        sed -n "s/^    \(cp .*\|mds_data .*\|mds_pretrain .*\|mds_ckpt .*\|mpiexec .*\)/\1/p"
}
# quoted FILE FROM TO: lines of code in the part of a page between two lines
quoted() {
    sed -n "/$2/,/$3/p" "$srcdir/docs/$1" | sed -n "s/^    //p" | tr -s " "
}
# printed FILE: each line that comes in is one of FILE, but for what "..." stands for
printed() {
    tr -s " " <"$1" >file &&
        sed "s/[][*.^$]/\\\\&/g; s/\\\\\.\\\\\.\\\\\./.*/g" | while read -r line; do
        grep -q "^ *$line$" file || { echo "not printed: $line" && cat file && return 1; }
    done
}
# any_loss: lines of 600 steps, of two steps and any loss
any_loss() {
    sed "s/iteration 600/iteration 2/; s/of 600/of 2/
        s/\(value\|PPL\|token\): [0-9.E+]*/\1: .../g; s/\(training\|validation\|test\) loss [0-9.]*/\1 loss .../g"
}
test_expect_success ECOLI 'docs/start-laptop.md and docs/running.md: the commands print what is quoted' '
    laptop | sed "s/^mpiexec /\$MPIEXEC /; s/--train-iters 600/--train-iters 2/; s/-iters 40/-iters 1/" >commands &&
    test "$(wc -l <commands)" -eq 7 && cat commands && mkdir laptop &&
    (cd laptop && sh -e -x ../commands >../o 2>../e) || { cat o e && return 1; } &&
    cat o e >out && quoted start-laptop.md "among other" "entropy. is the loss" >want &&
    test "$(wc -l <want)" -eq 4 && printed out <want &&
    grep -q "prints the memory by purpose: 85 MiB" "$srcdir/docs/start-laptop.md" && grep "^  all .* 85\.[0-9]* MiB " o &&
    quoted running.md "^## What it prints" "^Then, every" | sed "s/OpenBLAS [0-9.]* ([A-Za-z]*)/.../; s/^mds 0[0-9.]*:/mds .../" >want &&
    quoted running.md "^A loss below" "^Warnings" | any_loss >>want && test "$(wc -l <want)" -eq 8 && printed out <want &&
    quoted running.md "^## Evaluate a checkpoint" "^.--load. names" | sed 1d | any_loss >want &&
    test "$(wc -l <want)" -eq 4 && printed out <want &&
    sed -n "s/.*\(validation loss .*\)/\1/p" o | grep nats | uniq | wc -l | grep -x 1 &&
    quoted running.md "^A loss below" "^## What it writes" | grep "loss at\|^done" | sed "s/.*training loss [0-9.]*, //" >a &&
    quoted running.md "^## Evaluate a checkpoint" "^.--load. names" | grep "loss at\|^done" | sed "s/.* in \.\.\., //" >b &&
    test "$(wc -l <a)" -eq 3 && test_cmp a b
'
test_expect_success ECOLI,EXPENSIVE 'docs/running.md: the losses after 600 steps' '
    laptop | sed "s/^mpiexec /\$MPIEXEC /" >commands && rm -rf laptop && mkdir laptop &&
    (cd laptop && sh -e ../commands >../o 2>../e) || { cat o e && return 1; } &&
    { quoted running.md "^A loss below" "^Warnings" && cat o; } | grep "^done: iteration 600 of" | sed "s/;.*//" | tr "," "\n" |
        awk "!/loss/ { next } !(\$1 in said) { said[\$1] = \$3; next }
            { n++; d = said[\$1] - \$3; bad += d > 0.01 || d < -0.01 } END { exit bad || n != 3 }"
'
# code PAGE FROM TO: the lines of code between two headings, continued ones joined
code() {
    sed -n "/^## $2/,/^## $3/p" "$srcdir/docs/$1" |
        sed -e ":more" -e "/\\\\$/{N;s/\\\\\n *//;b more" -e "}" | sed -n "s/^    //p"
}
# Without the search for the longest sequence, which takes half a minute, with a sweep of two,
# and without what needs jobs that have run.
test_expect_success ECOLI 'docs/start-polaris.md: the commands from tokens to many runs' '
    mkdir -p polaris/bin && cp "$ecoli" polaris/genome.fna.gz &&
    printf "#!/bin/sh\necho 7.polaris\n" >polaris/bin/qsub && chmod +x polaris/bin/qsub &&
    code start-polaris.md 2 Inside |
        sed "/^cd /d; /^tail /d; / report /d; /--max-seq/d; s/, 65536, 131072//" >commands &&
    test "$(wc -l <commands)" -eq 10 && cat commands &&
    (cd polaris && PATH=$PWD/bin:$PATH && sh ../commands >../out 2>../err) && cat out err &&
    test "$(grep -c "error: " err)" -eq 1 &&
    said=$(grep -o "1000 steps and [^\`]*predicted" "$srcdir/docs/start-polaris.md") &&
    test "$(grep -c -F "$said" err)" -eq 2 &&
    grep "error: .* leaves 82316 tokens for validation" err && grep "82,316" "$srcdir/docs/start-polaris.md" &&
    grep "^runs/GENSLM_2_5B-131072-2n: 7.polaris" out && grep "2 of 2 runs" out
'
test_expect_success 'docs/from-megatron-deepspeed.md: the job for Polaris' '
    code from-megatron-deepspeed.md "The same job" Variables >commands && test "$(wc -l <commands)" -eq 2 &&
    (cd "$srcdir" && sh -e "$OLDPWD/commands") >out && grep "^#PBS -q debug" out && grep -e "--swiglu" out
'
# The genomes are those of a virus.
command -v xz >/dev/null && test_set_prereq XZ
test_expect_success XZ 'docs/genome-corpus.md: the commands, the memory and the work of a step' '
    lambda=$srcdir/tests/data/lambda.fna.gz &&
    for name in E.Coli H.Pylori S.Aureus V.Cholerae; do
        mkdir -p "corpus/doc/ragout/examples/$name/references" && cp "$lambda" "corpus/doc/ragout/examples/$name/references" || return 1
    done &&
    mkdir -p corpus/doc/bowtie/examples/genomes corpus/doc/kleborate/examples/data && cp "$lambda" corpus/doc/bowtie/examples/genomes/a.gz &&
    gzip -dc "$lambda" | xz >corpus/doc/kleborate/examples/data/a.xz &&
    { code genome-corpus.md Token Train && code genome-corpus.md Train None; } |
        sed "s,^examples=.*,examples=doc\nmask() { cat; }," >commands && grep -c "^species " commands | grep -x 5 &&
    sizes=$(sed -n "s/.*\(--seq-length 1024 .*\)\` in place of/\1/p" "$srcdir/docs/genome-corpus.md") && test -n "$sizes" &&
    sed "s/--bf16//; s/--seq-length 8192.*attention-heads 8/$sizes --train-iters 2/
        s/--micro-batch-size 4 --global-batch-size 16 --train-iters 600/--threads 1/; s/warmup-iters 50/warmup-iters 1/
        /^mds_plot/d" commands >small && tail -n 2 small && (cd corpus && bash -e ../small) && test -s corpus/corpus.jsonl &&
    grep "^mds_pretrain" commands | sed "s/--data-path .* --split/--dry-run --device cuda --vocab-size 257 --split/
        s/--eval-iters 4/--eval-iters 0/" >step && sh -e step >out && cat out && grep "^  all .* 352.17 T " out &&
    grep "3.5e14 operations" "$srcdir/docs/genome-corpus.md" && grep "^  all .* 24.52 GiB" out
'
# With those token files.  The loss falls in each stage.
test_expect_success XZ 'docs/genome-stages.md: four stages of a model with experts' '
    code genome-stages.md "What all" None >commands && test "$(grep -c "^stage bases" commands)" -eq 4 &&
    sed "s/--split 98,2,0/--split 80,20,0 --threads 1/; s/^\(stage bases64 64 128\) 60/\1 20/; s/^\(stage bases8k 8192 1\) 6/\1 2/
        s/--eval-iters 4/--eval-iters 1/" commands >small &&
    (cd corpus && bash -e ../small) >out 2>err || { tail -n 5 err && false; } &&
    grep "^bases\|^  block" out >said && cat said && test "$(grep -c "^  block [01]: busiest expert [1-4][.0-9]*, balance 1" said)" -eq 8 &&
    awk "/^bases/ { if (NR > 1 && \$3 >= last) exit 1; last = \$3; n++ } END { exit n != 4 || last > 1.8 }" said &&
    test "$(grep -c "loaded bases" err)" -eq 5 && test "$(grep -c "validation loss at iteration [0-9]* | lm loss" out)" -eq 6 &&
    mds_pretrain --load corpus/bases8k --show-config >config 2>err && grep "rotary_base: 50000000 .*checkpoint" config
'
test_expect_success 'docs/checkpoints.md: the size of a checkpoint' '
    said="checkpoint 144.05 GiB in 33 files at most, 4.61 GiB of this rank; 1 min 17 s at 2 GB/s" &&
    grep -q -F "$said" "$srcdir/docs/checkpoints.md" &&
    prints "$said" env MODEL_SIZE_KEY=GPT13B mds_pretrain --dry-run --world-size 32 \
        --tensor-model-parallel-size 8 --zero-stage 1 --seq-length 8192 --bf16 \
        --global-batch-size 32 --vocab-size 50257
'
counted() {
    said=$1 words=$2
    shift 2
    grep -q -F "$said" "$srcdir/docs/parallelism.md" &&
        prints "$words" mds_pretrain --dry-run --num-layers 8 --hidden-size 64 \
            --num-attention-heads 8 --seq-length 64 --vocab-size 72 \
            --make-vocab-size-divisible-by 8 --eval-iters 0 "$@"
}
test_expect_success 'docs/parallelism.md: messages, counted' '
    tensor="--world-size 2 --tensor-model-parallel-size 2" &&
    counted "all_reduce 34, 544 KiB" "all_reduce 34 544.00 KiB" $tensor &&
    counted "reduce_scatter 34, 544 KiB" "reduce_scatter 34 544.00 KiB" $tensor \
        --sequence-parallel &&
    counted "all_gather 51, 801.5 KiB" "all_gather 51 801.50 KiB" $tensor --sequence-parallel &&
    counted "all_to_all 40, 576 KiB" "all_to_all 40 576.00 KiB" --world-size 2 \
        --ds-sequence-parallel-size 2 &&
    counted "all_to_all 40, 224 KiB" "all_to_all 40 224.00 KiB" --world-size 4 \
        --ds-sequence-parallel-size 4 --num-key-value-heads 2 &&
    counted "send 80, 640 KiB" "send 80 640.00 KiB" --world-size 4 --context-parallel-size 4 &&
    counted "send 12, 192 KiB" "send 12 192.00 KiB" --world-size 2 --dry-run-rank 1 \
        --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 \
        --global-batch-size 4 &&
    counted "exchange 24, 384 KiB" "exchange 24 384.00 KiB" $tensor --optimizer muon &&
    counted "broadcast 48, 1.50 MiB" "broadcast 48 1.50 MiB" $tensor --optimizer muon
'

test_done
