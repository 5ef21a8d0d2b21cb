#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every source file says its licence: on line 1, or on line 2 after `#!`.  Not what tests
# compare byte for byte (jobscripts/, yaml below tests/), and not what configure writes.
cd "${srcdir:-.}" || exit 99
spdx='SPDX-License''-Identifier: BSD-3-Clause' # in one piece it is this file's, to REUSE

# unlicensed: source files below the current directory without the line
unlicensed() {
    find . \( -path './.git' -o -path './build*' -o -path './autom4te*' -o -path './mds-*' \
        -o -path './quickstart-run' -o -path './config*[!c]' -o -path './aclocal.m4' \
        -o -path './jobscripts' -o -path './tests/fuzz/corpus' -o -path './tests/data' \
        -o -path './tests/env.sh' -o -path './tests/*.yaml' -o -name 'trash*' \) -prune \
        -o -type f -print | sort |
        while read -r file; do
            case $file in
            ./aclocal.m4 | ./config.h | ./tests/*.yaml | ./tests/env.sh) continue ;;
            *.[ch] | *.cu | *.cuh | *.sh | *.t | *.py | *.awk | *.m4 | *.mk | *.ac | *.am | *.yaml | *.sh.in) ;;
            *) head -c 3 "$file" | grep -q '^#![ /]' || continue ;;
            esac
            sed 2q "$file" | grep -q "$spdx" || echo "# $file"
        done
}

echo 1..3
out=$(unlicensed)
[ -z "$out" ] || printf 'not '
echo 'ok 1 - every source file has its SPDX line'
[ -z "$out" ] || echo "$out"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/src"
printf '#!/bin/sh\n# %s\n' "$spdx" > "$tmp/good"
printf '#!/bin/sh\n:\n' > "$tmp/bad"
printf 'int x;\n' > "$tmp/src/bad.c"
[ "$(cd "$tmp" && unlicensed | tr -d '\n')" = '# ./bad# ./src/bad.c' ] || printf 'not '
echo 'ok 2 - a file without it is found'

for file in LICENSE AUTHORS CITATION.cff; do
    grep -q 'mds authors' $file || echo "# $file does not name the mds authors"
done > "$tmp/out"
grep -q 'BSD 3-Clause' LICENSE && grep -q '^license: BSD-3-Clause$' CITATION.cff ||
    echo '# LICENSE and CITATION.cff are of different licences' >> "$tmp/out"
version=$(sed -n 's/^AC_INIT(\[mds\],\[\([^]]*\)\].*/\1/p' configure.ac)
grep -q "^version: $version\$" CITATION.cff ||
    echo "# configure.ac has version $version, CITATION.cff has not" >> "$tmp/out"
[ ! -s "$tmp/out" ] || printf 'not '
echo 'ok 3 - LICENSE, AUTHORS, CITATION.cff and configure.ac agree'
cat "$tmp/out"
