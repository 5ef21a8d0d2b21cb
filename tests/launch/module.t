#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='the module file, read by Environment Modules and by Lmod'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

# As `make` writes it, for a site that names two conflicts and a prerequisite.
# Lmod cannot read a folder with a blank in its name, as this one has.
modules=$(mktemp -d)
mkdir -p modules/mds modules/hdf5 modules/deepspeed modules/megatron
make -s -C "$builddir" modulefiles/test PACKAGE_VERSION=test MODULE_PREREQ=hdf5 \
    MODULE_CONFLICT='deepspeed megatron' >log 2>&1 || cat log
mv "$builddir/modulefiles/test" modules/mds/1.0
sed 's/list deepspeed megatron/list/; s/list hdf5/list/' modules/mds/1.0 >modules/mds/0.9
for name in hdf5 deepspeed megatron; do
    printf '#%%Module1.0\nsetenv HAS_%s 1\n' $name >modules/$name/1
done
mv modules/* "$modules"
unset LOADEDMODULES _LMFILES_ MANPATH
MODULEPATH=$modules
export MODULEPATH

# Where each keeps the program behind `module`: LMOD_CMD and MODULES_CMD go before.
for path in /usr/lib/*/modulecmd.tcl /usr/lib/modulecmd.tcl /usr/share/Modules/libexec/modulecmd.tcl; do
    [ -n "$MODULES_CMD" ] || [ ! -x "$path" ] || MODULES_CMD=$path
done
for path in /usr/share/lmod/lmod/libexec/lmod /opt/apps/lmod/lmod/libexec/lmod; do
    [ -n "$LMOD_CMD" ] || [ ! -x "$path" ] || LMOD_CMD=$path
done

# A tree that was installed with another prefix, and moved since.
make -s -C "$builddir" install prefix="$modules/first" >log 2>&1 || cat log
mkdir "$modules/later"
mv "$modules/first" "$modules/later/tree"
tree=$modules/later/tree

# alone COMMAND...: without the sources, and without what was built there, where this user may
# hide them
may_hide=
! unshare -rm mount -t tmpfs none "$srcdir" 2>log || may_hide=yes
alone() (
    # shellcheck disable=SC2086
    cd / && env -i PATH="$PATH" ${may_hide:+unshare -rm} sh -c "
        ${may_hide:+mount -t tmpfs none '$builddir' && mount -t tmpfs none '$srcdir' &&} $*"
)

# with VERB MODULE... : what `module` does, in this shell; fails as it does
with() {
    "$cmd" sh "$@" >code 2>err
    status=$?
    eval "$(cat code)" || status=1
    grep -qi error err && status=1
    return $status
}
goes() {
    test_expect_success "$1: bin, scripts and pages; and back" '
        (before=$PATH && with load hdf5 && with load mds/1.0 && echo "$LOADEDMODULES" &&
            case $PATH in */ALCF:*/bin:*) ;; *) false ;; esac &&
            case $MANPATH in */man: | */man::) ;; *) echo "MANPATH $MANPATH"; false ;; esac &&
            test "$HAS_hdf5" = 1 && with unload mds && case $PATH in */ALCF:*) false ;; esac)
    '
    test_expect_success "$1: a tree that was moved works, without its sources" '
        (MODULEPATH=$tree/share/modulefiles && with load mds && PATH=${PATH%"$builddir"*}/usr/bin:/bin &&
            test "$(command -v mds_launch)" = "$tree/bin/mds_launch" &&
            alone mds_pretrain --model-size-key GPT13B --show-config >shown &&
            grep "layers: 40 .* $tree/share/mds/models.yaml" shown &&
            alone MACHINE=polaris NHOSTS=2 DATA_PATH=x train-gpt3.sh --print >line && cat line &&
            grep -e "--num-layers 40" line && test -e "$tree/share/man/man1/mds_launch.1" &&
            alone mds_launch where --machine polaris | grep "$tree/share/mds/machines/polaris.yaml")
    '
    test_expect_success "$1: and by a link to its module file" '
        mkdir -p links/mds && ln -sf "$tree/share/modulefiles/mds"/* links/mds/ && mv links "$modules" &&
        (MODULEPATH=$modules/links && with load mds && test "$(command -v mds_launch)" = "$tree/bin/mds_launch") &&
        rm -r "$modules/links"
    '
    test_expect_success "$1: another version takes its place" '
        (with load hdf5 && with load mds/1.0 && { with load mds/0.9 || with switch mds/1.0 mds/0.9; } &&
            echo "$LOADEDMODULES" && case $LOADEDMODULES in *mds/1.0*) false ;; *mds/0.9*) ;; esac)
    '
    test_expect_success "$1: conflicts both ways" '
        (with load hdf5 && with load deepspeed && ! with load mds/1.0 && cat err && grep deepspeed err) &&
        (with load hdf5 && with load megatron && ! with load mds/1.0)
    '
    test_expect_success "$1: the prerequisite is loaded, or asked for" '
        (with load mds/1.0 && test "$HAS_hdf5" = 1 || grep hdf5 err)
    '
    test_expect_success "$1: help" '
        with help mds/1.0 && grep "mds_launch where" err
    '
}
if [ -z "$MODULES_CMD$LMOD_CMD" ]; then
    rm -r "$modules"
    skip_all='neither Environment Modules nor Lmod is installed'
    test_done
fi
if [ -n "$MODULES_CMD" ]; then
    cmd=$MODULES_CMD
    goes 'Environment Modules'
fi
if [ -n "$LMOD_CMD" ]; then
    cmd=$LMOD_CMD
    goes Lmod
fi
rm -r "$modules"
test_done
