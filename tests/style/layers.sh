#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The layer law of src/LAYERS, twice: by include lines, and by what the built archives
# need from each other.  And by what their objects need: no circle among the files of one
# directory.  Each check is then shown a tree that breaks the law.
srcdir=$(cd "${srcdir:-.}" && pwd)
builddir=$(cd "${builddir:-.}" && pwd)
law=$srcdir/tests/style/layers.awk
circles=$srcdir/tests/style/circles.awk
tmp=$(mktemp -d)
LC_ALL=C # for sort and comm alike
export LC_ALL
trap 'rm -rf "$tmp"' EXIT

t=0
report() { # report STATUS NAME: STATUS 0 is well
    [ "$1" -eq 0 ] || printf 'not '
    t=$((t + 1))
    echo "ok $t - $2"
}

# broken_includes LAYERS: what breaks the law in the current directory's src and kernels.
broken_includes() {
    find src kernels -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) |
        sort | xargs awk -f "$law" "$1"
}

# archive MODULE: its archives, if they have been built (kernels: one per backend).
archive() {
    for a in "src/$1/libmds_$1.a" "$1/libmdsk.a" "$1/libmdsk_cuda.a"; do
        [ ! -f "$a" ] || echo "$a"
    done
}

# broken_links LAYERS: what breaks it among the archives below the current directory.  The
# same as linking each module's archive whole with the lower ones, without needing every
# library: a name that it uses and that is ours must be defined there.
broken_links() {
    find src kernels -name 'libmds*.a' 2> /dev/null > "$tmp/archives"
    xargs nm -g --defined-only < "$tmp/archives" | names > "$tmp/ours"
    awk -v closure=1 -f "$law" "$1" | while read -r module below; do
        [ -n "$(archive "$module")" ] || continue
        for r in $module $below; do
            archive "$r"
        done > "$tmp/allowed"
        archive "$module" | xargs nm -g --undefined-only | names > "$tmp/uses"
        xargs nm -g --defined-only < "$tmp/allowed" | names > "$tmp/has"
        { grep '^mds' "$tmp/uses"; comm -12 "$tmp/uses" "$tmp/ours"; } | sort -u |
            comm -23 - "$tmp/has" | sed "s/^/module $module may not use /"
    done
}

# foreign_names: what the archives below the current directory define for others under a
# name that is not ours.  Weak ones come from other people's headers, and those with a _
# in front from the compiler.
foreign_names() {
    find src kernels -name 'libmds*.a' -exec nm -g --defined-only {} + 2> /dev/null |
        awk '$2 ~ /^[TDBR]$/ && $3 !~ /^(mdsk?)?_/ { print $3 }' | sort -u
}

# objects SOURCES: those below the current directory that have a source there; what was
# built of a file that is gone does not count.
objects() {
    find src kernels bench -name '*.o' 2> /dev/null | while read -r object; do
        file=${object##*/}
        file=${file%.o}
        file=$1/${object%/*}/${file#*-}
        if [ -f "$file.c" ] || [ -f "$file.cu" ]; then
            echo "$object"
        fi
    done
}

# circles_among SOURCES: the circles among these objects' files, one a line.
circles_among() {
    objects "$1" | xargs nm -A -P | awk -f "$circles" | sort
}

# From nm's lines.
names() {
    awk 'NF > 1 && $NF !~ /:$/ { print $NF }' | sort -u
}

empty() { # empty FILE: and shows what is in it
    sed 's/^/# /' "$1"
    [ ! -s "$1" ]
}

cd "$srcdir" || exit 1
broken_includes src/LAYERS > "$tmp/out"
empty "$tmp/out"
report $? "include lines keep the law"

find src -mindepth 1 -maxdepth 1 -type d | sed 's,src/,,' | sort > "$tmp/folders"
sed -n 's/^module \([a-z]*\):.*/\1/p' src/LAYERS | grep -vx kernels | sort > "$tmp/modules"
comm -3 "$tmp/folders" "$tmp/modules" > "$tmp/out"
empty "$tmp/out"
report $? "LAYERS and src/ have the same modules"

cd "$builddir" || exit 1
if [ -n "$(archive base)" ] && command -v nm > /dev/null; then
    broken_links "$srcdir/src/LAYERS" > "$tmp/out"
    empty "$tmp/out"
    report $? "archives need lower ones only"
    foreign_names > "$tmp/out"
    empty "$tmp/out"
    report $? "names for others begin with mds_ or mdsk_"
    circles_among "$srcdir" > "$tmp/out"
    empty "$tmp/out"
    report $? "no circle among the files of a directory"
else
    report 0 "archives need lower ones only # SKIP no archives in $builddir, or no nm"
fi

# ---- a tree that breaks it ------------------------------------------------------------
mkdir -p "$tmp/bad/kernels/cpu" "$tmp/bad/src"
cd "$tmp/bad" || exit 1
cat > src/LAYERS << 'EOF'
module kernels:
module base:
module io: base
module tensor: io
module model: tensor
module optim: tensor
header mpi.h: src/io
header cblas.h: kernels/cpu
libc: stdio.h
EOF

# caught WORDS FILE LINE: a file with that line is complained about in those words; with
# no words, not at all.
caught() {
    mkdir -p "${2%/*}"
    printf '%s\n' "$3" > "$2"
    broken_includes src/LAYERS > out
    rm "$2"
    if [ -n "$1" ]; then
        grep -qF "$2:1: " out && grep -qF "$1" out
    else
        empty out
    fi
    report $? "$2: $3"
}

caught '' src/model/x.c '#include "base/status.h" /* by way of tensor and io */'
caught '' kernels/cpu/x.c '#include <cblas.h>'
caught 'module base may not include io' src/base/x.h '#include "io/h5.h"'
caught 'module model may not include optim' src/model/x.c '#  include "optim/adamw.h"'
caught 'module kernels may not include base' kernels/cpu/x.cu '#include "base/status.h"'
caught 'does not say its module' src/io/x.c '#include "h5.h"'
caught 'of no module' src/io/x.c '#include "oi/h5.h"'
caught 'belongs to module io alone' src/model/x.c '#include "io/internal.h"'
caught '<mpi.h> is at home in src/io only' src/model/x.c '#include <mpi.h>'
caught '<cblas.h> is at home' kernels/x.c '#include <cblas.h>'
caught '<zmq.h> has no home' src/io/x.c '#include <zmq.h>'
caught 'module attic is not in LAYERS' src/attic/x.c '#include "base/status.h"'

echo 'module base: model' >> src/LAYERS
awk -f "$law" src/LAYERS | grep -q 'module tensor is above itself'
report $? "a circle among the modules"
sed -i '$d' src/LAYERS

# pack MODULE SOURCE: an archive of one file.
pack() {
    mkdir -p "src/$1"
    echo "$2" > x.c
    ${CC:-cc} -c x.c -o x.o && ar cr "src/$1/libmds_$1.a" x.o && rm x.c x.o
}
if command -v "${CC:-cc}" > /dev/null && command -v nm > /dev/null; then
    pack base 'int mds_h5_open(void); int mds_log(void) { return mds_h5_open(); }'
    pack io 'int mds_log(void); int mds_h5_open(void) { return mds_log(); }'
    broken_links src/LAYERS > out
    grep -qx 'module base may not use mds_h5_open' out
    report $? "an archive that needs a higher one"
    [ "$(wc -l < out)" -eq 1 ]
    report $? "and nothing else"
    pack base 'int mds_log; static int own; int *log_level(void) { return &own; }'
    [ "$(foreign_names)" = log_level ]
    report $? "a name for others without mds_"

    # compile FILE SOURCE: an object where the build has it.
    compile() {
        echo "$2" > "src/base/$1.c"
        ${CC:-cc} -c "src/base/$1.c" -o "src/base/libmds_base_a-$1.o"
    }
    compile a 'int mds_b(void); int mds_a(void) { return mds_b(); }'
    compile b 'int mds_c(void); int mds_b(void) { return mds_c(); }'
    compile c 'int mds_a(void); int mds_c(void) { return mds_a(); }'
    compile d 'int mds_a(void); int mds_d(void) { return mds_a(); }'
    circles_among . > out
    grep -qxF 'src/base/a.c -> b.c (mds_b) -> c.c (mds_c) -> a.c (mds_a)' out
    report $? "a circle of three files"
    [ "$(wc -l < out)" -eq 3 ]
    report $? "of which a fourth that uses them is no part"
    rm src/base/c.c
    circles_among . > out
    empty out
    report $? "an object of a source that is gone"
fi
echo "1..$t"
