# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Sourced by the scripts beside it: find mds_launch, and give names of older scripts their
# present meaning.
: "${here:?set by the script that sources this}"
# What a script says of itself at its head is its help.
case ${1-} in
-h | --help)
    sed -n '/^#!/d; /^# SPDX/d; /^#/!q; s/^# \{0,1\}//p' "$0"
    printf '\nOptions: mds_launch --help.  Variables: mds_pretrain --help.\n'
    exit
    ;;
esac
launch=$(command -v mds_launch)
for folder in "$here/../src/programs" "$here/../build/src/programs" "$here/../../../bin"; do
    if [ -z "$launch" ] && [ -x "$folder/mds_launch" ]; then
        launch=$folder/mds_launch
    fi
done
if [ -z "$launch" ]; then
    echo "mds_launch is nowhere: load the module mds, or put its folder into PATH" >&2
    exit 1
fi

# Site scripts write NGPUS=auto or leave variables empty; both mean unset.
for name in NGPUS NHOSTS NGPU_PER_HOST HOSTFILE; do
    eval "value=\${$name:-}"
    # shellcheck disable=SC2154  # set by eval
    if [ -z "$value" ] || [ "$value" = auto ]; then
        unset "$name"
    fi
done

# tell_type TYPE WORDS...: say what the numbers are, unless the user chose by DTYPE or in WORDS
tell_type() {
    type=$1
    shift
    [ -z "$DTYPE" ] || return 0
    for word; do
        case $word in
        --fp16 | --bf16 | --dtype | --dtype=*) return 0 ;;
        esac
    done
    echo "mds: info: $(basename "$0"): numbers are $type; DTYPE=fp16 and DTYPE=bf16 set it" >&2
}
