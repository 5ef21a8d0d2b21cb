#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the time of each operation in a training step with its time when measured alone.

    account.py STEPS.jsonl RATES

STEPS.jsonl: --metrics-jsonl of a run with --profile, on one GPU or rank 0 of several.
RATES: lines as bench/kernels prints them: "product ROWS IN OUT FORWARD INPUT WEIGHT",
"attention B S HEADS DIM FORWARD BACKWARD" (seconds) and "copy BYTES_A_SECOND".

Prints for each operation and shape its time in a step, its time alone, and the difference.
The time alone of a GEMM is that of its shape, measured without bias and GELU on the same
machine, plus the bytes of bias and GELU at the speed of a copy. Operations that are neither
GEMMs nor attention count their bytes at the speed of a copy, once for each operand.
"""
import json
import sys

HALF, SINGLE = 2, 4  # bytes
DIRECTIONS = ("linear_fwd", "linear_bwd_input", "linear_bwd_weight")
ATTENTION = ("attention_fwd", "attention_bwd")


def read_rates(path):
    """Return {shape: seconds of each direction} of GEMMs, seconds of attention forward and
    backward, and bytes per second of a copy."""
    products, attention, copy = {}, None, None
    with open(path) as f:
        for words in map(str.split, f):
            if words[:1] == ["product"]:
                products[tuple(map(int, words[1:4]))] = [float(w) for w in words[4:]]
            elif words[:1] == ["attention"]:
                attention = [float(w) for w in words[5:]]
            elif words[:1] == ["copy"]:
                copy = float(words[1])
    if not copy:
        sys.exit(f"account.py: {path}: has no line 'copy BYTES_A_SECOND'")
    return products, attention, copy


def gemm_bytes(name, rows, wide, out):
    """Bytes of a GEMM's operands, without bias and GELU."""
    operands = rows * wide + rows * out
    if name == "linear_bwd_weight":
        return HALF * operands + SINGLE * wide * out
    return HALF * (operands + wide * out)


def gemm_alone_s(name, flops, nbytes, products, copy):
    """Seconds of one call; the mean if several shapes have the same FLOPs."""
    same = [s for s in products if abs(2 * s[0] * s[1] * s[2] - flops) <= 1e-6 * flops]
    if not same:
        return None
    seconds = [products[s][DIRECTIONS.index(name)] for s in same]
    plain = [gemm_bytes(name, *s) for s in same]
    more = max(0, nbytes - sum(plain) / len(plain))
    return sum(seconds) / len(seconds) + more / copy


def alone_s(row, rates):
    """Seconds of one call alone, None if its rate is not known."""
    products, attention, copy = rates
    flops, nbytes = row["flops"] / row["calls"], row["bytes"] / row["calls"]
    if row["name"] in DIRECTIONS:
        return gemm_alone_s(row["name"], flops, nbytes, products, copy)
    if row["name"] in ATTENTION:
        return attention[ATTENTION.index(row["name"])] if attention else None
    return nbytes / copy


def text(x, form):
    return "-" if x is None else format(x, form)


def line(row, total_s, rates):
    """Return an operation's cells in the table, and its seconds in a step and alone."""
    steps, calls = row["steps"], row["calls"]
    took, once = row["time_s"] / steps, alone_s(row, rates)
    alone = None if once is None else once * calls / steps
    lost = None if once is None else took - alone
    cells = (
        row["name"], text(calls / steps, ".0f"), text(row["flops"] / calls / 1e9, ".2f"),
        text(row["bytes"] / steps / 1e9, ".2f"), text(took * 1e3, ".3f"),
        text(alone and alone * 1e3, ".3f"), text(lost and lost * 1e3, ".3f"),
        text(lost and 100 * lost / total_s, ".2f"),
    )  # fmt: skip
    return cells, took, took if alone is None else alone


TITLES = (
    "operation", "calls", "GFLOP/call", "GB", "ms", "alone ms", "lost ms", "of step %",
)  # fmt: skip


def print_table(lines):
    widths = [max(len(cell) for cell in column) for column in zip(*lines)]
    for cells in lines:
        print("  ".join(c.rjust(w) for c, w in zip(cells, widths)))


def account(records, rates):
    steps = [r for r in records if r["event"] == "profile_step"]
    rows = [r for r in records if r["event"] == "profile_operation"]
    if not steps or not rows:
        sys.exit(f"account.py: {sys.argv[1]} has no profile; train with --profile and"
                 " --metrics-jsonl")  # fmt: skip
    mean = lambda key: sum(s[key] for s in steps) / len(steps)
    total = mean("total_s")
    lines = [line(r, total, rates) for r in rows]
    print_table([TITLES] + [cells for cells, _, _ in lines])
    took, alone = sum(t for _, t, _ in lines), sum(a for _, _, a in lines)
    print(f"step {total * 1e3:.2f} ms = alone {alone * 1e3:.2f}"
          f" + lost in operations {(took - alone) * 1e3:.2f}"
          f" + between them {(total - took) * 1e3:.2f}"
          f" (idle {mean('idle_s') * 1e3:.2f}, exposed {mean('exposed_comm_s') * 1e3:.2f});"
          f" copy {rates[2] / 1e9:.0f} GB/s")  # fmt: skip


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        records = [json.loads(s) for s in f if s.startswith("{")]
    account(records, read_rates(sys.argv[2]))


if __name__ == "__main__":
    main()
