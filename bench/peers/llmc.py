#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Another peer for bench/gpu: llm.c's train_gpt2cu on one GPU, built from its sources.

    LLMC=DIR CUDNN_FRONTEND=DIR llmc.py MODEL TRY...

LLMC is a checkout of github.com/karpathy/llm.c; it is copied, not changed. If CUDNN_FRONTEND
is a checkout of github.com/NVIDIA/cudnn-frontend, attention is cuDNN's, otherwise llm.c's
own. The program is built in LLMC_BUILD (default: a folder in the temporary directory) and
used again by the next call. MODEL is llm.c's descriptor: d12 is GPT-2 with 124M parameters,
d48 with 1.5B. A TRY is a list of settings, such as 16,r1: sequences per step, and r0, r1 or
r2 (recompute nothing, GELU, or GELU and norms).

bf16 with fp32 master weights (llm.c's default). Prints a JSON line for each TRY as it ends,
with the times that llm.c prints.
"""
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

STEPS, WARMUP, SEQ = 10, 4, 1024
STEP = re.compile(r"^step +(\d+)/.*loss ([\d.]+).*\| ([\d.]+) ms \|.*")
MEMORY = re.compile(r"^device memory usage: (\d+) MiB")
SHAPES = {"d12": (12, 768), "d24": (24, 1024), "d36": (36, 1280), "d48": (48, 1600)}


def fix_for_cuda_13(folder):
    """Replace the form of cudaMemAdvise that CUDA 13 no longer has."""
    path = os.path.join(folder, "llmc", "cuda_utils.cuh")
    with open(path) as f:
        text = f.read()
    place = "cudaMemLocation{cudaMemLocationTypeHost, 0}"
    lines = [
        line.replace("cudaCpuDeviceId", place) if "cudaMemAdvise(" in line else line
        for line in text.splitlines(keepends=True)
    ]
    with open(path, "w") as f:
        f.write("".join(lines))


def library_folders():
    """Folders that may have the driver's libraries and cuDNN: the system's, the toolkit's,
    and those of PyTorch's wheels."""
    nvcc = shutil.which("nvcc")
    toolkit = os.path.join(os.path.dirname(nvcc), "..", "lib64") if nvcc else "/usr/lib"
    wheels = [os.path.join(p, "nvidia", "cudnn", "lib") for p in sys.path]
    system = ["/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    return [p for p in [toolkit, *system, *wheels] if os.path.isdir(p)]


def name_for_linker(folder):
    """Make the lib*.so links that the linker needs; drivers and wheels lack them."""
    wanted = {"nvidia-ml": 1, "cuda": 1, "cudnn": 9}
    for name, version in wanted.items():
        for place in library_folders():
            path = os.path.join(place, f"lib{name}.so.{version}")
            if os.path.exists(path):
                os.symlink(path, os.path.join(folder, f"lib{name}.so"))
                break


def environment(folder):
    """The environment of make and of the program."""
    env = dict(os.environ)
    folders = library_folders()
    headers = [os.path.join(p, "..", "include") for p in folders if "cudnn" in p]
    stubs = [os.path.join(p, "stubs") for p in folders]
    for name, more in (
        ("LIBRARY_PATH", [folder, *stubs]),
        ("LD_LIBRARY_PATH", folders),
        ("CPATH", headers),
    ):
        env[name] = ":".join([*more, *filter(None, [env.get(name)])])
    return env


def compute_capability():
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    out = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    return out.split()[0].replace(".", "")


def cuda_major():
    out = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    return int(re.search(r"release (\d+)", out).group(1))


def build(folder):
    """Build train_gpt2cu in the folder; returns which attention it has."""
    program = os.path.join(folder, "train_gpt2cu")
    frontend = os.environ.get("CUDNN_FRONTEND")
    attention = "cuDNN" if frontend else "its own"
    if os.path.exists(program):
        return program, attention
    shutil.copytree(os.environ["LLMC"], folder, dirs_exist_ok=True)
    if cuda_major() >= 13:
        fix_for_cuda_13(folder)
    name_for_linker(folder)
    make = ["make", "train_gpt2cu", "CI=true", "CC=gcc", "NO_MULTI_GPU=1", "NO_USE_MPI=1"]
    make += [f"GPU_COMPUTE_CAPABILITY={compute_capability()}"]
    env = environment(folder)
    if frontend:  # its Makefile looks for cudnn-frontend below HOME
        env["HOME"] = os.path.join(folder, "home")
        os.makedirs(env["HOME"], exist_ok=True)
        link = os.path.join(env["HOME"], "cudnn-frontend")
        if not os.path.lexists(link):
            os.symlink(os.path.abspath(frontend), link)
        make += ["USE_CUDNN=1", "NVCC_LDLIBS=-lnvrtc -lcuda"]
    done = subprocess.run(make, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        errors = [s for s in done.stderr.splitlines() if "error" in s or "undefined" in s]
        sys.exit(f"llmc.py: make failed: {(errors or [done.stderr[-300:]])[0]}")
    return program, attention


def write_tokens(path, count=1 << 20):
    tokens = bytearray(random.Random(1).randbytes(2 * count))
    tokens[1::2] = tokens[1::2].translate(bytes(i % 196 for i in range(256)))  # < 50257
    with open(path, "wb") as f:
        f.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
        f.write(tokens)


def causal_flops(model, tokens):
    """FLOPs as mds counts them (src/metrics/flops.h)."""
    layers, hidden = SHAPES[model]
    products = layers * 12 * hidden**2 + 50304 * hidden
    return 6 * products * tokens + 6 * layers * hidden * SEQ * tokens


def words_of(text):
    batch, recompute = 1, "1"
    for word in text.split(","):
        if word.isdigit():
            batch = int(word)
        elif re.fullmatch("r[012]", word):
            recompute = word[1]
        else:
            sys.exit(f"llmc.py: unknown setting {word} in a TRY")
    return batch, recompute


def follow(process):
    """Returns the milliseconds of each step, memory in GiB, the time when the first step
    ended, the last loss, and the last line of output."""
    times, used, first, loss, line = [], None, None, None, ""
    for line in process.stdout:
        if m := MEMORY.match(line):
            used = int(m.group(1)) / 1024
        if m := STEP.match(line):
            first = first or time.time()
            times.append(float(m.group(3)))
            loss = float(m.group(2))
    return times, used, first, loss, line.strip()


def attempt(program, model, text, tokens):
    batch, recompute = words_of(text)
    command = ["stdbuf", "-oL", program, "-i", tokens, "-j", tokens, "-e", model]
    command += ["-b", str(batch), "-t", str(SEQ), "-r", recompute, "-l", "1e-4", "-c", "0.1"]
    command += ["-x", str(STEPS + WARMUP), "-v", "1000000", "-m", "1", "-s", "0", "-h", "0"]
    begun = time.time()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(os.path.dirname(program)),
    )
    times, used, first, loss, last = follow(process)
    record = {"try": text, "micro_batch": batch, "gpus": 1}
    if process.wait() or len(times) < STEPS + WARMUP:
        return record | {"error": f"{len(times)} steps, then: {last[:150]}"}
    timed = [t / 1e3 for t in times[-STEPS:]]
    step = statistics.median(timed)
    return record | {
        "step_s": step,
        "step_min_s": min(timed),
        "step_max_s": max(timed),
        "steps": STEPS,
        "tokens_per_s_per_gpu": batch * SEQ / step,
        "causal_tflops_per_gpu": causal_flops(model, batch * SEQ) / step / 1e12,
        "first_step_s": first - begun,
        "loss": loss,
        "used_gib": used,
    }


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in SHAPES or "LLMC" not in os.environ:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as work:
        folder = os.environ.get("LLMC_BUILD", os.path.join(work, "build"))
        program, attention = build(os.path.abspath(folder))
        tokens = os.path.join(work, "tokens.bin")
        write_tokens(tokens)
        for text in sys.argv[2:]:
            record = attempt(program, sys.argv[1], text, tokens)
            print(json.dumps(record | {"attention": attention}), flush=True)


if __name__ == "__main__":
    main()
