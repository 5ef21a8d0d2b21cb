#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# From a fresh clone to a trained genome model:
#   ./quickstart.sh                    install what is missing, build, train a small GPT on E. coli
#   ./quickstart.sh check [TEST...]    install what is missing, build, run the quick tests, or those named
#   ./quickstart.sh check-all          the same with all tests
#   ./quickstart.sh --offline [DIR]    the first without a network: of the packages in DIR; says which to bring
# Environment: MDS_BUILD (build directory, default build), MDS_RUN (outputs, default
# quickstart-run), JOBS (of make, default all cores), CONFIGURE_FLAGS, TRAIN_ITERS (default 600).
set -u

src=$(CDPATH='' cd "$(dirname "$0")" && pwd) || exit 1
build=${MDS_BUILD:-$src/build}
run=${MDS_RUN:-$src/quickstart-run}
jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
ecoli=/usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz

needed='pkg-config make gcc mpich libmpich-dev libhdf5-dev libopenblas-openmp-dev libyaml-dev zlib1g-dev'
[ -x "$src/configure" ] || needed="autoconf automake $needed" # a release has it
for_launch='libpmix-dev'
for_train='gnuplot-nox bowtie-examples libhts-dev'
for_check='libcmocka-dev sharness strace python3-torch python3-numpy'

say() {
    printf '==> %s\n' "$*"
}

die() {
    printf 'quickstart: %s\n' "$*" >&2
    exit 1
}

# logged NAME COMMAND...: output goes to a file, whose end is shown on failure
logged() {
    log=$logs/$1.log
    shift
    "$@" > "$log" 2>&1 && return
    tail -n 25 "$log" >&2
    die "'$*' failed; all of its output: $log"
}

# make_all: as logged, and says how far it is
make_all() {
    log=$logs/make.log
    {
        make -C "$build" -j "$jobs" all 2>&1
        echo $? > "$logs/make.status"
    } | tee "$log" | awk '
        / (CC|NVCC|CXX)  / && ++n % 50 == 0 { print "    " n " files compiled"; fflush() }'
    [ "$(cat "$logs/make.status")" -eq 0 ] && return
    tail -n 25 "$log" >&2
    die "make failed; all of its output: $log"
}

# ---- what the machine has --------------------------------------------------------------

# Those of the packages named that are not installed.
lacking() {
    for package; do
        dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' ||
            echo "$package"
    done
}

root=
can_install() {
    command -v apt-get > /dev/null && command -v dpkg-query > /dev/null || return 1
    [ "$(id -u)" -ne 0 ] || return 0
    command -v sudo > /dev/null || return 1
    root=sudo
    sudo -n true 2> /dev/null || { [ -t 0 ] && sudo -v; }
}

apt() {
    $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"
}

# try NAME COMMAND...: as logged, but a failure is only reported
try() {
    log=$logs/$1.log
    shift
    "$@" > "$log" 2>&1 || say "'$*' failed (see $log); going on"
}

# Without a network: of what was brought.  What then lacks is named, with how to fetch it.
install_brought() {
    if [ -n "$brought" ] && can_install; then
        say "installing the packages in $brought"
        installed=yes
        try apt-brought apt install --no-install-recommends --no-download "$brought"/*.deb
    fi
    # shellcheck disable=SC2046,SC2086
    set -- $(lacking $needed $wanted)
    [ $# -gt 0 ] || return 0
    # shellcheck disable=SC1091
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    cat << END
==> these packages are not installed:
$(printf '    %s\n' "$@")
==> to bring them with all that they depend on, run this where there is a network, on a machine or in
    a container of the same release ($release, $(dpkg --print-architecture)) that has nothing else installed,
    and carry the folder mds-packages here:

    mkdir -p mds-packages/partial
    apt-get update
    apt-get -y --no-install-recommends --download-only -o Dir::Cache::archives="\$PWD/mds-packages" \\
        install $*

    then: $0 --offline mds-packages
END
    exit 3
}

installed= # yes: something new may be here
install_packages() {
    say "installing $*"
    installed=yes
    try apt-update apt update
    # shellcheck disable=SC2046,SC2086
    set -- $(lacking $needed)
    [ $# -eq 0 ] || try apt-needed apt install --no-install-recommends "$@"
    # One by one: a distribution may not have all of them.
    # shellcheck disable=SC2046,SC2086
    for package in $(lacking $wanted); do
        try "apt-$package" apt install --no-install-recommends "$package"
    done
}

# has WHAT MODULE TEST...: report it if the test fails
has() {
    what=$1 module=$2
    shift 2
    "$@" > /dev/null 2>&1 || printf '    %-28s %s\n' "$what" "$module"
}

any_command() {
    for name; do
        command -v "$name" > /dev/null && return
    done
    return 1
}

any_module() {
    for name; do
        pkg-config --exists "$name" && return
    done
    return 1
}

any_torch() {
    for python in ${PYTHON-} /usr/bin/python3 python3; do
        "$python" -c 'import torch, numpy' && return
    done
    return 1
}

list_missing() {
    [ -x "$src/configure" ] || has 'autoconf, automake' 'module autotools' any_command autoreconf
    has 'make' 'module make' any_command make
    [ -n "${CRAYPE_VERSION-}" ] || has 'an MPI compiler' \
        'module cray-mpich, mpich or openmpi' any_command mpicc.mpich mpicc mpicc.openmpi
    has 'pkg-config' 'module pkgconf' any_command pkg-config
    has 'HDF5' 'module cray-hdf5 or hdf5 (or --with-hdf5=DIR)' any_module hdf5 hdf5-serial
    has 'OpenBLAS (for speed)' 'module openblas (or --with-openblas=DIR)' any_module openblas
    has 'libyaml' 'module libyaml (or --with-libyaml=DIR)' any_module yaml-0.1
    has 'zlib (for .gz input)' 'module zlib' any_module zlib
    has 'htslib (variants)' 'module htslib (or --with-htslib=DIR)' any_module htslib
    has 'PMIx (ranks and nodes)' 'module pmix (or --with-pmix=DIR)' any_module pmix
    has 'gnuplot (for the plot)' 'module gnuplot' any_command gnuplot
    has 'E. coli genome' 'tests/data has a smaller one' test -r $ecoli
    [ "${wanted#"$for_check"}" != "$wanted" ] || return
    has 'cmocka (for tests)' 'module cmocka' any_module cmocka
    has 'sharness (for tests)' 'a file: SHARNESS_DIR=... in the environment' \
        test -r "${SHARNESS_DIR:-/usr/share/sharness}/sharness.sh"
    has 'strace (for tests)' 'module strace' any_command strace
    has 'PyTorch (for tests)' 'module pytorch (or PYTHON=...)' any_torch
}

prepare() {
    if [ -n "$offline" ] && command -v dpkg-query > /dev/null; then
        install_brought
        return
    fi
    # shellcheck disable=SC2046,SC2086
    set -- $(command -v dpkg-query > /dev/null && lacking $needed $wanted)
    why='not installing anything (that takes Debian or Ubuntu, and root or sudo). '
    if [ -z "$offline" ] && can_install; then
        [ $# -gt 0 ] || return 0
        install_packages "$@"
        # shellcheck disable=SC2046,SC2086
        set -- $(lacking $needed $wanted)
        why=
    fi
    missing=$(list_missing)
    [ -n "$missing" ] || return 0
    say "${why}Not found:"
    printf '%s\n' "$missing"
    [ $# -eq 0 ] || echo "    (Debian packages: $*)"
    say 'going on with what is there; CONFIGURE_FLAGS="--with-hdf5=DIR ..." is passed on'
}

# ---- build -----------------------------------------------------------------------------

# What was chosen at the first time is kept.
configure() (
    cd "$build" || exit
    [ ! -x config.status ] || { ./config.status --recheck && ./config.status; exit; }
    # CONFIGURE_FLAGS is a list of words
    # shellcheck disable=SC2086
    "$src/configure" ${CONFIGURE_FLAGS-}
)

build() {
    if [ ! -x "$src/configure" ]; then
        say 'bootstrapping (autoreconf)'
        logged bootstrap "$src/bootstrap"
    fi
    if [ ! -f "$build/Makefile" ] || [ -n "$installed" ]; then
        say "configuring in $build"
        logged configure configure
        sed -n '/will be built in/,$p' "$logs/configure.log"
    fi
    say "building with $jobs jobs: some minutes"
    make_all
}

# ---- the two commands ------------------------------------------------------------------

make_tokens() {
    genome=$ecoli
    if [ ! -r "$genome" ]; then
        genome=$src/tests/data/lambda.fna.gz
        say "no E. coli genome on this machine: taking phage lambda, which is small"
    fi
    say "making tokens (codons) of $genome"
    logged tokens mds_data make --tokenizer codon --output "$run/tokens.h5" --overwrite "$genome"
    mds_data info "$run/tokens.h5"
}

train() {
    say 'training a GPT of 1 million parameters on 2 ranks, about two minutes'
    # MPIEXEC is a list of words
    # shellcheck disable=SC2086
    $MPIEXEC -n 2 mds_pretrain --threads 1 \
        --data-path "$run/tokens.h5" --split 949,50,1 \
        --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 256 \
        --micro-batch-size 8 --global-batch-size 16 --train-iters "${TRAIN_ITERS:-600}" \
        --lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine --lr-warmup-iters 40 \
        --weight-decay 0.1 --clip-grad 1.0 --log-interval 20 \
        --eval-interval 100 --eval-iters 10 \
        --metrics-jsonl "$run/run.jsonl" --tensorboard-dir "$run/tensorboard" \
        --export-weights "$run/weights.safetensors" --overwrite \
        || die "training failed; what it was run on: $run"
}

plot() {
    say 'drawing the loss'
    for kind in png svg; do
        "$src/scripts/mds_plot" "$run/run.jsonl" "$run/loss.$kind"
        status=$?
        [ $status -ne 3 ] || return 0 # no gnuplot; it said so
        [ $status -eq 0 ] || die "the plot failed"
    done
}

# The last record of the run: what was learned.
report() {
    say 'outputs'
    for file in tokens.h5 run.jsonl tensorboard weights.safetensors loss.png loss.svg; do
        [ ! -e "$run/$file" ] || echo "    $run/$file"
    done
    awk '
    function value(key,    at, rest) {
        at = index($0, "\"" key "\":")
        rest = substr($0, at + length(key) + 3)
        sub(/[,}].*/, "", rest)
        return rest
    }
    /"event":"end"/ {
        loss = value("validation_lm_loss")
        entropy = value("unigram_entropy_nats")
    }
    END {
        printf "==> validation loss %.4f, unigram entropy %.4f (nats per token): ", loss, entropy
        print loss < entropy ? "the model uses context" : "not below it yet"
    }' "$run/run.jsonl"
    say "to go on: export PATH=$build/src/programs:$src/scripts:\$PATH MANPATH=$build/docs:\$MANPATH; then README.md, 'Use it'"
}

# check TARGET [TEST...]
check() {
    target=$1
    shift
    say 'building the tests'
    logged make-check make -C "$build" -j "$jobs" check TESTS=
    say "running the tests (make $target), $jobs at a time"
    make -C "$build" -j "$jobs" "$target" ${1:+TESTS="$*"} || die "some tests failed; see $build/test-suite.log"
}

# no_test_is_missing check TEST...: found before minutes of building
no_test_is_missing() {
    shift
    for test; do
        [ -e "$src/$test" ] || [ -e "$src/$test.c" ] ||
            die "no test '$test'; name it as in tests/cli/options.t or tests/unit/engine"
    done
}

usage() {
    sed -n '3,9s/^# \{0,1\}//p' "$0"
}

offline='' brought=''
case ${1-} in
'') wanted="$for_launch $for_train" ;;
--offline)
    wanted="$for_launch $for_train" offline=yes brought=${2-}
    [ $# -le 2 ] || { usage >&2; exit 2; }
    if [ -n "$brought" ]; then
        brought=$(cd "$brought" && pwd) || die "no folder $2"
    fi
    ;;
check | check-all)
    wanted="$for_check $for_launch $for_train"
    [ "$1" = check ] || [ $# -eq 1 ] || { usage >&2; exit 2; }
    ;;
-h | --help | help)
    usage
    exit 0
    ;;
*)
    usage >&2
    exit 2
    ;;
esac

case $src$build in
*[[:space:]]*) die "'$src': no folder above may have a blank in its name; move it, or rename that" ;;
esac
[ "${1-}" != check ] || no_test_is_missing "$@"
mkdir -p "$build" "$run/logs" || die "cannot make $build and $run"
build=$(cd "$build" && pwd) && run=$(cd "$run" && pwd) || exit 1
logs=$run/logs
prepare
build
case ${1-} in
check)
    shift
    if [ $# -eq 0 ]; then check check-quick; else check check "$@"; fi
    exit
    ;;
check-all)
    check check
    exit
    ;;
esac
cd "$build" || exit 1
# shellcheck disable=SC1091
. ./tests/env.sh
: "${MPIEXEC:?}"
make_tokens
train
plot
report
