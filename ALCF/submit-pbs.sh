#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Submit a run on Polaris, or on MACHINE, with the variables of train-gpt3.sh:
#
#     MODEL_SIZE_KEY=GPT25B SEQ_LEN=128000 ALCF/submit-pbs.sh QUEUE NODES WALLTIME PROJECT
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
# shellcheck source=ALCF/setup.sh
. "$here/setup.sh"
: "${MACHINE:=polaris}"
export MACHINE
exec "$here/submit.sh" "$@"
