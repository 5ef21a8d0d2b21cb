#!/bin/sh
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='jobs that mds_launch submits to a Slurm of two nodes'
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
test_expect_success '--chain: each job begins when the one before has ended' '
    launch_options="--chain 3" submit chain TRAIN_ITERS=20 &&
    test "$(wc -w <submitted)" -eq 4 && set -- $job && first=${1%,} last=$3 &&
    about $last | grep "^Dependency=afterany:${2%,}" &&
    becomes $last COMPLETED 60 && test "$(state $first)" = COMPLETED &&
    grep "jobs: \[$first, ${2%,}, $last\]" chain/TINY-64-2n/run.yaml
'
test_expect_success 'a sweep of four cells, and its report' '
    cat >sweep.yaml <<-END &&
	SEQ_LEN: [32, 64]
	MPSIZE: [1, 2]
	END
    MODEL_SIZE_KEY=TINY NGPU_PER_HOST=2 TRAIN_ITERS=5 mds_launch sweep --runs cells \
        --queue debug --job-nodes 1 --walltime 5min --project me sweep.yaml -- $tiny >out &&
    cat out && grep "4 of 4 cells submitted" out && all_end 60 &&
    mds_launch report cells && test "$(wc -l <cells/report.csv)" -eq 5 &&
    awk -F, "NR > 1 && (\$3 != 2 || \$5 != 5 || !(\$6 > 0 && \$9 > 0)) { exit 1 }" \
        cells/report.csv &&
    if command -v gnuplot; then
        grep "</svg>" cells/longest.svg && grep "</svg>" cells/speed.svg
    fi
'

test_done
