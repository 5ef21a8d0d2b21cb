#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='jobs that mds_launch submits to a Slurm of four nodes'
# shellcheck source=tests/slurm/setup.sh
. "${srcdir:?run by tests/slurm/run}/tests/slurm/setup.sh"

test_expect_success 'a job trains on both nodes, MPICH over pmi2, and its loss falls' '
    submit runs TRAIN_ITERS=60 && becomes $job COMPLETED 60 &&
    grep "^srun --mpi=pmi2 .*-N 2 -n 4 --ntasks-per-node=2" runs/TINY-64-2n/job-$job.log &&
    grep "ranks 4 " runs/TINY-64-2n/job-$job.log &&
    about $job | grep "^NodeList=n\[1-2\]" && about $job | grep "^TresPerNode=gres:gpu:4" &&
    losses runs/TINY-64-2n >got && test "$(wc -l <got)" -eq 60 && falls got &&
    grep "jobs: \[$job\]" runs/TINY-64-2n/run.yaml
'
test_expect_success '--chain: each job goes on where the one before left; one too many ends at once' '
    launch_options="--chain 4" submit chain TRAIN_ITERS=30 -- --exit-interval 10 &&
    set -- $(echo $job | tr -d ,) && test $# -eq 4 && about $4 | grep "^Dependency=afterany:$3" &&
    becomes $4 COMPLETED 60 && test "$(state $1) $(state $3)" = "COMPLETED COMPLETED" &&
    sed -n "/\"step\"/s/.*\"iteration\":\([0-9]*\),.*/\1/p" chain/TINY-64-2n/metrics.jsonl >got &&
    seq 30 >want && test_cmp want got &&
    grep "jobs: \[$1, $2, $3, $4\]" chain/TINY-64-2n/run.yaml
'
test_expect_success '--chain: the last job fails where the run is not done, and says so' '
    launch_options="--chain 2" submit short TRAIN_ITERS=30 -- --exit-interval 10 &&
    set -- $(echo $job | tr -d ,) && becomes $2 FAILED 60 && test "$(state $1)" = COMPLETED &&
    about $2 | grep "^ExitCode=85:" &&
    grep "go on with: mds_launch continue short/TINY-64-2n" short/TINY-64-2n/job-$2.log &&
    ! grep "last job of its chain" short/TINY-64-2n/job-$1.log
'
test_expect_success 'a sweep of four runs, and its report' '
    cat >sweep.yaml <<-END &&
	SEQ_LEN: [32, 64]
	MPSIZE: [1, 2]
	END
    MODEL_SIZE_KEY=TINY NGPU_PER_HOST=2 TRAIN_ITERS=5 mds_launch sweep --runs cells \
        --queue debug --job-nodes 1 --walltime 5min --project me sweep.yaml -- $tiny >out &&
    cat out && grep "4 of 4 runs submitted" out && all_end 60 &&
    mds_launch report cells && test "$(wc -l <cells/report.csv)" -eq 5 &&
    awk -F, "NR > 1 && (\$3 != 2 || \$5 != 5 || !(\$6 > 0 && \$9 > 0)) { exit 1 }" \
        cells/report.csv &&
    if command -v gnuplot; then
        grep "</svg>" cells/longest.svg && grep "</svg>" cells/speed.svg
    fi
'
if [ -r /usr/share/modules/init/bash ]; then
    test_set_prereq MODULES
fi
test_expect_success MODULES 'a job whose programs come with its module' '
    modules=$(mktemp -d) && mkdir "$modules/mds" &&
    make -s -C "$builddir" modulefiles/job bindir="$builddir/src/programs" \
        PACKAGE_VERSION=job MODULE_PREREQ= MODULE_CONFLICT= >log 2>&1 &&
    mv "$builddir/modulefiles/job" "$modules/mds/1.0" &&
    sed "s,^  init: .*,  init: \". /usr/share/modules/init/bash; module use $modules\"\\
  modules: mds/1.0," cluster.yaml >module.yaml &&
    MACHINE=$PWD/module.yaml && submit module TRAIN_ITERS=5 && becomes $job COMPLETED 60 &&
    grep -x "module load mds/1.0 || exit 1" module/TINY-64-2n/job.sh &&
    grep "^srun .* $builddir/src/programs/mds_pretrain " module/TINY-64-2n/job-$job.log
    status=$?
    rm -r "$modules"
    test $status -eq 0
'
test_expect_success MODULES 'a module that is not there: the job ends, and says so' '
    sed "s,^  init: .*,  init: . /usr/share/modules/init/bash\\
  modules: mds/9.9," cluster.yaml >gone.yaml &&
    MACHINE=$PWD/gone.yaml && submit gone TRAIN_ITERS=5 && becomes $job FAILED 60 &&
    grep "mds/9.9" gone/TINY-64-2n/job-$job.log && ! grep "^srun" gone/TINY-64-2n/job-$job.log
'

test_done
