#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every C source is as clang-format would write it, and its comments, which that leaves
# alone, are no wider than the code.  Only with the version the tree is formatted with:
# others disagree in details.
want=14
cd "${srcdir:-.}" || exit 1
if ! [ -f .clang-format ]; then
    echo "1..0 # SKIP not a git checkout"
elif ! clang-format --version 2> /dev/null | grep -q "version $want\."; then
    echo "1..0 # SKIP no clang-format $want"
else
    sources=$(find src kernels tests bench -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) | sort)
    out=$(echo "$sources" | xargs clang-format --dry-run -Werror 2>&1) || printf 'not '
    echo "ok 1 - clang-format has nothing to change"
    printf '%s\n' "$out" | sed -n 's/^\([^ ]*\): error:.*/# \1/p'
    out=$(echo "$sources" | xargs grep -nE '.{89}' | cut -d: -f1,2 | sed 's/^/# /')
    [ -z "$out" ] || printf 'not '
    echo "ok 2 - no line has more than 88 columns"
    [ -z "$out" ] || echo "$out"
    echo 1..2
fi
