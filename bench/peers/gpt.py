#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The peer for bench/gpu: a GPT in PyTorch, written for speed. torch.compile, cuDNN
attention, fused AdamW, bf16 with fp32 weights; FSDP2 on several GPUs.

    gpt.py [options] TRY...
    torchrun --standalone --nproc-per-node N gpt.py [options] TRY...

A TRY is a list of settings, such as 8,none,whole:
  8                        sequences per GPU and step
  none, selective, full    recompute nothing, blocks without attention, or blocks
  0.N                      let torch.compile save at most this part of the activations
  blocks, whole            compile each block, or the model as a whole
  cudnn, flash, fa4        attention; fa4: FlashAttention-4, the package flash-attn-4
  float8                   products of the blocks in FP8: torchao's recipe tensorwise
  keep, reshard            with several GPUs: keep weights gathered between forward and
                           backward, or not

The model is mds_pretrain's GPT: norms before the layers, biases, GELU (tanh), one matrix for
embedding and head. With --llama KV,FFN it is Llama: RMSNorm, SwiGLU of width FFN, KV
key/value heads, no biases, a separate head. The residual stream is bf16 as in mds; autocast
alone would leave it fp32 and make the peer a few percent slower. Gradients are summed over
GPUs in fp32. With --experts N,K the MLP is N of them, K for a token, multiplied by torch's
grouped_mm; no loss balances them.

float8 needs torchao beside torch. With --documents FILE rows hold several documents: a line of
FILE has the lengths of a row's documents, and FlexAttention keeps attention within each.

Prints a JSON line for each TRY as it ends. Without a GPU it runs on the CPU, as a test.
"""
import argparse
import contextlib
import functools
import gc
import json
import os
import statistics
import sys
import time

import torch
import torch._functorch.config as functorch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

GPU = torch.cuda.is_available()
ATTENTION = {
    "cudnn": torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    "flash": torch.ops.aten._scaled_dot_product_flash_attention.default,
    "fa4": None,  # an operator, once it is chosen
}
fa4 = None  # if it is the attention of this TRY


def make_fa4():
    """FlashAttention-4 as an operator that torch.compile leaves as it is: causal attention of
    q [B, S, A, D] and k, v [B, S, G, D]; returns o and the log-sum-exp."""
    from flash_attn.cute import interface

    Tensor = torch.Tensor

    @torch.library.custom_op("fa4::forward", mutates_args=())
    def forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = interface._flash_attn_fwd(q, k, v, causal=True, return_lse=True)[:2]
        return o, lse

    @forward.register_fake
    def _(q, k, v):
        B, S, A, _D = q.shape
        return q.new_empty(q.shape), q.new_empty((B, A, S), dtype=torch.float32)

    @torch.library.custom_op("fa4::backward", mutates_args=())
    def backward(
        do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        dq, dk, dv = interface._flash_attn_bwd(q, k, v, o, do, lse, causal=True)[:3]
        return dq, dk, dv

    @backward.register_fake
    def _(do, q, k, v, o, lse):
        return tuple(t.new_empty(t.shape) for t in (q, k, v))

    def save(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)

    def gradients(ctx, do, _dlse):
        return torch.ops.fa4.backward(do, *ctx.saved_tensors)

    forward.register_autograd(gradients, setup_context=save)
    return torch.ops.fa4.forward.default


def choose_attention(name):
    global fa4
    if name == "fa4" and ATTENTION[name] is None:
        ATTENTION[name] = make_fa4()
    fa4 = ATTENTION[name] if name == "fa4" else None
    for kind in ("flash", "mem_efficient", "math", "cudnn"):
        getattr(torch.backends.cuda, f"enable_{kind}_sdp")(kind == name)


def keep_attention(ctx, op, *args, **kwargs):
    """Policy of selective recompute: save only attention."""
    if op in ATTENTION.values():
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def rotate(x, table):
    """Rotate x [B, S, A, D] by table [S, D/2] (cosine, sine), in halves as NeoX does."""
    cos, sin = (t[None, :, None, :].to(x.dtype) for t in table)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def rotary_table(seq, head_dim, base, device):
    rate = base ** (-torch.arange(0, head_dim, 2, device=device) / head_dim)
    angle = torch.outer(torch.arange(seq, device=device).float(), rate)
    return angle.cos(), angle.sin()


def qkv_width(o):
    return (o.heads + 2 * o.kv_heads) * (o.hidden // o.heads)


def make_norm(o):
    return nn.RMSNorm(o.hidden, eps=1e-5) if o.llama else nn.LayerNorm(o.hidden)


def grouped_mm(x, w, ends):
    """Rows of x up to ends[e] by the transpose of w[e] [E, out, in]."""
    if GPU:
        return torch._grouped_mm(x, w.to(x.dtype).transpose(-2, -1), offs=ends)
    parts = x.tensor_split(ends[:-1].long())
    return torch.cat([F.linear(p, e.to(x.dtype)) for p, e in zip(parts, w)])


class Experts(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.n, self.k = o.experts
        self.router = nn.Linear(o.hidden, self.n, bias=False)
        self.up = nn.Parameter(torch.empty(self.n, 2 * o.ffn, o.hidden))
        self.down = nn.Parameter(torch.empty(self.n, o.hidden, o.ffn))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        logits, choice = self.router(rows).float().topk(self.k, dim=-1)
        order = choice.flatten().argsort(stable=True)
        count = torch.zeros(self.n, dtype=torch.int32, device=x.device)
        count.index_add_(0, choice.flatten(), torch.ones_like(choice.flatten(), dtype=torch.int32))
        ends = count.cumsum(0).to(torch.int32)
        copies = rows[order // self.k].to(torch.bfloat16)
        gate, up = grouped_mm(copies, self.up, ends).chunk(2, -1)
        weight = logits.softmax(-1).flatten()[order].to(gate.dtype)
        y = grouped_mm(F.silu(gate) * up * weight[:, None], self.down, ends)
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=x.device))
        return y[back].view(-1, self.k, x.shape[-1]).sum(1).view_as(x)


class Block(nn.Module):
    def __init__(self, o, recompute):
        super().__init__()
        hidden, bias, gates = o.hidden, not o.llama, 2 if o.llama else 1
        self.heads, self.kv_heads, self.recompute = o.heads, o.kv_heads, recompute
        self.swiglu = bool(o.llama)
        self.norm1, self.norm2 = make_norm(o), make_norm(o)
        self.qkv = nn.Linear(hidden, qkv_width(o), bias=bias)
        self.out = nn.Linear(hidden, hidden, bias=bias)
        self.experts = Experts(o) if o.experts else None
        if not o.experts:
            self.up = nn.Linear(hidden, gates * o.ffn, bias=bias)
            self.down = nn.Linear(o.ffn, hidden, bias=bias)

    def attend(self, x, table, mask):
        B, S, H = x.shape
        heads = self.qkv(x).view(B, S, self.heads + 2 * self.kv_heads, H // self.heads)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), 2)
        if table is not None:
            q, k = rotate(q, table), rotate(k, table)
        if fa4 is not None and mask is None:
            return self.out(fa4(q, k, v)[0].reshape(B, S, H))
        attention, how = F.scaled_dot_product_attention, {"is_causal": True}
        if isinstance(mask, torch.Tensor):
            how = {"attn_mask": mask}
        elif mask is not None:
            attention, how = flex_attention, {"block_mask": mask}
        y = attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            enable_gqa=self.kv_heads < self.heads,
            **how,
        )
        return self.out(y.transpose(1, 2).reshape(B, S, H))

    def mlp(self, x):
        if self.experts:
            return self.experts(x)
        if not self.swiglu:
            return self.down(F.gelu(self.up(x), approximate="tanh"))
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)

    def inner(self, x, table, mask):
        x = x + self.attend(self.norm1(x), table, mask)
        return x + self.mlp(self.norm2(x))

    def forward(self, x, table, mask):
        if self.recompute not in ("full", "selective"):
            return self.inner(x, table, mask)
        how = {}
        if self.recompute == "selective":
            how["context_fn"] = functools.partial(
                create_selective_checkpoint_contexts, keep_attention
            )
        return checkpoint(
            self.inner, x, table, mask, use_reentrant=False, preserve_rng_state=False, **how
        )


class GPT(nn.Module):
    def __init__(self, o, recompute):
        super().__init__()
        self.word = nn.Embedding(o.vocab, o.hidden)
        self.position = (
            nn.Parameter(torch.zeros(o.seq, o.hidden)) if o.position == "learned" else None
        )
        self.blocks = nn.ModuleList(
            Block(o, recompute) for _ in range(o.layers)
        )
        self.norm = make_norm(o)
        self.out = nn.Linear(o.hidden, o.vocab, bias=False) if o.llama else self.word
        self.head = self.loss  # replaced by its compiled form

    def loss(self, x, weight, target):
        logits = F.linear(self.norm(x), weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten())

    def forward(self, token, target, table, mask):
        x = self.word(token)
        if self.position is not None:
            x = x + self.position
        x = x.to(torch.bfloat16)
        for block in self.blocks:
            x = block(x, table, mask)
        return self.head(x, self.out.weight, target)


@torch.no_grad()
def start_weights(model):
    for name, p in model.named_parameters():
        local = p.to_local() if hasattr(p, "to_local") else p
        if p.ndim >= 2:
            local.normal_(std=0.02)
        else:
            local.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)


def shard(model, settings):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy, reshard_after_forward=settings.reshard)
    fully_shard(model, mp_policy=policy, reshard_after_forward=False)


def convert_to_float8(blocks):
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    # tensorwise is the default; without a GPU products are emulated
    convert_to_float8_training(blocks, config=Float8LinearConfig(emulate=not GPU))


def build(o, settings, device, ranks):
    """Return the model on its device, and the (compiled) function that computes the loss."""
    with torch.device("meta" if ranks > 1 else device):
        model = GPT(o, settings.recompute)
    if settings.float8:
        convert_to_float8(model.blocks)
    run = model
    if settings.whole and ranks == 1:
        run = torch.compile(model)
    elif not o.eager:
        for block in model.blocks:
            block.compile()
        model.head = torch.compile(model.loss)
    if ranks > 1:
        shard(model, settings)
        model.to_empty(device=device)
    start_weights(model)
    return model, run


class Settings:
    """The settings in a TRY."""

    def __init__(self, text):
        self.text = text
        self.batch, self.recompute, self.attention = 1, "none", "cudnn"
        self.whole, self.reshard, self.float8 = False, True, False
        for word in text.split(","):
            if word.isdigit():
                self.batch = int(word)
            elif word in ("none", "full", "selective"):
                self.recompute = word
            elif word.startswith("0."):
                self.recompute = float(word)
            elif word in ATTENTION:
                self.attention = word
            elif word in ("whole", "blocks"):
                self.whole = word == "whole"
            elif word in ("keep", "reshard"):
                self.reshard = word == "reshard"
            elif word == "float8":
                self.float8 = True
            else:
                sys.exit(f"gpt.py: unknown setting {word} in TRY {text}; see --help")


def causal_flops(o, tokens):
    """FLOPs as mds counts them (src/metrics/flops.h)."""
    mlp = (3 if o.llama else 2) * o.ffn * (o.experts[1] if o.experts else 1)
    layer = o.hidden * (qkv_width(o) + o.hidden + mlp)
    products = o.layers * layer + o.vocab * o.hidden
    return 6 * products * tokens + 6 * o.layers * o.hidden * o.seq * tokens


class Row:
    """A row of several documents: positions and the mask of attention for each token, and
    which of them have a target. Tokens behind the last document are padding."""

    def __init__(self, lengths, o, table, device):
        if sum(lengths) > o.seq:
            sys.exit(f"gpt.py: a row of {sum(lengths)} tokens in --documents: --seq is {o.seq}")
        padding = [1] * (o.seq - sum(lengths))
        sizes = torch.tensor(lengths + padding, device=device)
        document = torch.repeat_interleave(torch.arange(len(sizes), device=device), sizes)
        start = torch.cumsum(sizes, 0) - sizes
        position = torch.arange(o.seq, device=device) - start[document]
        self.tokens = sum(lengths)
        self.table = tuple(t[position] for t in table)
        self.has_target = position < sizes[document] - 1

        def same_document(_b, _h, q, k):
            return (q >= k) & (document[q] == document[k])

        if GPU:
            make = torch.compile(create_block_mask)
            self.mask = make(same_document, None, None, o.seq, o.seq, device=device)
        else:  # where FlexAttention has no backward pass
            i = torch.arange(o.seq)
            self.mask = same_document(0, 0, i[:, None], i)


def read_rows(o, table, device):
    """The rows of --documents; without it, None."""
    if not o.documents:
        return None
    with open(o.documents) as f:
        return [Row([int(n) for n in line.split()], o, table, device) for line in f]


class Clock:
    """Seconds between marks, measured by CUDA events if there is a GPU."""

    def __init__(self):
        self.marks = []

    def mark(self):
        if GPU:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def laps(self):
        pairs = zip(self.marks, self.marks[1:])
        if not GPU:
            return [b - a for a, b in pairs]
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in pairs]


def make_adamw(parameters, lr):
    matrices = [p for p in parameters if p.ndim >= 2]
    others = [p for p in parameters if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)


def train(o, settings, device, ranks):
    """Train for one TRY. Returns the steps' seconds, their tokens in the mean, the time when
    the first step ended, and the last loss."""
    functorch.activation_memory_budget = (
        settings.recompute if isinstance(settings.recompute, float) else 1.0
    )
    model, run = build(o, settings, device, ranks)
    parameters = list(model.parameters())
    adamw = make_adamw(parameters, o.lr)
    table = None
    if o.position == "rope":
        table = rotary_table(o.seq, o.hidden // o.heads, o.rotary_base, device)
    rows = read_rows(o, table, device)
    tokens = torch.randint(o.vocab, (4, settings.batch, o.seq + 1), device=device)
    mask, seen = None, 0
    # FSDP2 casts weights itself
    bf16 = contextlib.nullcontext()
    if ranks == 1:
        bf16 = torch.autocast(device.type, torch.bfloat16)
    clock, first = Clock(), None
    for i in range(o.warmup + o.steps):
        if i == o.warmup:
            clock.mark()
        token, target = tokens[i % 4, :, :-1], tokens[i % 4, :, 1:]
        if rows:
            row = rows[i % len(rows)]
            table, mask = row.table, row.mask
            target = torch.where(row.has_target, target, -100)
        seen += (row.tokens if rows else settings.batch * o.seq) if i >= o.warmup else 0
        adamw.zero_grad(set_to_none=True)
        with bf16:
            loss = run(token, target, table, mask)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        adamw.step()
        if i >= o.warmup:
            clock.mark()
        if first is None:
            loss.item()
            first = time.time()
    return clock.laps(), seen / o.steps, first, loss.item()


def memory(device):
    if not GPU:
        return {}
    free, total = torch.cuda.mem_get_info(device)
    return {
        "allocated_gib": torch.cuda.max_memory_allocated() / 2**30,
        "used_gib": (total - free) / 2**30,
    }


def attempt(o, settings, device, ranks, started):
    """Run one TRY and return its record."""
    if GPU:
        choose_attention(settings.attention)
        torch.cuda.reset_peak_memory_stats()
    record = {"try": settings.text, "micro_batch": settings.batch, "gpus": ranks}
    begun = time.time()
    try:
        laps, tokens, first, loss = train(o, settings, device, ranks)
    except (torch.OutOfMemoryError, RuntimeError) as e:
        lines = str(e).strip().splitlines() or [type(e).__name__]
        record["error"] = lines[0][:200]
        return record
    step = statistics.mean(laps) if o.documents else statistics.median(laps)
    record |= {
        "step_s": step,
        "step_min_s": min(laps),
        "step_max_s": max(laps),
        "steps": len(laps),
        "tokens_per_s_per_gpu": tokens / step,
        "first_step_s": first - (started or begun),
        "loss": loss,
    }
    if not o.documents:
        record["causal_tflops_per_gpu"] = causal_flops(o, tokens) / step / 1e12
    return record | memory(device)


def forget():
    torch._dynamo.reset()
    gc.collect()
    if GPU:
        torch.cuda.empty_cache()


def options():
    p = argparse.ArgumentParser(usage="gpt.py [options] TRY...")
    p.add_argument("tries", nargs="+", type=Settings)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--heads", type=int, default=12)
    p.add_argument("--seq", type=int, default=1024)
    p.add_argument("--vocab", type=int, default=50304)
    p.add_argument("--llama", metavar="KV,FFN", help="Llama's block; implies rope")
    p.add_argument("--experts", metavar="N,K", help="a mixture of experts; needs --llama")
    p.add_argument("--rotary-base", type=float, default=1e4)
    p.add_argument("--position", choices=("learned", "rope"), default="learned")
    p.add_argument("--documents", metavar="FILE", help="rows of documents; needs rope and 1 a step")
    p.add_argument("--lr", type=float, default=1e-4)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=4)
    p.add_argument("--eager", action="store_true", help="compile nothing")
    p.add_argument("--started", type=float, help="when the first TRY was launched")
    o = p.parse_args()
    if o.documents and o.position != "rope":
        p.error("--documents needs --position rope")
    if o.experts and not o.llama:
        p.error("--experts needs --llama")
    o.experts = o.experts and tuple(map(int, o.experts.split(",")))
    o.kv_heads, o.ffn = o.heads, 4 * o.hidden
    if o.llama:
        o.kv_heads, o.ffn = map(int, o.llama.split(","))
        o.position = "rope"
    return o


def main():
    o = options()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", rank) if GPU else torch.device("cpu")
    if GPU:
        torch.cuda.set_device(device)
    if ranks > 1:
        dist.init_process_group("nccl" if GPU else "gloo")
    torch.manual_seed(1 + rank)
    started = o.started
    for settings in o.tries:
        record = attempt(o, settings, device, ranks, started)
        record["torch"] = torch.__version__
        started = None
        if rank == 0:
            print(json.dumps(record), flush=True)
        if "error" in record and ranks > 1:
            os._exit(3)  # the others may wait in a collective: torchrun ends them
        forget()
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
