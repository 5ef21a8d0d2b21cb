# SPDX-License-Identifier: BSD-3-Clause
"""ReFrame's tests of an installed mds: docs/install.md

    reframe -C tests/reframe/settings.py -c tests/reframe/mds.py -r

Sites give their own settings with -C, and add their tokens/s to Speed.reference.  mds is in PATH,
or the environment's modules bring it."""

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, performance_function, run_before, sanity_function, variable

MODEL = "--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128"
STEPS = "--micro-batch-size 2 --global-batch-size 8 --train-iters 12 --lr 2e-3 --eval-iters 0 --log-interval 1"


class Mds(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    time_limit = "10m"
    num_tasks = 2
    fasta = variable(str, value="lambda.fna.gz")
    options = variable(str, value="")  # a site's: --device cuda --bf16
    tags = {"mds"}
    sourcesdir = "../data"
    readonly_files = ["lambda.fna.gz"]

    @run_before("run")
    def set_tokens(self):
        self.prerun_cmds = [f"mds_data make --tokenizer codon --output tokens.h5 {self.fasta}"]

    def train(self, layout="", more=""):
        return (f"mds_pretrain --threads 1 --data-path tokens.h5 {MODEL} {STEPS} {self.options} {layout} "
                f"--metrics-jsonl run.jsonl {more}").split()


@rfm.simple_test
class Smoke(Mds):
    """Ranks find each other and train, and the loss falls."""

    @run_before("run")
    def set_command(self):
        self.executable, *self.executable_opts = self.train()

    @sanity_function
    def learns(self):
        loss = sn.extractall(r'"lm_loss":([0-9.]+)', "run.jsonl", 1, float)
        return sn.all([
            sn.assert_found(r"ranks 2 \(", self.stdout),
            sn.assert_ge(sn.count(loss), 12),
            sn.assert_lt(loss[11], loss[0]),
        ])


@rfm.simple_test
class Parity(Mds):
    """Two ranks of a layout have the losses of one rank: on CPUs to the bit, elsewhere to 1e-3."""

    layout = parameter(["data", "tensor", "pipeline", "ring"])
    tolerance = variable(float, value=0.0)

    @run_before("run")
    def set_command(self):
        flags = {
            "data": "",
            "tensor": "--tensor-model-parallel-size 2 --sequence-parallel",
            "pipeline": "--pipeline-model-parallel-size 2",
            "ring": "--context-parallel-size 2",
        }
        self.executable, *self.executable_opts = self.train(flags[self.layout])
        # The one rank: the launcher's command with 1 in place of 2 tasks.
        one = self.job.launcher.run_command(self.job).replace("-np 2", "-np 1").replace("-n 2", "-n 1")
        if "-n 1" not in one and "-np 1" not in one:
            one += " -n 1"  # srun takes the job's number of tasks
        alone = " ".join(self.train()).replace("run.jsonl", "one.jsonl")
        self.prerun_cmds += [f"{one} {alone} > one.out"]

    @sanity_function
    def same_losses(self):
        def losses(file):
            return sn.extractall(r'"lm_loss":([0-9.]+)', file, 1, float)

        one, two = losses("one.jsonl"), losses("run.jsonl")
        return sn.all([
            sn.assert_found(r"ranks 1 ", "one.out"),
            sn.assert_found(r"ranks 2 ", self.stdout),
            sn.assert_ge(sn.count(one), 12),
            sn.assert_eq(sn.count(one), sn.count(two)),
            sn.all(sn.map(lambda ab: sn.assert_lt(abs(ab[0] - ab[1]), self.tolerance + 1e-6), sn.zip(one, two))),
        ])


@rfm.simple_test
class Speed(Mds):
    """Tokens/s of the later half of the steps, beside what this system had."""

    num_tasks = 1
    tags = {"mds", "performance"}
    # system:partition -> (tokens/s, lower bound, upper bound, unit).  A site adds its own.
    reference = {"generic:default": {"tokens_per_s": (20000, -0.8, None, "tokens/s")}}

    @run_before("run")
    def set_command(self):
        self.executable, *self.executable_opts = self.train()

    @sanity_function
    def finishes(self):
        return sn.assert_found(r"^done: iteration 12 of 12", self.stdout)

    @performance_function("tokens/s")
    def tokens_per_s(self):
        rates = sn.extractall(r"tokens per second: *([0-9]+)", self.stdout, 1, float)
        return sn.avg(rates[6:12])


@rfm.simple_test
class Check(rfm.RunOnlyRegressionTest):
    """mds_launch check: the nodes of the job are alike and fit to train."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 1
    more = variable(str, value="")  # a site's: -- --device cpu
    executable = "mds_launch"
    tags = {"mds", "nodes"}

    @run_before("run")
    def without_launcher(self):  # it starts the ranks itself
        self.executable_opts = ["check", *self.more.split()]
        self.job.launcher = getlauncher("local")()

    @sanity_function
    def fit(self):
        return sn.all([
            sn.assert_found("preflight: no faults", self.stdout),
            sn.assert_not_found("mds: error", self.stderr),
        ])
