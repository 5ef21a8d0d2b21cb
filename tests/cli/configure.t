#!/bin/sh
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='configure: folders of libraries that were named, and do not have them'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

# refuses OPTION WORDS: though the system has the library
refuses() {
    test_must_fail "$srcdir/configure" -q --cache-file=cache --without-cuda "$1" >out 2>&1 &&
        grep -F "error: $1: $2" out
}

mkdir -p half/include/below half/lib
touch half/include/yaml.h half/include/below/hdf5.h

test_expect_success 'a folder that is not there' '
    refuses --with-libyaml=/nonexistent "no yaml.h in /nonexistent/include"
'

test_expect_success 'a header without its library, in a folder below' '
    refuses "--with-libyaml=$PWD/half" "no libyaml in $PWD/half/lib64 or $PWD/half/lib" &&
    refuses "--with-hdf5=$PWD/half" "no libhdf5 in"
'

test_expect_success 'both, but they are of no use' '
    touch half/lib/libyaml.so &&
    refuses "--with-libyaml=$PWD/half" "no usable libyaml and yaml.h; config.log says why"
'

test_expect_success 'quickstart.sh in a folder with a blank in its name, which autoconf refuses' '
    mkdir -p "a b" && cp "$srcdir/quickstart.sh" "a b" &&
    test_expect_code 1 "a b/quickstart.sh" 2>err && cat err &&
    grep "^quickstart: .*/a b.: .* blank" err && test "$(ls "a b")" = quickstart.sh
'

test_done
