#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='the table of options, and what is made of it: docs/options.md, --help TOPIC, completion'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

test_expect_success 'the table has the options of --help, once each' '
    for program in mds_pretrain mds_launch mds_data mds_ckpt mds_infer; do
        $program --option-table >table && awk -F"\t" "\$1 == \"option\" && NF != 10 { exit 1 }" table &&
            cut -f 3 table | grep "^--" | sort >got && $program --help | sed -n "s/^  \(--[^ ]*\).*/\1/p" | sort >want &&
            test "$(wc -l <got)" -gt 10 && test_cmp want got || return 1
    done
'
test_expect_success 'docs/options.md is made of it (UPDATE=1 makes it anew)' '
    mds_pretrain --option-table | awk -f "$srcdir/docs/options.awk" >options.md &&
    if test -n "$UPDATE"; then cp options.md "$srcdir/docs/options.md"; fi &&
    test_cmp "$srcdir/docs/options.md" options.md
'
test_expect_success 'the four spellings that it names set the same' '
    grep "^| .--micro-batch-size. | .--batch-size. | .batch.micro. | .MICRO_BATCH. |" options.md &&
    key=$(sed -n "s/^| .--micro-batch-size. | [^|]* | .\([a-z_.]*\). .*/\1/p" options.md) && echo "${key%.*}: {${key#*.}: 3}" >file.yaml &&
    small="--num-layers 1 --hidden-size 32 --num-attention-heads 2 --show-config" && value() { sed -n "s/^ *${key#*.}: *\([0-9]*\) .*/\1/p"; } &&
    test "$(mds_pretrain $small --micro-batch-size 3 | value)" = 3 && test "$(mds_pretrain $small --batch-size 3 | value)" = 3 &&
    test "$(MICRO_BATCH=3 mds_pretrain $small | value)" = 3 && test "$(mds_pretrain $small --config file.yaml | value)" = 3
'
test_expect_success '--help TOPIC: a group, or the options with the word in them' '
    mds_pretrain --help batch >out && test "$(grep "^[A-Z].*:$" out)" = "Batch:" &&
    mds_pretrain --help FP8 >out && grep -e "--fp8-format" out && test_must_fail grep -e "--seq-length\|^Usage\|^Examples" out &&
    mds_pretrain --help NUM_KV_HEAD >out && grep -c "^  --" out >got && echo 1 >want && test_cmp want got &&
    mds_pretrain --help use-rotary | grep -e "--position-embedding-type" &&
    test_must_fail mds_pretrain --help nonsense 2>err && grep "help nonsense: no option has that" err && test "$(wc -l <err)" -eq 1 &&
    mds_pretrain --help | grep "^General; Model; Parallelism; " && mds_pretrain --help --bf16 | grep "^Usage"
'

# What bash would offer for a line whose last word is being written.
cat >complete.bash <<'END'
. "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_mds
printf '%s\n' "${COMPREPLY[@]}"
END
# offers "WORDS THAT MUST BE ALL" LINE...: sorted; the words may be none
offers() {
    want=$1 && shift && echo "$want" | tr " " "\n" | sort >want &&
        bash complete.bash "$builddir/completion/mds_pretrain" "$@" | sort >got && test_cmp want got
}
command -v bash >/dev/null && test -s "$builddir/completion/mds_pretrain" && test_set_prereq BASH
test_expect_success BASH 'bash: subcommands, options of a subcommand, values, paths' '
    offers "report restart" mds_launch re || offers report mds_launch re &&
    offers "--html --help" mds_launch report --h && offers "" mds_launch report ru &&
    offers "auto plan given" mds_launch plan --layout "" && offers "short" mds_pretrain --log-format s &&
    offers "" mds_pretrain --config "" && offers "--strand" mds_data make --stran && offers "forward reverse both" /usr/bin/mds_data make --strand "" &&
    bash complete.bash "$builddir/completion/mds_pretrain" mds_launch "" | grep -x models
'
test_expect_success BASH 'bash: behind -- the options of mds_pretrain; other spellings when they are begun' '
    offers "--bf16" mds_launch submit prod 2 -- --bf1 && offers "" mds_launch submit --bf1 &&
    bash complete.bash "$builddir/completion/mds_pretrain" mds_pretrain -- >got && grep -x -e --micro-batch-size got &&
    test_must_fail grep -x -e "--batch-size\|--no-swiglu" got && offers "--batch-size" mds_pretrain --batch && offers "--no-swiglu" mds_pretrain --no-sw
'
test_expect_success BASH 'bash-completion finds it by the name of the command' '
    loader=/usr/share/bash-completion/bash_completion
    if test -r $loader; then
        user=$(mktemp -d) && # the loader cannot have a space in its path
            mkdir "$user/completions" && cp "$builddir/completion/mds_pretrain" "$user/completions" &&
            ln -s mds_pretrain "$user/completions/mds_infer" &&
            BASH_COMPLETION_USER_DIR=$user bash -c ". $loader; _completion_loader mds_infer; complete -p mds_infer" >got &&
            grep -- "-F _mds mds_infer" got && rm -r "$user"
    fi
'
# A terminal with a zsh in it; prints what it shows after a line and a tab.
cat >complete.zsh <<'END'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT= RPS1= LISTMAX=1000; stty -echo; fpath=($1 \$fpath); autoload -Uz compinit && compinit -u -D; echo re''ady"
while zpty -r shell line && [[ $line != *ready* ]]; do :; done
zpty -w -n shell "$2"$'\t'
sleep 1
zpty -w -n shell $'\C-u\necho en\'\'ded\n'
while zpty -r shell line; do
    print -r -- $line
    [[ $line != *ended* ]] || break
done
END
test -s "$builddir/completion/_mds" && command -v zsh >/dev/null && test_set_prereq ZSH
test_expect_success ZSH 'zsh: subcommands with what they do, options with help, values' '
    shows() { line=$1 && shift && TERM=xterm COLUMNS=200 timeout 60 zsh -f complete.zsh "$builddir/completion" "$line" >seen 2>&1 && cat seen && for word; do grep -e "$word" seen || return 1; done; } &&
    shows "mds_launch con" "mds_launch continue" && shows "mds_launch " "models *-- Lists the shapes" && shows "mds_launch report --h" "--html" "--help" &&
    shows "mds_launch plan --layout " given && shows "mds_launch submit -- --fp8-fo" "--fp8-format"
'

test_done
