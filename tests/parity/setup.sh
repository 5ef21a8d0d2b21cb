# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034  # for those that source it
# Set-up of the tests that compare with Python.  The Python (variable python, default
# configure's) must have the $modules.  Makes a folder with t.h5, the tokens of a genome.
: "${srcdir:?run by make check, or by hand after: . tests/env.sh}"
# shellcheck source=tests/forget.sh
. "$srcdir/tests/forget.sh"
python=${python:-$PYTHON_TORCH} modules=${modules:-torch}
if [ -z "$python" ] || ! "$python" -c "import $modules" > /dev/null 2>&1; then
    echo "1..0 # SKIP ${python:-python3} has no $modules (Debian: apt install python3-torch)"
    exit 0
fi
here=$srcdir/tests/parity
work=$(mktemp -d "${TMPDIR:-/tmp}/mds-parity.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here
export OMP_NUM_THREADS PYTHONDONTWRITEBYTECODE PYTHONPATH
: > tap

# result DESCRIPTION COMMAND...: run the command and print a TAP line
result() {
    what=$1
    shift
    if "$@" > log 2>&1; then
        echo "ok - $what"
    else
        echo "not ok - $what"
        sed 's/^/# /' log
    fi | tee -a tap
}

# results COMMAND...: run a command that prints TAP lines itself.  If it fails without a
# "not ok" line, it ended early.
results() {
    "$@" > out 2> err || grep -q '^not ok' out || {
        echo "not ok - $2 ended early"
        sed 's/^/# /' err
    } >> out
    tee -a tap < out
}

# finish: print the TAP plan; fail if any test failed
finish() {
    echo "1..$(grep -c -e '^ok' -e '^not ok' tap)"
    ! grep -q '^not ok' tap
}

result "tokens of a genome" mds_data make --tokenizer codon --output t.h5 \
    "$srcdir/tests/data/lambda.fna.gz"
