#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What HACKING.md, kernels/README.md and docs/new-machine.md say of adding an activation
# function and a machine is done here, step by step, in a copy: so these pages stay true.
: "${srcdir:?run by make check, or by hand after: . tests/env.sh}" "${builddir:?}"
srcdir=$(cd "$srcdir" && pwd) builddir=$(cd "$builddir" && pwd) || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
n=0

# line STATUS NAME: with $tmp/log where it is not 0
line() {
    n=$((n + 1))
    [ "$1" -eq 0 ] || printf 'not '
    echo "ok $n - $2"
    [ "$1" -eq 0 ] || sed 's/^/# /' "$tmp/log"
}

# insert FILE BEFORE: lines of stdin come before the first line of FILE in the copy that
# contains BEFORE
insert() {
    cat > "$tmp/text"
    mkdir -p "$tmp/copy/${1%/*}"
    [ -f "$tmp/copy/$1" ] || cp "$srcdir/$1" "$tmp/copy/$1"
    awk -v text="$tmp/text" -v before="$2" '!done && index($0, before) {
            while ((getline row < text) > 0) print row
            done = 1
        }
        { print }' "$tmp/copy/$1" > "$tmp/new" && mv "$tmp/new" "$tmp/copy/$1"
}

# ---- an activation function: GELU as x / (1 + exp(-1.702 x)) ----

cp -R "$srcdir/kernels" "$tmp/copy.kernels" && mkdir "$tmp/copy" &&
    mv "$tmp/copy.kernels" "$tmp/copy/kernels" && chmod -R u+w "$tmp/copy" || exit 99

insert kernels/activation.h 'X(SWIGLU,' << 'END'
    X(QUICK_GELU, quick_gelu, 0, " quick_gelu ")  \
END
insert kernels/cpu/activation.c 'MDSK_DISPATCH static void swiglu(' << 'END'
MDSK_DISPATCH static void quick_gelu(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float other;

        y[i] = x[i] * mdsk_sigmoid(1.702f * x[i], &other);
    }
}

MDSK_DISPATCH static void quick_gelu_bwd(int64_t n, const float *x, const float *dy,
                                         float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float other, s = mdsk_sigmoid(1.702f * x[i], &other);

        dx[i] = dy[i] * s * (1 + FACTOR * x[i] * other);
    }
}

END
insert kernels/cpu/activation.c '[MDSK_GELU] =' << 'END'
    [MDSK_QUICK_GELU] = {quick_gelu, quick_gelu_bwd},
END
insert tests/kernels/rows.c '/* Of x, or of the gate. */' << 'END'
static double quick_gelu(double x)
{
    return x * sigmoid(1.702 * x);
}

static double quick_gelu_slope(double x)
{
    return sigmoid(1.702 * x) * (1 + 1.702 * x * sigmoid(-1.702 * x));
}

END
insert tests/kernels/rows.c '[MDSK_GELU] =' << 'END'
    [MDSK_QUICK_GELU] = {quick_gelu, quick_gelu_slope},
END
insert src/config/options.c '{shape, "model.squared_relu"' << 'END'
    {shape, "model.quick_gelu", "--quick-gelu", "MDS_QUICK_GELU", MDS_OPT_FLAG,
     "0", 0, 0, NULL, AT(model.chosen[MDSK_QUICK_GELU]), NULL, .help = "quick GELU"},
END

# Build with the flags of this build directory; what does not change comes from its
# library.
cat > "$tmp/rules" << 'END'
include Makefile
howto_cc = $(CC) $(DEFS) -I. -I$(HOWTO) $(AM_CPPFLAGS) $(CPPFLAGS) $(kernels_cflags) \
    $(KERNEL_CFLAGS) $(CFLAGS) -DFACTOR=$(FACTOR)
howto_rows:
	$(howto_cc) -o $(HOWTO)/rows $(HOWTO)/tests/kernels/rows.c \
	    $(HOWTO)/kernels/cpu/activation.c $(HOWTO)/kernels/cost/cost.c \
	    $(kernels_ldadd) $(LIBS)
howto_options:
	$(howto_cc) -fsyntax-only $(HOWTO)/src/config/options.c
.PHONY: howto_rows howto_options
END

# build TARGET FACTOR
build() {
    (cd "$builddir" && make -s -f "$tmp/rules" "$1" "HOWTO=$tmp/copy" "FACTOR=$2") \
        > "$tmp/log" 2>&1
}

if [ -f "$builddir/tests/kernels/libcheck.a" ]; then
    build howto_rows 1.702f && "$tmp/copy/rows" > "$tmp/log" 2>&1
    line $? 'an activation function, added as the pages say, passes the tests of the others'
    build howto_rows 1.8f && ! "$tmp/copy/rows" > "$tmp/log" 2>&1 &&
        grep -qi 'not ok\|FAILED' "$tmp/log"
    line $? 'and fails with a wrong slope'
else
    n=2
    echo 'ok 1 # SKIP no cmocka'
    echo 'ok 2 # SKIP no cmocka'
fi
build howto_options 1
line $? 'its option compiles'

# ---- a machine ----

sed 's/^  name: perlmutter/  name: mine/; s/^  hosts: .*/  hosts: [mine*]/; /^  variable:/d
    s/^  gpus: 4/  gpus: 8/' \
    "$srcdir/machines/perlmutter.yaml" > "$tmp/mine.yaml"
PATH=$builddir/src/programs:$PATH
export MODEL_SIZE_KEY=GPT13B
mds_launch check-profile "$tmp/mine.yaml" > "$tmp/log" 2>&1
line $? 'a machine is one file: check-profile takes it'
mds_launch --machine "$tmp/mine.yaml" --nodes 2 plan > "$tmp/log" 2>&1 &&
    grep -q '16' "$tmp/log"
line $? 'plan has the ranks of two nodes'
TRAIN_ITERS=100 mds_launch --machine "$tmp/mine.yaml" --print submit regular 2 1:00:00 me \
    > "$tmp/log" 2>&1 && grep -q -- '--nodes=2' "$tmp/log"
line $? 'and submit prints its job'
echo "1..$n"
