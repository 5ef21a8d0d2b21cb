#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# commit.sh: print the commit of this tree and its time (seconds since 1970).
# commit.sh FILE: write the C file that holds it, unless FILE says the same already.
# A tarball has what the first printed in the file `commit` beside configure.
top=$(CDPATH='' cd "$(dirname "$0")/../.." && pwd) || exit 1
if [ -e "$top/.git" ] && now=$(git -C "$top" log -1 --format='%H %ct' 2> /dev/null); then
    commit=${now% *} time=${now#* }
    [ -z "$(git -C "$top" status --porcelain --untracked-files=no 2> /dev/null)" ] ||
        commit=$commit-dirty
elif [ -r "$top/commit" ]; then
    read -r commit time < "$top/commit"
fi
: "${commit:=unknown}" "${time:=0}"
[ $# -gt 0 ] || {
    echo "$commit $time"
    exit
}
printf '/* %s: BSD-3-Clause */\n#include "config/build.h"\n
const char mds_build_commit[] = "%s";\n' SPDX-License-Identifier "$commit" > "$1.$$"
if cmp -s "$1.$$" "$1"; then rm "$1.$$"; else mv "$1.$$" "$1"; fi
