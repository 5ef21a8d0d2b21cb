#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write and read the records of bench/gpu and bench/longseq: a JSON line for each run.

    records.py tokens PREFIX            random tokens as Megatron's PREFIX.bin and .idx
    records.py mds STEPS.jsonl ...      the record of an mds_pretrain run, from its metrics
    records.py best FILE ROW WHO        the fastest try, and its options for ceiling.py
    records.py table FILE               the table of all rows in FILE
    records.py longseq FILE             the table of a FILE from bench/longseq

A record has "row" and "who" (mds, peer, llmc, ceiling); a failed run also has "error".
"""
import argparse
import json
import random
import statistics
import struct
import sys


def load(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.startswith("{")]


def write_tokens(prefix, count=1 << 22):
    tokens = bytearray(random.Random(1).randbytes(2 * count))
    tokens[1::2] = tokens[1::2].translate(bytes(i % 196 for i in range(256)))  # < 50257
    with open(prefix + ".bin", "wb") as f:
        f.write(tokens)
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 1, 2))
        f.write(struct.pack("<iqqq", count, 0, 0, 1))


def samples(path):
    """The whole numbers in a file; an empty list if there is no such file."""
    try:
        with open(path) as f:
            return [int(w) for w in f.read().split() if w.isdigit()]
    except OSError:
        return []


def memory(o):
    """In GiB: the peak memory in use on a GPU, and the growth of host memory in use."""
    gpu, host = samples(o.memory), samples(o.host)
    record = {"used_gib": max(gpu) / 1024} if gpu else {}
    if host:
        record["host_gib"] = (max(host) - host[0]) / 2**20
    return record


def mds(o):
    record = {"try": o.words, "started": o.started}
    events = load(o.steps)
    run = next(e for e in events if e["event"] == "run")
    steps = [e for e in events if e["event"] == "step"]
    last = min(o.last, len(steps) - 1) if o.partial else o.last
    if len(steps) <= last or last < 1:
        return record | {"error": f"only {len(steps)} of {o.last + 1} steps"}
    timed = [s["elapsed_s"] for s in steps[-last:]]
    step, ranks = statistics.median(timed), run["ranks"]
    tokens = run["global_batch_size"] * run["seq_length"] / ranks
    micro = run["micro_batch_size"] * run["data_parallel_size"]
    record |= {
        "micro_batch": run["micro_batch_size"],
        "accumulate": run["global_batch_size"] // micro,
        "recompute": run["recompute"],
        "replicas": run["data_parallel_size"],
        "gpus": ranks,
        "step_s": step,
        "step_min_s": min(timed),
        "step_max_s": max(timed),
        "steps": len(timed),
        "tokens_per_s_per_gpu": tokens / step,
        "causal_flops": run["causal_flops_per_step"],
        "megatron_flops": run["megatron_flops_per_step"],
        "causal_tflops_per_gpu": run["causal_flops_per_step"] / ranks / step / 1e12,
        "megatron_tflops_per_gpu": run["megatron_flops_per_step"] / ranks / step / 1e12,
        "first_step_s": steps[0]["wall_time_s"] - o.started,
        "loss": steps[-1]["lm_loss"],
        "version": run["version"],
    }
    return record | memory(o)


def of(records, row, who):
    return [r for r in records if r["row"] == row and r["who"] == who and "error" not in r]


def best(records, row, who):
    """The fastest try, at the median speed of its runs."""
    tries = {}
    for r in of(records, row, who):
        tries.setdefault(r["try"], []).append(r)
    if not tries:
        return None
    rate = {
        t: statistics.median(r["tokens_per_s_per_gpu"] for r in rs)
        for t, rs in tries.items()
    }
    fastest = max(rate, key=rate.get)
    first = tries[fastest][0]
    scale = rate[fastest] / first["tokens_per_s_per_gpu"]
    return first | {
        "tokens_per_s_per_gpu": rate[fastest],
        "causal_tflops_per_gpu": first["causal_tflops_per_gpu"] * scale,
        "first_step_s": min(r["first_step_s"] for r in tries[fastest]),
    }


def number(record, key, form):
    return form.format(record[key]) if record and record.get(key) is not None else "-"


def ratio(a, b, key="tokens_per_s_per_gpu", other=None):
    return f"{a[key] / b[other or key]:.2f}" if a and b else "-"


TITLES = (
    "row", "GPUs", "mds tok/s/GPU", "peer's", "mds/peer", "ceiling", "of ceiling",
    "mds TFLOP/s", "mds GiB", "peer GiB", "mds start s", "peer start s", "mds try", "peer try",
)  # fmt: skip


NAMES = {"peer": "PyTorch", "llmc": "llm.c"}


def line(records, row, who):
    a, b = best(records, row, "mds"), best(records, row, who)
    limits = of(records, row, "ceiling")
    c = limits[-1] if limits else None
    rate = "tokens_per_s_per_gpu"
    return (
        row, number(a or b, "gpus", "{}"), number(a, rate, "{:.0f}"),
        number(b, rate, "{:.0f}"), ratio(a, b), number(c, "ceiling_" + rate, "{:.0f}"),
        ratio(a, c, rate, "ceiling_" + rate), number(a, "causal_tflops_per_gpu", "{:.0f}"),
        number(a, "used_gib", "{:.1f}"), number(b, "used_gib", "{:.1f}"),
        number(a, "first_step_s", "{:.1f}"), number(b, "first_step_s", "{:.1f}"),
        number(a, "try", "{}"), number(b, "try", NAMES[who] + " {}"),
    )  # fmt: skip


def table(records):
    rows = list(dict.fromkeys(r["row"] for r in records))
    lines = [TITLES]
    for row in rows:
        seen = {r["who"] for r in records if r["row"] == row}
        whos = [who for who in NAMES if who in seen] or ["peer"]
        lines += [line(records, row, who) for who in whos]
    print_table(lines)
    print("\nevery run:")
    for r in records:
        if r["who"] == "ceiling" and "error" not in r:
            parts = {k: round(v * 1e3, 2) for k, v in r.items()
                     if k.endswith("_s") and k != "copy_bytes_s"}  # fmt: skip
            print(f"{r['row']} ceiling of {r['micro_batch']},{r['recompute']}: ms {parts},"
                  f" copy {r['copy_bytes_s'] / 1e12:.2f} TB/s, TFLOP/s {r['product_tflops']}")  # fmt: skip
        else:
            print(f"{r['row']} {r['who']} {r.get('try', '')}: {tail(r)}")


def tail(r):
    if "error" in r:
        return r["error"]
    return (
        f"{r['tokens_per_s_per_gpu']:.0f} tok/s/GPU, step {r['step_s'] * 1e3:.1f} ms"
        f" ({r['step_min_s'] * 1e3:.1f} to {r['step_max_s'] * 1e3:.1f}, {r['steps']} steps),"
        f" {r['causal_tflops_per_gpu']:.0f} TFLOP/s, {r.get('used_gib') or 0:.1f} GiB used"
        + (f", {r['allocated_gib']:.1f} allocated" if "allocated_gib" in r else "")
        + f", first step after {r['first_step_s']:.1f} s, loss {r['loss']:.3f}"
    )


# Measured on one H200, 2026-11: FLOP/s of such GEMMs, and of cuDNN's causal attention at 128k
# tokens, forward and backward, by head size.
PRODUCT_FLOPS = 700e12
ATTENTION_FLOPS = {
    64: (477e12, 431e12), 80: (397e12, 372e12), 96: (458e12, 432e12), 128: (655e12, 541e12)
}  # fmt: skip


def word_of(text, letter, end, default):
    """The number in one part of a try's name, such as k4 or a50%."""
    words = [w[1:].removesuffix(end) for w in text.split(",") if w[0] == letter]
    return next((int(w) for w in words if w.isdigit()), default)


def floor_s(r, layers):
    """Seconds of a step's GEMMs and attention alone, with those that recompute adds: three
    of a layer's four GEMMs; with full recompute also attention, unless it is saved (aN%);
    and the whole forward pass once more for blocks whose input is not saved (kN)."""
    tokens = r["seq"] * r["micro_batch"] * r["accumulate"] * r["replicas"]
    H, D = r["hidden"], r["hidden"] // r["heads"]
    again = r["recompute"] != "none"
    blocks = word_of(r["try"], "k", "", 1)
    more = (blocks - 1) / blocks  # forward once more
    products = tokens * (layers * H**2 * (72 + 16 * again + 24 * more) + 6 * r["vocab"] * H)
    near = min(ATTENTION_FLOPS, key=lambda d: abs(d - D))
    fwd, bwd = ATTENTION_FLOPS[near]
    kept = word_of(r["try"], "a", "%", 0) / 100 if r["recompute"] == "full" else 1
    passes = 2 - kept + more
    attention = 2 * layers * H * r["seq"] * tokens * (passes / fwd + 2.5 / bwd)
    return (products / PRODUCT_FLOPS + attention) / r["gpus"]


def along(runs, key, layers):
    """The value at this number of layers, on the line through the first and last run."""
    a, b = runs[0], runs[-1]
    if a["layers"] == b["layers"]:
        return b[key] if b["layers"] == layers else None
    slope = (b[key] - a[key]) / (b["layers"] - a["layers"])
    return a[key] + (layers - a["layers"]) * slope


LONG_TITLES = (
    "row", "GPUs", "tokens", "layers", "s/step", "floor s", "causal TFLOP/s/GPU", "Megatron's",
    "published", "ratio", "GPU GiB", "host GiB", "dry GPU", "dry host", "try",
)  # fmt: skip


def long_line(row, runs):
    """A row of the table: the whole model, measured or extrapolated."""
    r = runs[-1]
    whole = r["whole"]
    step = along(runs, "step_s", whole)
    if step and step < r["step_s"]:  # more layers were faster: runs are too short to tell
        step = None
    measured = ",".join(str(x["layers"]) for x in runs)
    cells = [row, str(r["gpus"]), str(r["seq"]), f"{measured} of {whole}"]
    if step:
        rate = [along(runs, k, whole) / step / r["gpus"] / 1e12
                for k in ("causal_flops", "megatron_flops")]  # fmt: skip
        published = r["published"]
        cells += [f"{step:.2f}", f"{floor_s(r, whole):.2f}", *(f"{x:.0f}" for x in rate)]
        cells += [str(published or "-"), f"{rate[1] / published:.2f}" if published else "-"]
    else:
        cells += ["-"] * 6
    need = (r["need"].split() + ["-", "-"])[:2]
    used = [number(r, "used_gib", "{:.1f}"), number(r, "host_gib", "{:.1f}")]
    return (*cells, *used, *need, r["try"])


def print_table(lines):
    widths = [max(len(cell) for cell in column) for column in zip(*lines)]
    for cells in lines:
        print("  ".join(c.rjust(w) for c, w in zip(cells, widths)))


def longseq(records):
    rows = {}
    for r in records:
        if r["who"] == "mds" and "error" not in r:
            rows.setdefault((r["row"], r["try"], r["seq"]), []).append(r)
    if rows:
        print_table([LONG_TITLES] + [long_line(k[0], runs) for k, runs in rows.items()])
        print("\nlayers: those measured, and of the whole model. The step time of the whole")
        print("model is extrapolated from the first and the last. GiB: the last run's, per")
        print("GPU and of all ranks on the host; dry: per rank, the whole model, by dry run.")
        print("\nevery run:")
    for r in records:
        if r["who"] == "longest":
            print(f"{r['row']}: longest {r['seq']} tokens on {r['gpus']} with {r['try']};"
                  f" GPU and host GiB of a rank: {r['need']}")  # fmt: skip
        else:
            layers = f"{r['layers']} layers, " if "layers" in r else ""
            print(f"{r['row']} {layers}{r['try']}: {tail(r)}")


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("verb", choices=("tokens", "mds", "best", "table", "longseq"))
    p.add_argument("file")
    p.add_argument("row", nargs="?")
    p.add_argument("who", nargs="?")
    p.add_argument("--words", default="", help="with mds: name of the try")
    p.add_argument("--started", type=float, default=0)
    p.add_argument("--memory", default="", help="with mds: nvidia-smi's samples, MiB")
    p.add_argument("--host", default="", help="with mds: the host's memory in use, KiB")
    p.add_argument("--partial", action="store_true", help="with mds: accept fewer steps")
    p.add_argument("--last", type=int, default=10, help="with mds: use the last N steps")
    o = p.parse_args()
    o.steps = o.file
    if o.verb == "tokens":
        write_tokens(o.file)
    elif o.verb == "mds":
        print(json.dumps(mds(o)))
    elif o.verb == "table":
        table(load(o.file))
    elif o.verb == "longseq":
        longseq(load(o.file))
    else:
        r = best(load(o.file), o.row, o.who)
        if not r:
            sys.exit(1)
        split = r["gpus"] // r.get("replicas", r["gpus"])
        print(r["try"], r["micro_batch"], r.get("accumulate", 1),
              r.get("recompute", "none"), split)  # fmt: skip


if __name__ == "__main__":
    main()
