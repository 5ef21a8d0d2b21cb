#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ALCF/sweep.sh SWEEP.yaml: submit a run for each combination of values in a table; see mds_launch(1).
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
# shellcheck source=ALCF/setup.sh
. "$here/setup.sh"
exec "$launch" sweep "$@"
