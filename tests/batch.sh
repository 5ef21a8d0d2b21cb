# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# What tests of batch systems ask of a folder of runs with a run named j.

# appears FILE TEXT SECONDS
appears() {
    for _ in $(seq $(($3 * 5))); do
        ! grep -qs "$2" "$1" || return 0
        sleep 0.2
    done
    return 1
}
steps() {
    sed -n '/"step"/s/.*"iteration":\([0-9]*\),.*/\1/p' "$1/j/metrics.jsonl"
}
logs() {
    cat "$1"/j/job-*.log
}
