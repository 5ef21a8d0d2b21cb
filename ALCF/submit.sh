#!/bin/sh
# Submit a run to the batch system of this machine: QUEUE=debug NUM_NODES=2 DURATION=1:00:00
# PROJECT=me MODEL_SIZE_KEY=GPT25B SEQ_LEN=128000 ALCF/submit.sh [QUEUE NODES WALLTIME PROJECT]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/train-gpt3.sh" submit "$@"
