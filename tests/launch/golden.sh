#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Command lines and jobs for machines that nobody here has: each case of tests/launch/*.yaml
# is run with no environment but its own, in a folder with a few lists of nodes, and must print
# its line.  UPDATE=1 writes down what is printed instead: look at the difference.
given=${srcdir:-.} # as the programs were told
srcdir=$(cd "$given" && pwd)
case $given in /*) ;; *) given=$srcdir ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

mkdir bin
printf '#!/bin/sh\nexit 1\n' > bin/nvidia-smi # this host's GPUs are not the machine's
chmod +x bin/nvidia-smi
for i in 1 2 3 4 5 6 7 8; do echo "x300${i}c0s1b0n0"; done > pbs.nodes
for i in 1 2 3 4; do echo "thetagpu0$i"; done > cobalt.nodes
for i in 1 2 3 4; do echo "sophia-gpu-0$i"; done > sophia.nodes
for i in 1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2; do echo "sophia-gpu-0$i"; done > gpus.nodes
printf 'node1 slots=4\nnode2 slots=4\n' > two.nodes
printf 'node1\nnode2\nnode1\n' > twice.nodes
printf 'node1\n\nnode2\n' > blank.nodes

# answer COMMAND: what it prints, and of faults the sentences.
answer() {
    env -i PATH="$scratch/bin:$PATH" HOME="$scratch" OMP_NUM_THREADS=1 SRC="$srcdir" \
        sh -c "$1" 2>&1 | grep -v 'mds: info:\|no data: DATA_PATH\|data not found on this host:\|no length of the run:' | sed "s,$given/,\$SRC/,g
            s,$srcdir/,\$SRC/,g; s,${MPIEXEC:-mpiexec} -n,mpiexec -n,"
}

# compare WANT: run the case; line becomes what UPDATE=1 writes down.
compare() {
    t=$((t + 1))
    got=$(answer "$run")
    if [ -n "$UPDATE" ]; then
        line="    $got"
    elif [ "$got" != "$1" ]; then
        printf 'not '
        failed=1
    fi
    echo "ok $t - $machine: $name"
    [ "$got" = "$1" ] || printf '# got  %s\n# want %s\n' "$got" "$1"
}

t=0
failed=0
# Every profile has cases.
for profile in "$srcdir"/machines/*.yaml faults; do
    machine=$(basename "$profile" .yaml)
    file=$srcdir/tests/launch/$machine.yaml
    cp "$file" cases || exit 1
    while IFS= read -r line; do
        case $line in
        '- case: '*) name=${line#- case: } ;;
        '  '*': |-') key=${line%: |-} ;;
        '    '*)
            if [ "$key" = '  run' ]; then
                run=${line#    }
            else
                compare "${line#    }"
            fi
            ;;
        esac
        printf '%s\n' "$line" >> new
    done < cases
    [ -z "$UPDATE" ] || cp new "$file"
    rm new
done
echo "1..$t"
exit "$failed"
