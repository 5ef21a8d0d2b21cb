#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='configure: where libraries are, and folders that do not have them'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

# refuses OPTION WORDS: though the system has the library
refuses() {
    test_must_fail "$srcdir/configure" -q --cache-file=cache --without-cuda "$1" >out 2>&1 &&
        grep -F "error: $1: $2" out
}

mkdir -p half/include/below half/lib
touch half/include/yaml.h half/include/below/hdf5.h

test_expect_success 'a folder that is not there' '
    refuses --with-libyaml=/nonexistent "no yaml.h in /nonexistent/include"
'

test_expect_success 'a header without its library, in a folder below' '
    refuses "--with-libyaml=$PWD/half" "no libyaml in $PWD/half/lib64 or $PWD/half/lib" &&
    refuses "--with-hdf5=$PWD/half" "no libhdf5 in"
'

test_expect_success 'both, but they are of no use' '
    touch half/lib/libyaml.so &&
    refuses "--with-libyaml=$PWD/half" "no usable libyaml and yaml.h; config.log says why"
'

# A folder without a blank in its name, as sharness's has one.
place=$(mktemp -d "${TMPDIR:-/tmp}/mds-configure.XXXXXX") || exit 99

# library FOLDER SUBFOLDER NAME HEADER FUNCTION [DECLARATIONS]: one that does nothing
library() {
    mkdir -p "$1/include" "$1/$2" && echo "$6 int $5;" > "$1/include/$4" &&
        echo "$6 int $5 { return 0; }" > library.c &&
        "${CC:-cc}" -shared -fPIC -w -o "$1/$2/lib$3.so" library.c
}

# A toolkit that compiles nothing; the first nvcc starts the second.
hpc_sdk() {
    mkdir -p sdk/compilers/bin sdk/cuda/12.5/bin && cat > sdk/cuda/12.5/bin/nvcc <<-'EOF' &&
	#!/bin/sh
	[ "$1" != --list-gpu-arch ] || echo compute_90
	EOF
        chmod +x sdk/cuda/12.5/bin/nvcc && cp sdk/cuda/12.5/bin/nvcc sdk/compilers/bin &&
        ln -s 12.5/bin 12.5/include 12.5/lib64 sdk/cuda &&
        library sdk/cuda/12.5/targets/sbsa-linux lib cudart cuda_runtime_api.h \
            'cudaGetDeviceCount(int *n)' 'enum { cudaSuccess };' &&
        ln -s targets/sbsa-linux/lib sdk/cuda/12.5/lib64 &&
        ln -s targets/sbsa-linux/include sdk/cuda/12.5/include &&
        library sdk/math_libs/12.5 lib64 cublasLt cublasLt.h 'cublasLtCreate(cublasLtHandle_t *h)' \
            'enum { CUBLAS_STATUS_SUCCESS }; typedef void *cublasLtHandle_t;' &&
        ln -s 12.5/lib64 12.5/include sdk/math_libs &&
        library sdk/comm_libs/12.5/nccl lib nccl nccl.h 'ncclGetVersion(int *v)' &&
        ln -s 12.5/nccl sdk/comm_libs
}

# configures FLAGS...: what of CUDA is found where
configures() {
    (cd "$place" && "$srcdir/configure" --cache-file=cache --without-cudnn "$@" > out 2>&1) &&
        sed -n "s#$place/##; /^    CUDA /,/^      NCCL/p" "$place/out"
}

test_expect_success 'parts of CUDA in the folders of the HPC SDK' '
    (cd "$place" && hpc_sdk) && configures --with-cuda="$place/sdk/cuda/12.5" >found && cat found &&
    grep "CUDA  *sdk/cuda/12.5, for compute capability 90" found &&
    grep "NCCL  *sdk/comm_libs/12.5/nccl$" found &&
    grep "^CUBLASLT_LIBS = -Wl,-rpath,$place/sdk/math_libs/12.5/lib64$" "$place/Makefile" &&
    grep "MDS_CUBLASLT_FILE \"libcublasLt.so\"" "$place/config.h" &&
    grep "^CUDA_CFLAGS = .*-isystem $place/sdk/math_libs/12.5/include" "$place/Makefile"
'

test_expect_success 'and by the nvcc that its module finds first' '
    (PATH=$place/sdk/compilers/bin:$PATH && configures --with-cuda) >found && cat found &&
    grep "CUDA  *sdk/cuda, for compute" found && grep "NCCL  *sdk/comm_libs/nccl$" found
'

test_expect_success 'a toolkit of conda, which has them in targets/' '
    (cd "$place" && mv sdk/cuda/12.5 conda && rm conda/lib64 conda/include &&
        mv sdk/math_libs/12.5/include/* conda/targets/sbsa-linux/include &&
        mv sdk/math_libs/12.5/lib64/* conda/targets/sbsa-linux/lib) &&
    configures --with-cuda="$place/conda" >found && cat found &&
    grep "CUDA  *conda, for compute" found
'

test_expect_success 'quickstart.sh in a folder with a blank in its name, which autoconf refuses' '
    mkdir -p "a b" && cp "$srcdir/quickstart.sh" "a b" &&
    test_expect_code 1 "a b/quickstart.sh" 2>err && cat err &&
    grep "^quickstart: .*/a b.: .* blank" err && test "$(ls "a b")" = quickstart.sh
'

test_expect_success 'quickstart.sh check: a test that is not there, before anything is built' '
    copy=$place/copy && mkdir -p "$copy/tests/cli" && cp "$srcdir/quickstart.sh" "$copy" && : >"$copy/tests/cli/a.t" &&
    test_expect_code 1 "$copy/quickstart.sh" check tests/cli/a.t tests/cli/b.t 2>err && cat err &&
    grep "^quickstart: no test .tests/cli/b.t.; name it as in" err && test ! -e "$copy/build"
'

rm -rf "$place"
test_done
