#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Links in the documentation lead to existing files and headings. A version has one page in NEWS.md;
# README.md has at most 100 columns. mkdocs renders lists and code as such, and builds the pages.
top=$(cd "${srcdir:-.}" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# links FILE: PATH|HEADING of each link to a file; not those in code
links() {
    # shellcheck disable=SC2016  # backquotes are Markdown's
    sed 's/`[^`]*`//g; /^    /d' "$1" | grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//' |
        grep -v '^[a-z]*:' | sed 's/^\([^#]*\)#*\(.*\)/\1|\2/'
}
# headings FILE: as links name them
headings() {
    sed -n 's/^##* *//p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}
# dead: what links below the current directory do not find
dead() {
    for text in *.md docs/*.md docs/adr/*.md kernels/*.md; do
        [ -f "$text" ] || continue
        links "$text" | while IFS='|' read -r path heading; do
            case $path in '') to=$text ;; *) to=$(dirname "$text")/$path ;; esac
            [ -e "$to" ] || echo "# $text: $path"
            [ -z "$heading" ] || headings "$to" | grep -qx "$heading" || echo "# $text: $path#$heading"
        done
    done
}

echo 1..6
cd "$top" || exit 99
dead > "$tmp/dead"
[ "$(for text in docs/*.md; do links "$text"; done | wc -l)" -gt 20 ] || echo '# no links are found' >> "$tmp/dead"
[ ! -s "$tmp/dead" ] || printf 'not '
echo 'ok 1 - every link leads somewhere'
cat "$tmp/dead"

mkdir -p "$tmp/bad/docs" && cd "$tmp/bad" || exit 99
printf '# A\n\n## The end of it\n\n[a](docs/b.md) [b](#the-end-of-it) [c](docs/no.md)\n' > a.md
printf '[a](../a.md#the-end-of-it) [b](../a.md#no)\n' > docs/b.md
[ "$(dead | tr -d '\n')" = '# a.md: docs/no.md# docs/b.md: ../a.md#no' ] || printf 'not '
echo 'ok 2 - dead links are found'

# Whoever adds something to a version says it where that version can do it, not below.
long=$(awk '/^## / { n = 0; name = $0 } ++n == 121 { print "# " name " has more than 120 lines: fold them" }' "$top/NEWS.md")
[ -z "$long" ] || printf 'not '
echo 'ok 3 - a version has a page of NEWS.md'
[ -z "$long" ] || echo "$long"

long=$(awk 'length > 100 && !/^!\[/ { print "# README.md:" NR " has more than 100 columns" }' "$top/README.md")
[ -z "$long" ] || printf 'not '
echo 'ok 4 - README.md is within 100 columns'
[ -z "$long" ] || echo "$long"

# GitHub accepts both; Python-Markdown, which mkdocs uses, joins them to the paragraph.
wrong=$(cd "$top" && awk '
    FNR == 1 { before = "" }
    /^- |^[0-9]+\. / && before ~ /^[^ |#-]/ && before !~ /^[0-9]+\. / {
        print "# " FILENAME ":" FNR ": no blank line before a list" }
    /^     ? ? ?[^ ]/ && before == "" && item { print "# " FILENAME ":" FNR ": code within a list: 8 spaces" }
    /^[^ ]/ { item = /^- |^[0-9]+\. / }
    { before = $0 }' ./*.md docs/*.md docs/adr/*.md kernels/*.md)
[ -z "$wrong" ] || printf 'not '
echo 'ok 5 - mkdocs renders lists and code as such'
[ -z "$wrong" ] || echo "$wrong"

if ! command -v mkdocs > /dev/null; then
    echo 'ok 6 # SKIP no mkdocs'
else
    "$top/docs/html" "$tmp/html" > "$tmp/out" 2>&1 && [ -s "$tmp/html/docs/glossary.html" ] || printf 'not '
    echo 'ok 6 - the pages build'
    sed 's/^/# /' "$tmp/out"
fi
