#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What git has is in the tarball, what installed documents link to is installed, and what
# is installed goes again.
: "${srcdir:?run by make check, or by hand after: . tests/env.sh}" "${builddir:?}"
cd "$srcdir" || exit 99

# The files that a variable of the Makefile names, or the folders in it have.
files() {
    unset MAKEFLAGS MFLAGS
    # shellcheck disable=SC2016  # the last is make's
    printf 'files:\n\t@echo $(patsubst $(top_srcdir)/%%,%%,$(%s))\n' "$1" |
        make -s -C "$builddir" -f Makefile -f - files | tr ' ' '\n' |
        while read -r path; do find "$path" -type f 2> /dev/null; done
}
# said NUMBER WHAT: passed if nothing comes in
said() {
    out=$(sed 's/^/# /')
    [ -z "$out" ] || printf 'not '
    echo "ok $1 - $2"
    [ -z "$out" ] || echo "$out"
}

echo 1..3
if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
    { git ls-files; { files DISTFILES; git ls-files '.*'; } | sed 'p'; } | sort | uniq -u |
        said 1 'what git has is in the tarball'
else
    echo 'ok 1 # SKIP not a git checkout'
fi
documents=$(files dist_doc_DATA && files dist_docimg_DATA)
for text in $documents; do
    grep -o '](\([^):#][^):#]*\)[)#]' "$text" | sed 's/^](//; s/.$//' | while read -r path; do
        echo "$documents" | grep -q -x -F "docs/$path" || echo "$text: $path"
    done
done | said 2 'what installed documents link to is installed'
# No folder that is ours alone stays; bin and the like do.
to=$(mktemp -d) || exit 99
for goal in install uninstall; do
    (unset MAKEFLAGS MFLAGS && make -s -C "$builddir" $goal DESTDIR="$to" 2>&1) > "$to.log" || cat "$to.log"
    [ $goal = uninstall ] || [ -n "$(find "$to" -name mds_pretrain)" ] || echo 'nothing is installed'
done > "$to.out"
find "$to" -type f -o -type l -o -type d -empty \
    \( -name mds -o -name ALCF -o -name machines -o -name jobscripts \) >> "$to.out"
said 3 'uninstall leaves nothing behind' < "$to.out"
rm -r "$to" "$to.log" "$to.out"
