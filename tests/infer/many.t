#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_infer: an output for each input, and jobs that end before their work'
# shellcheck source=tests/infer/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/infer/setup.sh"

mkdir in out
records 6 8 3 >in/a.fa
records 3 20 1 >in/b.x.fa
gzip <in/a.fa >in/c.fna.gz

test_expect_success 'each input has the scores that it has alone' '
    score --output "out/{}.tsv" in/a.fa in/b.x.fa in/c.fna.gz --threads 1 2>err && cat err &&
    ls out >is && printf "%s\n" a.tsv a.tsv.run b.x.tsv b.x.tsv.run c.tsv c.tsv.run >want && test_cmp want is &&
    score in/a.fa --threads 1 >a && near a out/a.tsv && near a out/c.tsv &&
    score in/b.x.fa --threads 1 >b && near b out/b.x.tsv && grep "^input: in/b.x.fa, " out/b.x.tsv.run &&
    ! grep in/a.fa out/b.x.tsv.run
'
test_expect_success 'tracks and tokens of each, two ranks' '
    timeout 60 $MPIEXEC -n 2 mds_infer score --load model --output "out/{}.2" --per-token "out/{}.h5" \
        --track "out/{}.bedGraph" in/a.fa in/b.x.fa --threads 1 </dev/null >log 2>&1 && cat log &&
    near a out/a.2 && near b out/b.x.2 && test -s out/a.h5 && test -s out/b.x.h5 &&
    grep ^r6 out/a.bedGraph && ! grep ^r6 out/b.x.bedGraph
'
test_expect_success '--resume goes on in the input that was not done' '
    cp out/a.tsv whole && head -n 3 whole >out/a.tsv && rm out/c.tsv out/c.tsv.run &&
    score --resume --output "out/{}.tsv" in/a.fa in/b.x.fa in/c.fna.gz --threads 1 2>err && cat err &&
    near whole out/a.tsv && near a out/c.tsv && grep "out/b.x.tsv has the scores of 3 sequences already" err
'
test_expect_success 'hidden states and samples of each' '
    mds_infer embed --load model --output "out/{}.hidden" in/a.fa in/b.x.fa --threads 1 &&
    test -s out/a.hidden && test -s out/b.x.hidden &&
    mds_infer generate --load model --max-new-tokens 4 --output "out/{}.new" in/a.fa in/b.x.fa --threads 1 &&
    test "$(grep -c ">" out/a.new) $(grep -c ">" out/b.x.new)" = "6 3"
'
# fails ARGUMENTS...: the error
fails() {
    ! mds_infer score --load model "$@" >log 2>&1 && cat log && grep "error" log
}
test_expect_success 'names that two inputs would have, and outputs that are there, before any work' '
    mkdir other && cp in/a.fa other && fails --output "out/{}.new2" in/a.fa other/a.fa &&
    grep "in/a.fa and other/a.fa would both be written to out/a.new2; rename one" log && ! test -e out/a.new2 &&
    fails --output "new-{}" in/b.x.fa in/a.fa --per-token x.h5 && grep "per-token x.h5: needs a {}" log &&
    echo old >new-a && fails --output "new-{}" in/b.x.fa in/a.fa && grep "new-a: " log && ! test -e new-b.x &&
    fails --overwrite --output "in/{}.fa" in/a.fa && test_cmp in/a.fa other/a.fa &&
    fails --output "none/{}.tsv" in/a.fa && grep "none/a.tsv: there is no folder none; make it first" log &&
    mds_infer score --load model in/a.fa --events=seen.jsonl >log && grep "\"finished\"" seen.jsonl
'
# Enough for some seconds.
records 60 500 0 >some.fa
for _ in $(seq 40); do cat some.fa; done >long.fa
test_expect_success 'a signal: whole lines, status 85, an event; the next job goes on' '
    score long.fa --threads 1 >want 2>/dev/null && rm -f events &&
    { $MPIEXEC -n 2 mds_infer score --load model --batch-tokens 500 --resume --output part long.fa --threads 1 \
        --events events </dev/null >log 2>&1 & } && pid=$! &&
    for i in $(seq 200); do test "$(cat part 2>/dev/null | wc -l)" -lt 3 || break; sleep 0.05; done && kill -USR1 $pid &&
    { wait $pid; status=$?; cat log events; test $status -eq 85; } && ! grep error log &&
    grep "\"finished\",\"reason\":\"signal\",\"status\":85}" events &&
    test "$(wc -l <part)" -lt 2401 && test "$(wc -l <part)" -gt 1 &&
    score --resume --output part long.fa --threads 1 2>log && grep "part has the scores of" log && near want part
'
test_done
