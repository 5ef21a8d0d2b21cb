#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Submit a run to the batch system of this machine, with the variables of train-gpt3.sh:
#
#     MODEL_SIZE_KEY=GPT25B SEQ_LEN=128000 ALCF/submit.sh QUEUE NODES WALLTIME PROJECT
#
# QUEUE, NUM_NODES, DURATION and PROJECT may stand in the environment instead.
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
# shellcheck source=ALCF/setup.sh
. "$here/setup.sh"
exec "$here/train-gpt3.sh" submit "$@"
