#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_pretrain: options from everywhere, and what it says about bad ones'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

# says WORDS COMMAND...: the command fails and standard error has the words
says() {
    words=$1
    shift
    test_must_fail "$@" >out 2>err &&
        if ! grep -F -e "$words" err; then
            cat err
            false
        fi
}

test_expect_success 'help, version and man page need no MPI and no configuration' '
    MDS_NONSENSE=1 mds_pretrain --help >help &&
    grep -e "--seq-length <tokens>" help &&
    test -z "$(awk "length > 88" help)" &&
    mds_pretrain --version >version &&
    grep "^mds_pretrain [0-9]" version &&
    grep "^.TH MDS_PRETRAIN 1" "$builddir/docs/mds_pretrain.1"
'

test_expect_success 'every program names its commit and its libraries' '
    commit=$("$srcdir/src/config/commit.sh" | cut -d" " -f1) &&
    mds_pretrain --version | sed 1d >version &&
    grep -q -x -e "  commit  *$commit" version &&
    for word in compiler MPI OpenMP OpenBLAS HDF5 zlib PMIx htslib CUDA cuDNN NCCL; do
        grep -q -e "^  $word  *[^ ]" version || return 1
    done &&
    grep -q -e "^  HDF5  *[0-9][0-9.]*$" version &&
    for program in mds_data mds_ckpt mds_launch mds_infer; do
        $program --version | sed 1d | diff version - || return 1
    done
'

if command -v mandoc >/dev/null; then
    test_expect_success 'mandoc finds no fault in the man page' '
        mandoc -Tlint "$builddir/docs/mds_pretrain.1" >lint &&
        ! test -s lint
    '
fi

test_expect_success 'a size key brings shape, parameters and origins' '
    MODEL_SIZE_KEY=GPT13B mds_pretrain --show-config >shown &&
    grep "layers: 40 .*models.yaml:[0-9]* (GPT13B)" shown &&
    grep "hidden: 5120 " shown &&
    grep "heads: 64 " shown &&
    grep "size_key: GPT13B .*# environment MODEL_SIZE_KEY" shown &&
    grep "ffn_hidden: 20480 .*# derived: 4 x hidden" shown &&
    grep "parameters  *12,853,626,880" shown
'

test_expect_success 'what --show-config prints is a file for --config' '
    SEQ_LEN=4k mds_pretrain --model-size-key GPT1T_20L --lr 3e-4 --show-config >a.yaml &&
    mds_pretrain --config a.yaml --show-config >b.yaml &&
    grep "seq_length: 4000 .*# a.yaml:" b.yaml &&
    sed "s/ *# .*//" a.yaml >a && sed "s/ *# .*//" b.yaml >b &&
    test_cmp a b &&
    mds_pretrain --config a.yaml --hidden-size 2560 --world-size 4 --show-config >c.yaml &&
    grep "# ffn_hidden: 10240 " c.yaml && grep "# global: 4 " c.yaml
'

test_expect_success 'variables of options that turn something off' '
    mds_pretrain --help >help && grep -F "[MDS_LINEAR_BIAS=0]" help &&
    MDS_LINEAR_BIAS=0 MODEL_SIZE_KEY=GPT125M mds_pretrain --show-config >out &&
    grep "linear_bias: false .*# environment MDS_LINEAR_BIAS" out
'
test_expect_success 'command line before environment before file' '
    echo "model: {layers: 3, hidden: 64, heads: 4}" >run.yaml &&
    mds_pretrain --config run.yaml --show-config | grep "layers: 3 .*# run.yaml:1" &&
    NLAYERS=4 mds_pretrain --config run.yaml --show-config |
        grep "layers: 4 .*# environment NLAYERS" &&
    NLAYERS=4 mds_pretrain --config run.yaml --num-layers 5 --show-config |
        grep "layers: 5 .*# command line"
'

test_expect_success 'a misspelt option, variable or key: the nearest name' '
    says "unknown option --seq-lenght; did you mean --seq-length?" \
        mds_pretrain --seq-lenght 5 &&
    says "unknown variable MDS_SED; did you mean MDS_SEED?" \
        env MDS_SED=1 mds_pretrain &&
    echo "model: {layer: 3}" >bad.yaml &&
    says "bad.yaml:1: unknown key model.layer; did you mean model.layers?" \
        mds_pretrain --config bad.yaml &&
    says "did you mean GPT13B?" mds_pretrain --model-size-key GTP13B
'

test_expect_success 'all faults at once, each in its line' '
    test_must_fail mds_pretrain --lr fast --seq-length 0 --num-experts-switch 2 2>err &&
    grep -e "--lr .fast.: must be a number" err &&
    grep -e "--seq-length .0.: must be" err &&
    grep -e "option --num-experts-switch is not supported here: there is no" err
'

test_expect_success 'the examples of --help' '
    mds_pretrain --help | sed "1,/^Examples:/d" | grep "^      " |
        sed "s/^ *//; :join; /\\\\$/ { N; s/\\\\\n */ /; b join; }" >examples &&
    cat examples && test "$(wc -l <examples)" -eq 4 &&
    sed "s/mpiexec -n \([0-9]*\) \(.*\)/\2 --world-size \1/; s/ --load run//;
        s/mds_pretrain/& --show-config/" examples >lines && sh -e lines >shown &&
    test "$(grep -c "^#   parameters" shown)" -eq 4
'

test_expect_success 'a variable that looks like a slip is a warning' '
    SEQLEN=5 MODEL_SIZE_KEY=GPT125M mds_pretrain --show-config >out 2>err &&
    grep "SEQLEN is not read; did you mean SEQ_LEN?" err &&
    MODEL_SIZE_KY=GPT13B ZERO_STGE=2 MODEL_SIZE_KEY=GPT125M mds_pretrain --show-config >out 2>err && cat err &&
    grep "MODEL_SIZE_KY is not read; did you mean MODEL_SIZE_KEY?" err &&
    grep "ZERO_STGE is not read; did you mean ZERO_STAGE?" err
'

test_expect_success 'sizes that do not fit' '
    says "does not divide --hidden-size 64" mds_pretrain --num-layers 2 --hidden-size 64 \
        --num-attention-heads 5 --show-config &&
    says "the model has no shape" mds_pretrain --show-config
'

test_expect_success 'who would hold what, without starting ranks' '
    SP_TYPE=megatron MODEL_SIZE_KEY=GPT13B mds_pretrain --world-size 8 --show-config >shown &&
    grep "tensor: 8 .*# derived: SP_TYPE megatron: all ranks" shown &&
    grep "sequence_parallel: true .*# derived: SP_TYPE megatron" shown &&
    grep "ranks  *8 = pipeline 1 x data 1 x ring 1 x Ulysses 1 x tensor 8" shown &&
    mds_pretrain --config shown --world-size 8 --show-config >again &&
    grep "# tensor: 8 .*# derived: SP_TYPE" again &&
    mds_pretrain --config shown --world-size 16 --show-config | grep "# tensor: 16 " &&
    says "start 8 or 16; or give --tensor-model-parallel-size 4" \
        mds_pretrain --config shown --sp-type none --tensor-model-parallel-size 8 \
        --world-size 12 --show-config
'

test_expect_success 'files that are not there, or no YAML' '
    says "gone.yaml: No such file" mds_pretrain --config gone.yaml &&
    printf "a: [1\n" >broken.yaml &&
    says "broken.yaml:2: " mds_pretrain --config broken.yaml &&
    says "model table gone.yaml: No such file" \
        mds_pretrain --model-size-key GPT13B --model-table gone.yaml
'

test_done
