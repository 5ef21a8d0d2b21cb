#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_launch models: the table of shapes, and what fits'
# shellcheck source=tests/launch/batch.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/launch/batch.sh"

unset DATA_PATH
cat >table.yaml <<'END'
SMALL: {layers: 12, hidden: 768, heads: 12, also: [LITTLE]}
HUGE: {layers: 96, hidden: 12288, heads: 96, seq_length: 8192}
END

test_expect_success 'parameters as mds_pretrain counts them, and what plan finds' '
    mds_launch models --plan-seconds 60 --machine h200 --nodes 1 -- --model-table table.yaml >out && cat out &&
    grep "^SMALL  *125\.\?[0-9]* M  *12  *768  *12  *2048  [0-9.]* GiB: tensor 1, data 8" out &&
    grep "^HUGE  *174\.[0-9]* G  *96  *12288  *96  *8192  " out && grep "1 node of h200" out && grep "table.yaml" out &&
    test_must_fail grep LITTLE out &&
    mds_launch plan --machine h200 --nodes 1 -- --model-table table.yaml --model-size-key SMALL >plan &&
    layout=$(sed -n "s/^SMALL .*GiB: //p" out) && grep -F "  $layout" plan
'
test_expect_success 'what does not fit; what is set counts' '
    SEQ_LEN=4096 mds_launch models --machine h200 --nodes 1 --ranks-per-node 1 -- --model-table table.yaml --zero-stage 0 >out && cat out &&
    grep "^HUGE .* 4096  no$" out && grep "^SMALL .* 4096  [0-9.]* GiB: tensor 1, data 1, ZeRO 0" out
'
test_expect_success 'a shape is as the table has it, whatever variables of another run are set' '
    NLAYERS=2 HEADS=4 HIDDEN=64 mds_launch models --machine h200 --nodes 1 -- --model-table table.yaml >out && cat out &&
    grep "^SMALL  *125\.\?[0-9]* M  *12  *768  *12  " out && grep "^HUGE  *174\.[0-9]* G  *96  *12288  *96  " out
'
test_expect_success 'the table that came with mds, and one that is not there' '
    mds_launch models --plan-seconds 1 --machine h200 --nodes 1 >out && cat out &&
    sed -n "s/^\([A-Z0-9_]*\): {.*/\1/p" "$srcdir/ALCF/models.yaml" >want &&
    sed -n "s/^\([A-Z0-9_]*\)  *[0-9.]* [MGT]  .*/\1/p" out >got && test_cmp want got &&
    test_must_fail mds_launch models -- --model-table none.yaml 2>err && grep "none.yaml" err
'
test_expect_success 'no line has more than 100 columns; long layouts go on below' '
    mds_launch models --plan-seconds 60 --machine h200 --nodes 1 -- --model-table table.yaml --zero-stage 3 --activation-memory 5,attention=7 \
        --cpu-optimizer >out && cat out && test "$(grep -v "^These" out | awk "{ print length }" | sort -n | tail -n 1)" -le 100 &&
    grep "^                      *[a-z]" out
'

test_done
