#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ShellCheck has nothing to say about any script.
cd "${srcdir:-.}" || exit 1
if ! command -v shellcheck > /dev/null; then
    echo "1..0 # SKIP no shellcheck"
    exit 0
fi

# What configure and autoreconf made is theirs.
scripts=$(find . \( -name .git -o -name build-aux -o -name 'autom4te*' \
    -o -type d -name 'build*' -o -name 'config*' -type f -o -name env.sh \) -prune -o \
    -type f -exec awk \
    'FNR == 1 && /^#! *\/bin\/(ba)?sh/ { print FILENAME } { exit }' {} \; | sort)
t=0
for f in $scripts; do
    out=$(shellcheck -x -e SC1091 "$f" 2>&1) || printf 'not '
    t=$((t + 1))
    echo "ok $t - $f"
    printf '%s\n' "$out" | sed -n '/[^ ]/s/^/# /p'
done
echo "1..$t"
