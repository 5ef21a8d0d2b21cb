# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034  # sharness reads some of these variables
# Begins every sharness test.
if [ -z "$SHARNESS" ]; then
    echo "1..0 # SKIP sharness is not installed"
    exit 0
fi
# The scratch folder goes to the build tree, where the test is in the source tree: another test
# of the same name may be running.  No test-results beside it.
SHARNESS_TEST_DIRECTORY=$(cd "$(dirname "$0")" && pwd) || exit 99
: "${builddir:?run by make check, or by hand after: . tests/env.sh}"
SHARNESS_TEST_DIRECTORY=$builddir/tests/${SHARNESS_TEST_DIRECTORY##*/}
HARNESS_ACTIVE=1
verbose=t # what a failing case printed is in its .log
mkdir -p "$SHARNESS_TEST_DIRECTORY"

# shellcheck source=tests/forget.sh
. "${srcdir:?}/tests/forget.sh"
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS OPENBLAS_NUM_THREADS

# shellcheck disable=SC1090
. "$SHARNESS"
