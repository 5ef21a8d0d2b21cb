#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_track: a run in Weights & Biases, MLflow, TensorBoard, CSV'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"
unset WANDB_PROJECT MLFLOW_TRACKING_URI
track=$srcdir/scripts/mds_track
command -v python3 >/dev/null && test_set_prereq PYTHON

# Stand-ins for the packages: they write down how they are called.
mkdir -p fake/mlflow runs/one && cat >fake/wandb.py <<'END'
def note(*words):
    with open("calls", "a") as f:
        print(*words, file=f)
class Run:
    def __init__(self):
        self.config = self.summary = self
    def update(self, values, **_):
        note("update", sorted(values.items()))
    def log(self, values, step):
        note("log", step, sorted(values.items()))
    def finish(self):
        note("finish")
def init(**given):
    note("init", sorted(given.items()))
    return Run()
END
cat >fake/mlflow/__init__.py <<'END'
from types import SimpleNamespace
from wandb import note
def start_run(**given):
    note("start", given)
    return SimpleNamespace(info=SimpleNamespace(run_id="id7"))
def __getattr__(name):
    return lambda *given, **named: note(name, *given, named)
END
cat >runs/one/run.yaml <<'END'
name: "one"
written: "2026-11-27T05:26:17Z"
asked: "--lr 1e-3"
END
cat >runs/one/metrics.jsonl <<'END'
{"event":"run","wall_time_s":1,"parameters":31616,"ranks":2,"model_size_key":null}
{"event":"step","wall_time_s":2,"iteration":1,"lm_loss":4.5,"grad_norm":null,"lm_loss_ecoli:repeat":3}
{"event":"step","wall_time_s":3,"iteration":2,"lm_loss":4.25}
{"event":"eval","wall_time_s":4,"split":"validation","iteration":2,"lm_loss":4.125}
{"event":"step","iter
END
echo '{"v":1,"time":5,"event":"finished","reason":"iterations","training_loss":4.25,"validation_loss":4.125}' >runs/one/events.jsonl

test_expect_success PYTHON '--version is that of the programs' '
    "$track" --version >got && echo "mds_track $(mds_data --version | sed -n "1s/.* //p")" >want && test_cmp want got
'
test_expect_success PYTHON 'CSV: a row for each run, the newest of a name' '
    cp -r runs/one runs/two && "$track" --csv runs.csv runs/one && "$track" --csv runs.csv runs/two/ && "$track" --csv runs.csv runs/one && cat runs.csv &&
    python3 -c "import csv; print(*[(r[\"run\"], r[\"asked\"], r[\"parameters\"], r[\"iteration\"], r[\"lm_loss\"], r[\"validation/lm_loss\"], r[\"state\"]) for r in csv.DictReader(open(\"runs.csv\"))], sep=\"\\n\")" >got &&
    cat >want <<-END && test_cmp want got
	(${q=$(printf "\047")}two$q, $q--lr 1e-3$q, ${q}31616$q, ${q}2$q, ${q}4.25$q, ${q}4.125$q, ${q}finished$q)
	(${q}one$q, $q--lr 1e-3$q, ${q}31616$q, ${q}2$q, ${q}4.25$q, ${q}4.125$q, ${q}finished$q)
	END
'
test_expect_success PYTHON 'Weights & Biases: settings, steps, evaluations, end' '
    rm -f calls && WANDB_PROJECT=genomes PYTHONPATH=fake "$track" runs/one && cat calls &&
    grep "^init .*one-20261127052617.*genomes.*allow" calls && grep "^update .*31616" calls && grep "^log 1 .*lm_loss., 4.5" calls &&
    grep "^log 2 .*validation/lm_loss., 4.125" calls && test_must_fail grep "grad_norm" calls && tail -n 1 calls | grep -x finish &&
    grep "update.*state.*finished.*training_loss., 4.25" calls
'
test_expect_success PYTHON 'MLflow: a later job goes on with the same run, and sends no step twice' '
    rm -f calls && MLFLOW_TRACKING_URI=file:x PYTHONPATH=fake "$track" runs/one && cat calls && grep "^set_tracking_uri file:x" calls && grep "^start .*one" calls &&
    grep "^log_metrics .*lm_loss_ecoli_repeat.: 3.*step.: 1" calls &&
    sed -i "s/^{\"event\":\"step\",\"iter$/{\"event\":\"step\",\"iteration\":3,\"lm_loss\":4}/" runs/one/metrics.jsonl &&
    rm calls && MLFLOW_TRACKING_URI=file:x PYTHONPATH=fake "$track" runs/one && cat calls && grep "^start .*run_id.*id7" calls &&
    grep "^log_metrics .*step.: 3" calls && test_must_fail grep "^log_metrics .*step.: 1" calls
'
test_expect_success PYTHON 'it follows a process, and steps that come while it looks' '
    rm -f calls && cp -r runs/two runs/live && sleep 7 & PYTHONPATH=fake "$track" --follow $! --wandb p runs/live & sleep 2
    echo "\"}" >>runs/live/metrics.jsonl && echo "{\"event\":\"step\",\"iteration\":9,\"lm_loss\":1}" >>runs/live/metrics.jsonl
    wait && cat calls && grep "^log 9" calls && test "$(grep -c "^log 1 " calls)" -eq 1 && tail -n 1 calls | grep finish
'
test_expect_success PYTHON 'errors are a line each' '
    test_expect_code 1 "$track" --csv x nowhere 2>err && grep "nowhere: no such folder" err && test "$(wc -l <err)" -eq 1 &&
    test_expect_code 1 "$track" runs/one 2>err && grep "nothing to write to" err && test "$(wc -l <err)" -eq 1 &&
    echo "import none_such" >fake/wandb.py && test_expect_code 1 env PYTHONPATH=fake "$track" --wandb p runs/one 2>err && grep "none_such.*pip install" err
'
# The package itself, where it is installed.
test_expect_success PYTHON 'Weights & Biases without a network' '
    if "${PYTHON_WANDB:=python3}" -c "import wandb" 2>err; then
        WANDB_MODE=offline WANDB_DIR=$PWD WANDB_SILENT=true "$PYTHON_WANDB" "$track" --wandb p runs/two && ls wandb/offline-run-*-two-20261127052617/*.wandb
    fi
'
test_expect_success 'job scripts start it where a project is named' '
    MACHINE=h200 MODEL_SIZE_KEY=GPT1_3B SEQ_LEN=2048 DATA_PATH=x.h5 TRAIN_ITERS=5 mds_launch submit batch 1 1:00:00 me --print >job.sh &&
    grep -A1 "WANDB_PROJECT\$MLFLOW_TRACKING_URI" job.sh | grep "mds_track --follow \$pid"
'

test_expect_success PYTHON 'a tracker that fails is a line, and the others go on' '
    mkdir -p broken/mlflow && echo "def set_tracking_uri(uri): raise RuntimeError(\"no such store: \" + uri + chr(10) + str(1))" >broken/mlflow/__init__.py &&
    PYTHONPATH=broken "$track" --mlflow file:x --csv left.csv runs/one 2>err && echo "mds_track: MLflow: file:x: no such store: file:x" >want && test_cmp want err &&
    grep "^one," left.csv && test_expect_code 1 env PYTHONPATH=broken "$track" --mlflow file:x runs/one 2>err && test_cmp want err
'

test_done
