#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Estimate an upper bound of tokens per second on this GPU, from rates measured on it.

    ceiling.py --layers L --hidden H --heads A --seq S --micro-batch B ...
    torchrun --standalone --nproc-per-node N ceiling.py ...

The bound is the sum of
  - GEMMs, forward and backward, each shape at its measured rate; with --fp8, those of the
    blocks at FP8's rate, and casts count as 0;
  - causal attention, forward and backward, measured with its shape;
  - all other bytes at the speed of a copy within the device: norms, residual sums, GELU's
    saved input, embedding, loss, optimizer; each operand is read and written once, as
    perfectly fused kernels would do;
  - with several GPUs, the communication that data parallelism cannot overlap, measured: the
    last layer's gradients are reduced and the first layer's weights gathered;
  - what --recompute computes again: norms and the GEMMs of q k v, output and the first of
    the MLP (the result of the second is not needed), and with full also attention.
Kernel launches, the host and idle times count as 0.

--rates FILE: lines "product ROWS IN OUT FORWARD INPUT WEIGHT", "fp8-product" the same and
"attention B S HEADS DIM FORWARD BACKWARD" (seconds, as bench/kernels prints them); of these
and PyTorch's times the shorter ones are used. FP8's are those of the file. Prints a JSON line.
Without a GPU it runs, but the rates mean nothing.
"""
import argparse
import json
import os
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
except ModuleNotFoundError as error:
    sys.exit(f"bench/ceiling.py: {error}; start it with a python3 that has PyTorch")

GPU = torch.cuda.is_available()
WARM_S, LAPS = 0.2, 25
HALF, SINGLE = 2, 4  # bytes


def warm_up(work):
    begun = time.perf_counter()
    while time.perf_counter() < begun + WARM_S:
        work()
        torch.cuda.synchronize()


def median_s(work, together=False):
    """Median seconds of work(), queued back to back. The GPU is kept busy first, because
    after idling it is faster for some milliseconds than in training. together: work() is
    collective, so all ranks call it equally often."""
    if not GPU:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun
    if together:
        for _ in range(LAPS):
            work()
    else:
        warm_up(work)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(LAPS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        work()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:])) / 1e3


def random(*shape):
    return torch.randn(*shape, dtype=torch.bfloat16)


def time_gemms(rows, wide, out):
    """Seconds of y = x w^T, dx = dy w and dw = dy^T x."""
    x, w, dy = random(rows, wide), random(out, wide), random(rows, out)
    y, dx, dw = torch.empty_like(dy), torch.empty_like(x), torch.empty_like(w)
    return [
        median_s(lambda: torch.mm(x, w.t(), out=y)),
        median_s(lambda: torch.mm(dy, w, out=dx)),
        median_s(lambda: torch.mm(dy.t(), x, out=dw)),
    ]


def attention(batch, seq, heads, dim):
    """Seconds of causal attention forward and backward; q k v are interleaved as the GEMM
    writes them."""
    qkv = random(batch, seq, 3, heads, dim).requires_grad_()
    q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
    run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = run()
    dy = torch.randn_like(y)
    back = lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)
    return [median_s(run), median_s(back)]


def copy_bytes_s():
    n = 2**30 if GPU else 2**20
    a, b = (torch.empty(n, dtype=torch.uint8) for _ in range(2))
    return 2 * n / median_s(lambda: b.copy_(a))


def exposed_s(layer_weights, ranks):
    """Seconds to reduce one layer's gradients (fp32) and gather its weights (bf16)."""
    if ranks == 1:
        return 0.0
    part = -(-layer_weights // ranks)
    whole, mine = torch.empty(part * ranks), torch.empty(part)
    reduce = median_s(lambda: dist.reduce_scatter_tensor(mine, whole), together=True)
    whole, mine = whole.bfloat16(), mine.bfloat16()
    gather = median_s(lambda: dist.all_gather_into_tensor(whole, mine), together=True)
    return reduce + gather


def read_rates(path):
    """{(kind, shape...): seconds}"""
    rates = {}
    if path:
        with open(path) as f:
            for words in map(str.split, f):
                if words and words[0] in ("product", "fp8-product", "attention"):
                    n = 5 if words[0] == "attention" else 4
                    key = (words[0], *map(int, words[1:n]))
                    rates[key] = [float(w) for w in words[n:]]
    return rates


def faster(mine, theirs):
    return [min(a, b) for a, b in zip(mine, theirs)] if theirs else mine


def fp8_rates(rates, shape):
    line = " ".join(map(str, ("fp8-product", *shape)))
    return rates.get(("fp8-product", *shape)) or sys.exit(f"--rates: no line {line}")


class Layer:
    """Seconds of a layer's GEMMs and attention."""

    def __init__(self, o, rates):
        rows, H = o.micro_batch * o.seq, o.hidden
        shapes = {
            "qkv": (rows, H, 3 * H),
            "out": (rows, H, H),
            "up": (rows, H, 4 * H),
            "down": (rows, 4 * H, H),
        }
        self.shapes = shapes
        if o.fp8:
            self.product = {name: fp8_rates(rates, s) for name, s in shapes.items()}
        else:
            self.product = {
                name: faster(time_gemms(*s), rates.get(("product", *s)))
                for name, s in shapes.items()
            }
        shape = (o.micro_batch, o.seq, o.heads, H // o.heads)
        theirs = rates.get(("attention", *shape))
        self.attention = faster(attention(*shape), theirs)

    def products_s(self):
        return sum(sum(t) for t in self.product.values())

    def again_s(self, recompute):
        if recompute == "none":
            return 0.0
        again = sum(self.product[name][0] for name in ("qkv", "out", "up"))
        return again + (self.attention[0] if recompute == "full" else 0)


def head_s(o, rates):
    """Seconds of the head's GEMMs, in tiles of at most 32768 rows."""
    rows = o.micro_batch * o.seq
    tile = min(rows, 32768)
    shape = (tile, o.hidden, o.vocab)
    return sum(faster(time_gemms(*shape), rates.get(("product", *shape)))) * rows / tile


def activation_bytes(o, recompute):
    """Bytes of a micro-batch outside of GEMMs and attention."""
    rows, H = o.micro_batch * o.seq, o.hidden
    norm_fwd = 4 * H  # x, branch -> sum, y
    norm_bwd = 4 * H  # dy, sum, residual's gradient -> dx
    # its input: written by one GEMM's epilogue, read by another's; FP8's GEMMs are timed as
    # they write it, and the epilogue would write codes, which count as 0
    gelu = (1 if o.fp8 else 2) * 4 * H
    layer = 2 * norm_fwd + 2 * norm_bwd + gelu
    if recompute != "none":
        layer += 2 * norm_fwd
    ends = norm_fwd + norm_bwd + 4 * H  # last norm; embedding forward and backward
    loss = 2 * o.vocab  # logits -> gradient, in place
    return rows * HALF * (o.layers * layer + ends + loss)


def optimizer_bytes(parameters, ranks):
    """Read the gradient for its norm; read gradient, weight and both moments; write weight,
    moments and the bf16 weight."""
    return parameters / ranks * (SINGLE + 4 * SINGLE + 3 * SINGLE + HALF)


def parameters_of(o):
    return o.layers * 12 * o.hidden**2 + (o.vocab + o.seq) * o.hidden


def causal_flops(o, tokens):
    products = o.layers * 12 * o.hidden**2 + o.vocab * o.hidden
    return 6 * products * tokens + 6 * o.layers * o.hidden * o.seq * tokens


def report(o, layer, head, copy, exposed, ranks):
    """The JSON record of the bound."""
    share = o.accumulate / o.split  # micro-batches that a GPU computes in a step
    tokens = o.micro_batch * o.seq * share
    parts = {
        "products_s": share * (o.layers * layer.products_s() + head),
        "attention_s": share * o.layers * sum(layer.attention),
        "recompute_s": share * o.layers * layer.again_s(o.recompute),
        "bytes_s": (
            share * activation_bytes(o, o.recompute)
            + optimizer_bytes(parameters_of(o), ranks)
        )
        / copy,
        "exposed_s": exposed,
    }
    step = sum(parts.values())
    rate = lambda name: 2 * float(torch.tensor(layer.shapes[name]).double().prod())
    tflops = {n: 3 * rate(n) / sum(t) / 1e12 for n, t in layer.product.items()}
    return {
        "ceiling_tokens_per_s_per_gpu": tokens / step,
        "ceiling_causal_tflops_per_gpu": causal_flops(o, tokens) / step / 1e12,
        "step_s": step,
        **parts,
        "product_tflops": {n: round(v, 1) for n, v in tflops.items()},
        "copy_bytes_s": copy,
        "micro_batch": o.micro_batch,
        "recompute": o.recompute,
    }


def options():
    p = argparse.ArgumentParser()
    for name in ("layers", "hidden", "heads", "seq", "micro-batch"):
        p.add_argument(f"--{name}", type=int, required=True)
    p.add_argument("--vocab", type=int, default=50304)
    p.add_argument("--accumulate", type=int, default=1, help="micro-batches a step")
    p.add_argument("--split", type=int, default=1, help="GPUs that share a micro-batch")
    p.add_argument("--recompute", choices=("none", "selective", "full"), default="none")
    p.add_argument("--fp8", action="store_true", help="the blocks' GEMMs are in FP8")
    p.add_argument("--rates", help="a file of rates measured elsewhere")
    return p.parse_args()


def main():
    o = options()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if GPU:
        torch.cuda.set_device(rank)
        torch.set_default_device(f"cuda:{rank}")
        for kind in ("flash", "mem_efficient", "math", "cudnn"):
            getattr(torch.backends.cuda, f"enable_{kind}_sdp")(kind == "cudnn")
    if ranks > 1:
        dist.init_process_group("nccl" if GPU else "gloo")
    exposed = exposed_s(12 * o.hidden**2, ranks)
    if rank == 0:
        rates = read_rates(o.rates)
        layer = Layer(o, rates)
        record = report(o, layer, head_s(o, rates), copy_bytes_s(), exposed, ranks)
        print(json.dumps(record), flush=True)
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
