#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Train a GPT with PyTorch on CPUs in fp32, written for speed: fused q k v GEMMs, the
fastest attention of this PyTorch version, foreach or fused AdamW, torch.compile on request.
bench/cpu compares it with mds_pretrain.

    torch_cpu.py train ...   prints tokens/s, the median step, and the settings used
    torch_cpu.py sgemm ...   prints GFLOP/s of a large GEMM, best of many
"""
import argparse
import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def attention_baddbmm(q, k, v):
    B, A, S, D = q.shape
    mask = attention_baddbmm.masks.get(S)
    if mask is None:
        mask = torch.full((S, S), -math.inf).triu(1)
        attention_baddbmm.masks[S] = mask
    q, k, v = (t.reshape(B * A, S, D) for t in (q, k, v))
    score = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=D**-0.5)
    return torch.bmm(score.softmax(-1), v).view(B, A, S, D)


attention_baddbmm.masks = {}


def attention_private(q, k, v):
    """PyTorch 1.13's name for what became scaled_dot_product_attention."""
    return torch._C._nn._scaled_dot_product_attention(
        q, k, v, None, 0.0, False, True
    )[0]


def attention_fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def fastest_attention(B, A, S, D):
    """The fastest of this PyTorch's attention functions, forward plus backward."""
    best = (math.inf, None)
    for f in (attention_fused, attention_private, attention_baddbmm):
        try:
            q, k, v = (torch.randn(B, A, S, D, requires_grad=True) for _ in range(3))
            for _ in range(4):
                start = time.perf_counter()
                f(q, k, v).sum().backward()
                took = time.perf_counter() - start
                best = min(best, (took, f), key=lambda x: x[0])
        except (AttributeError, TypeError, RuntimeError):
            continue
    return best[1]


class Block(nn.Module):
    def __init__(self, hidden, heads, attention):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        B, S, H = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, S, 3, self.heads, H // self.heads)
        y = self.attention(*qkv.permute(2, 0, 3, 1, 4))
        x = x + self.out(y.transpose(1, 2).reshape(B, S, H))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, o, attention):
        super().__init__()
        self.word = nn.Embedding(o.vocab, o.hidden)
        self.position = nn.Parameter(torch.zeros(o.seq, o.hidden))
        self.blocks = nn.ModuleList(
            Block(o.hidden, o.heads, attention) for _ in range(o.layers)
        )
        self.norm = nn.LayerNorm(o.hidden)
        for p in self.parameters():
            if p.ndim >= 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, token, target):
        x = self.word(token) + self.position
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.word.weight)  # tied head
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def make_adamw(parameters):
    for how in ({"fused": True}, {"foreach": True}, {}):
        try:
            adamw = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.1, **how)
            return adamw, " ".join(how) or "plain"
        except (TypeError, RuntimeError):
            continue
    raise RuntimeError("no AdamW")


def train(o):
    attention = fastest_attention(o.batch, o.heads, o.seq, o.hidden // o.heads)
    model = GPT(o, attention)
    parameters = list(model.parameters())
    adamw, how = make_adamw(parameters)
    run = torch.compile(model) if o.compile else model
    tokens = torch.randint(o.vocab, (o.batch, o.seq + 1))
    times = []
    for _ in range(o.steps + o.warmup):
        start = time.perf_counter()
        adamw.zero_grad(set_to_none=True)
        loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        adamw.step()
        loss.item()
        times.append(time.perf_counter() - start)
    rate = o.batch * o.seq / statistics.median(times[o.warmup :])
    compiled = ", compiled" if o.compile else ""
    print(
        f"{rate:.1f} PyTorch {torch.__version__}, {attention.__name__}, AdamW {how}"
        f"{compiled}, {sum(p.numel() for p in parameters)} parameters"
    )


def sgemm(o):
    n = 2048
    a, b, c = torch.randn(n, n), torch.randn(n, n), torch.empty(n, n)
    best = math.inf
    end = time.perf_counter() + o.seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(a, b, out=c)
        best = min(best, time.perf_counter() - start)
    print(f"{2 * n**3 / best / 1e9:.1f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=("train", "sgemm"))
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--hidden", type=int, default=320)
    p.add_argument("--heads", type=int, default=5)
    p.add_argument("--seq", type=int, default=512)
    p.add_argument("--vocab", type=int, default=128)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--compile", action="store_true")
    o = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(o.threads)
    if o.what == "train":
        train(o)
    else:
        with torch.no_grad():
            sgemm(o)


if __name__ == "__main__":
    main()
