#!/bin/sh
# ALCF/submit-pbs.sh QUEUE NODES WALLTIME PROJECT: the same, on Polaris unless MACHINE says else.
here=$(cd "$(dirname "$0")" && pwd)
MACHINE=${MACHINE:-polaris}
export MACHINE
exec "$here/submit.sh" "$@"
