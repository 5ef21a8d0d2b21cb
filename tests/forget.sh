# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Sourced by tests that train.  Unset the variables that a site or a user may export for real
# runs.  Their names are those in brackets in --help.
for name in $(mds_pretrain --help | tr '\n' ' ' | tr '[' '\n' |
    sed -n 's/^\([A-Z][A-Z0-9_, ]*\)\(=0\)\{0,1\}\].*/\1/p' | tr -d ,); do
    unset "$name"
done
# Tests use a name again and again; those that are about that unset this.
MDS_OVERWRITE=1
export MDS_OVERWRITE
