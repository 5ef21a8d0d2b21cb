#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Our attention for Hopper beside FlashAttention-4's and cuDNN's: hot, in one process, on one
GPU, causal, bf16, random data.

    make bench/libattention.so
    attention.py [options] [ROW...]

A ROW is SEQUENCES,TOKENS,HEADS/KEY_HEADS,HEAD_SIZE[,WINDOW[,QUERIES[,DROPOUT]]], by default
those of ROWS below. QUERIES are the last ones of a row of keys, as in generation (0: all);
DROPOUT is the part of the probabilities that is dropped.
A pass is repeated until the GPU is hot, then for --seconds; sides follow each other, first
with the forward pass, then with the backward pass. Prints milliseconds a pass, TFLOP/s of
pairs that are seen (4 D FLOPs a pair forward, 10 D backward; for fewer than 64 queries GB/s of
keys and values) with watts and MHz in the second
half, and ratios of the time of both passes together.

FlashAttention-4 is the package flash-attn-4. It compiles kernels at run time:
FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED=1 keeps them.
--check compares all sides with attention in double, at 1111 tokens or those of the ROW.
"""
import argparse
import ctypes
import threading
import time

import torch

ROWS = """
1,8192,16/16,128 1,32768,16/16,128 1,131072,16/16,128 1,1048576,2/2,128
1,8192,32/8,128 1,32768,32/8,128 1,131072,32/8,128 1,1048576,4/1,128
1,8192,16/16,64 1,32768,16/16,64 1,131072,16/16,64 1,1048576,4/4,64
1,8192,32/8,64 1,32768,32/8,64 1,131072,32/8,64
1,8192,16/8,256 1,65536,16/8,256
1,131072,16/16,128,1024 1,131072,16/16,128,8192
8,2048,16/16,128
""".split()


class Row:
    def __init__(self, text):
        self.text = text
        words = text.replace("/", ",").split(",")
        words += ["0"] * (8 - len(words))
        self.B, self.S, self.A, self.G, self.D, self.window = map(int, words[:6])
        self.queries, self.dropout = int(words[6]) or self.S, float(words[7])

    def pairs(self):
        w = min(self.window or self.S, self.S)
        up_to = lambda n: min(n, w) * (min(n, w) + 1) / 2 + max(n - w, 0) * w
        return self.B * self.A * (up_to(self.S) - up_to(self.S - self.queries))

    def key_bytes(self):
        return 4 * self.B * self.S * self.G * self.D


class Data:
    """Tensors [B, S, heads, D] of a row. Sides write o, lse, and dq, dk and dv."""

    def __init__(self, row):
        make = lambda *heads: torch.randn(
            row.B, *heads, row.D, dtype=torch.bfloat16, device="cuda"
        )
        self.q, self.do = make(row.queries, row.A), make(row.queries, row.A)
        self.k, self.v = make(row.S, row.G), make(row.S, row.G)
        self.scale = row.D**-0.5
        self.o = self.lse = self.grads = None


class Shape(ctypes.Structure):
    """As in bench/attention_library.c."""

    _fields_ = [
        (n, ctypes.c_int64) for n in ("B", "S", "A", "G", "D", "window", "queries", "plain")
    ]
    _fields_ += [("scale", ctypes.c_double), ("dropout", ctypes.c_double)]


class Mds:
    def __init__(self, path, repeatable=False, plain=False):
        self.library, self.repeatable = ctypes.CDLL(path), repeatable
        self.plain = plain

    def call(self, name, *arguments):
        self.library.bench_attention_repeatable(int(self.repeatable))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = getattr(self.library, name)(stream, *arguments)
        if code:
            raise RuntimeError(f"{name} returned {code}")

    def start(self, row, x):
        sizes = row.B, row.S, row.A, row.G, row.D, row.window, row.queries
        self.shape = Shape(*sizes, int(self.plain), x.scale, row.dropout)
        x.o = torch.empty_like(x.q)
        x.lse = torch.empty(row.B, row.A, row.queries, device="cuda")
        self.delta = torch.empty_like(x.lse)
        x.grads = [torch.empty_like(t) for t in (x.q, x.k, x.v)]

    def forward(self, row, x):
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x.q, x.k, x.v, x.o, x.lse)]
        self.call("bench_attention_fwd", ctypes.byref(self.shape), *pointers)

    def backward(self, row, x):
        tensors = [t.data_ptr() for t in (x.q, x.k, x.v, x.o, x.do, *x.grads)]
        pointers = (ctypes.c_void_p * 8)(*tensors)
        rows = [ctypes.c_void_p(t.data_ptr()) for t in (x.lse, self.delta)]
        self.call("bench_attention_bwd", ctypes.byref(self.shape), pointers, *rows)


class Fa4:
    def __init__(self):
        from flash_attn.cute import interface

        self.calls = interface

    def start(self, row, x):
        if row.dropout:
            raise RuntimeError("no dropout")
        left, right = (row.window - 1, 0) if row.window else (None, None)
        self.how = {
            "softmax_scale": x.scale,
            "causal": not row.window,
            "window_size_left": left,
            "window_size_right": right,
        }

    def forward(self, row, x):
        x.o, x.lse = self.calls._flash_attn_fwd(x.q, x.k, x.v, return_lse=True, **self.how)[:2]

    def backward(self, row, x):
        x.grads = self.calls._flash_attn_bwd(x.q, x.k, x.v, x.o, x.do, x.lse, **self.how)[:3]


class Cudnn:
    """PyTorch's operators; key heads that several query heads share are not repeated."""

    def start(self, row, x):
        if row.window:
            raise RuntimeError("no windows")
        if 1 < row.queries < row.S:
            raise RuntimeError("no last queries")
        self.x = [t.transpose(1, 2).detach().requires_grad_() for t in (x.q, x.k, x.v)]
        self.shared = row.A > row.G

    def forward(self, row, x):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            self.o = torch.nn.functional.scaled_dot_product_attention(
                *self.x,
                dropout_p=row.dropout,
                is_causal=row.queries > 1,
                enable_gqa=self.shared,
            )
        x.o = self.o.detach().transpose(1, 2)

    def backward(self, row, x):
        do = x.do.transpose(1, 2)
        grads = torch.autograd.grad(self.o, self.x, do, retain_graph=True)
        x.grads = [t.transpose(1, 2) for t in grads]


class Meter(threading.Thread):
    """Watts and MHz, while it runs."""

    def __init__(self):
        super().__init__(daemon=True)
        self.seen, self.running = [], True

    def run(self):
        while self.running:
            self.seen.append((torch.cuda.power_draw() / 1e3, torch.cuda.clock_rate()))
            time.sleep(0.02)

    def stop(self):
        self.running = False
        self.join()
        half = self.seen[len(self.seen) // 2 :]
        return [sum(x[i] for x in half) / max(len(half), 1) for i in (0, 1)]


def loop(call, seconds):
    """Repeat for that long. Returns seconds a call."""
    done, total, n = 0, 0.0, 1
    while total < seconds or done == 0:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(n):
            call()
        end.record()
        end.synchronize()
        last = begin.elapsed_time(end) / 1e3
        done, total = done + n, total + last
        n = max(1, min(int(n * 0.1 / max(last, 1e-4)), 500))
    return total / done


def captured(call, n=10):
    """n calls as one graph."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(n):
            call()
    return graph.replay, n


def measure(call, seconds, graphs):
    call()
    torch.cuda.synchronize()
    call, n = captured(call) if graphs else (call, 1)
    loop(call, seconds / 2)
    meter = Meter()
    meter.start()
    each = loop(call, seconds) / n
    return each, *meter.stop()


def reference(row, x):
    """o, dq, dk and dv in double, head by head."""
    out = [torch.empty_like(t, dtype=torch.float64) for t in (x.q, x.q, x.k, x.v)]
    j = torch.arange(row.S, device="cuda")
    i = j[row.S - row.queries :, None]
    seen = i >= j
    if row.window:
        seen &= i < j + row.window
    for b in range(row.B):
        for g in range(row.G):
            heads = range(g * row.A // row.G, (g + 1) * row.A // row.G)
            k, v = (t[b, :, g].double().requires_grad_() for t in (x.k, x.v))
            for h in heads:
                q = x.q[b, :, h].double().requires_grad_()
                p = (q @ k.T * x.scale).masked_fill(~seen, float("-inf")).softmax(-1)
                o = p @ v
                o.backward(x.do[b, :, h].double())
                out[0][b, :, h], out[1][b, :, h] = o.detach(), q.grad
            out[2][b, :, g], out[3][b, :, g] = k.grad, v.grad
    return out


def check(row, sides):
    if row.queries == row.S:
        row.S = row.queries = min(row.S, 1111)
    x = Data(row)
    right = reference(row, x)
    for name, side in sides.items():
        try:
            side.start(row, x)
            side.forward(row, x)
            side.backward(row, x)
        except RuntimeError as e:
            print(f"{row.text:28}{name:8}{e}")
            continue
        errors = [
            ((a.double() - b).norm() / b.norm()).item()
            for a, b in zip((x.o, *x.grads), right)
        ]
        print(f"{row.text:28}{name:8}" + "".join(f"  {e:.2e}" for e in errors), flush=True)


def tell(name, each, watts, mhz, flops, key_bytes):
    rate = f"{flops / each / 1e12:4.0f}"
    if key_bytes:
        rate = f"{key_bytes / each / 1e9:5.0f} GB/s"
    return f"{name} {each * 1e3:9.4f} ms {rate} ({watts:3.0f} W, {mhz:4.0f} MHz)"


def compare(row, sides, passes, seconds, graphs):
    x, both, kept = Data(row), {}, {}
    flops, key_bytes = 4 * row.D * row.pairs(), row.key_bytes() if row.queries < 64 else 0
    for what, factor in (("forward", 1), ("backward", 2.5)):
        for name, side in sides.items():
            try:
                if what == "forward":
                    side.start(row, x)
                else:
                    x.o, x.lse, x.grads = kept[name]
                if what in passes:
                    figures = measure(lambda: getattr(side, what)(row, x), seconds, graphs)
                else:
                    side.forward(row, x)
            except (RuntimeError, KeyError) as e:
                print(f"{row.text:28}{what:9}{name}: {str(e).splitlines()[0][:60]}")
                continue
            kept[name] = x.o, x.lse, x.grads
            if what not in passes:
                continue
            both[name] = both.get(name, 0) + figures[0]
            print(f"{row.text:28}{what:9}" + tell(f"{name:8}", *figures, factor * flops, key_bytes), flush=True)
    first = next(iter(sides))
    ratios = [f"{both[n] / both[first]:.3f} of {n}" for n in both if n != first]
    print(f"{row.text:28}{first} has the speed of " + ", ".join(ratios), flush=True)


def main():
    p = argparse.ArgumentParser(usage="attention.py [options] [ROW...]")
    p.add_argument("rows", nargs="*", default=ROWS)
    p.add_argument("--library", default="bench/libattention.so", help="built by make")
    p.add_argument("--sides", default="mds,fa4,cudnn", help="of mds, plain, repeatable, fa4, cudnn")
    p.add_argument("--passes", default="forward,backward")
    p.add_argument("--seconds", type=float, default=1.0, help="a loop takes (1)")
    p.add_argument("--graphs", action="store_true", help="no host time: calls in CUDA graphs")
    p.add_argument("--check", action="store_true", help="compare with double instead")
    o = p.parse_args()
    make = {
        "mds": lambda: Mds(o.library),
        "repeatable": lambda: Mds(o.library, True),
        "plain": lambda: Mds(o.library, plain=True),
        "fa4": Fa4,
        "cudnn": Cudnn,
    }
    # a name or NAME=LIBRARY, to compare builds
    sides = {
        s.split("=")[0]: Mds(s.split("=")[1]) if "=" in s else make[s]()
        for s in o.sides.split(",")
    }
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
          f"cuDNN {torch.backends.cudnn.version()}", flush=True)
    for text in o.rows:
        row = Row(text)
        check(row, sides) if o.check else compare(row, sides, o.passes, o.seconds, o.graphs)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
