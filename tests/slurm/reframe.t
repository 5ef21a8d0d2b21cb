#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='ReFrame: its tests of mds, as jobs'
# shellcheck source=tests/slurm/setup.sh
. "${srcdir:?run by tests/slurm/run}/tests/slurm/setup.sh"

if ! command -v "${REFRAME:-reframe}" >/dev/null; then
    skip_all='no reframe (REFRAME names one)'
    test_done
fi

# run_reframe OPTION...: prints the report if a test fails
run_reframe() {
    "${REFRAME:-reframe}" --nocolor --system=slurm:debug -C "$srcdir/tests/reframe/settings.py" \
        -c "$srcdir/tests/reframe/mds.py" -r "$@" >report 2>&1 || { cat report; return 1; }
}

test_expect_success 'smoke test, parity, tokens/s and the check of nodes pass' '
    run_reframe -S Check.num_tasks=4 -S "Check.more=-- --device cpu" && grep "Ran 7/7 .*(0 failure" report
'

test_expect_success 'losses that differ, or a speed below the reference, are failures' '
    mkdir bin && printf "#!/bin/sh\nexec %s/src/programs/mds_pretrain \"\$@\" --seed \$(date +%%N | cut -c1-5 | sed s/^0*//)\n" "$builddir" >bin/mds_pretrain &&
    chmod +x bin/mds_pretrain &&
    test_must_fail env PATH="$PWD/bin:$PATH" "${REFRAME:-reframe}" --nocolor --system=slurm:debug \
        -C "$srcdir/tests/reframe/settings.py" -c "$srcdir/tests/reframe/mds.py" -n "Parity.*tensor" -r >report 2>&1 &&
    grep "Failing phase: sanity" report
'

test_done
