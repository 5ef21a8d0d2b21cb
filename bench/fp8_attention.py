#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What attention in FP8 does to a loss curve: a GPT in PyTorch learns the bytes of a text
several times, from the same weights and the same data, with different attention.

    fp8_attention.py [options] TEXT...
    fp8_attention.py --check [options]

Arms:
  bf16         PyTorch's attention in bf16
  bf16-again   the same with each step in two halves, so only roundings differ: what
               separates it from bf16 is the scatter of such runs
  fp8          attention as cuDNN does it in FP8 on Hopper, emulated
  fp8-heads    the same with a scale for each head, and K less its mean over tokens
  unfused      fp8 without its casts: another run that differs by roundings

Everything but attention is bf16, with fp32 weights, in all arms. Prints validation losses
beside each other, and relative L2 errors of O, dQ, dK and dV in three layers against exact
attention with the same inputs. On the inputs of the bf16 arm, all kinds of attention are
compared. Runs that differ by roundings alone drift apart, so the last table leaves training
out: what each attention does to the loss and the gradient at the same weights. --check tests
the emulation on random data and trains nothing.

What is emulated, for queries Q, keys K and values V of a layer. A cast takes the largest
power of two as scale with which the largest magnitude of the tensor (of the head) is in the
format; a real call needs scales before it starts, and the emulation uses the best.
  forward    Q, K, V cast to E4M3; scores and exp(score - largest of the row) in fp32, the
             latter cast to E4M3 with scale 256 for the product with V, not for the row's sum;
             O cast to E4M3
  backward   dO cast; P from the log-sum-exp, cast to E4M3 with scale 256 for dV;
             dS = P (dO V^T - sum(dO O)) in fp32 from the cast dO and O, then cast;
             dQ, dK, dV cast. Casts of gradients are E5M2, or E4M3 with --gradients
Products of FP8 numbers are exact in fp32 and in TF32, and sums are fp32. Hopper's sums of FP8
products have about 14 bits, which is not emulated.

K's mean: with K - m, the scores of a query q all change by -q.m, and softmax ignores what all
scores of a row have in common. The result is the same, K has smaller numbers, and errors of
the rows' sums of dS, which are zero if exact, are no longer multiplied by m in dQ.
"""
import argparse
import functools
import math
import os
import sys
import time

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ModuleNotFoundError as error:
    sys.exit(f"bench/fp8_attention.py: {error}; start it with a python3 that has PyTorch")
if not hasattr(torch, "float8_e5m2"):
    sys.exit(f"bench/fp8_attention.py: PyTorch {torch.__version__} has no FP8; take 2.1 or newer")

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
GRADIENTS = {"e5m2": E5M2, "e4m3": E4M3, "none": None}
# arm: its attention
ARMS = {a: a for a in ("bf16", "fp8", "fp8-heads", "unfused")} | {"bf16-again": "bf16"}


def scale_of(x, dtype, per_head):
    """The largest power of two with which x [B, A, S, D] is in the format."""
    largest = x.abs().amax((0, 2, 3) if per_head else (0, 1, 2, 3), keepdim=True)
    ratio = torch.finfo(dtype).max / largest.clamp_min(1e-30)
    return (ratio.view(torch.int32) & 0x7F800000).view(torch.float32)  # without its fraction


def cast(x, dtype, per_head=False, scale=None):
    """Round x to FP8 and scale it back; both are exact in bf16. Without dtype, return x."""
    if dtype is None:
        return x
    if scale is None:
        scale = scale_of(x, dtype, per_head)
    return (x * scale).to(dtype).float() / scale


def masked_scores(q, k):
    i = torch.arange(q.shape[2], device=q.device)
    return (q @ k.mT * q.shape[3] ** -0.5).masked_fill(i[:, None] < i, -math.inf)


def forward_pass(q, k, v, dtype, gradients, per_head):
    """O, the log-sum-exp, and Q, K, V as cast."""
    given = q.dtype
    q, k, v = (cast(x.float(), dtype, per_head) for x in (q, k, v))
    s = masked_scores(q, k)
    largest = s.amax(-1, keepdim=True)
    p = (s - largest).exp()
    total = p.sum(-1, keepdim=True)
    o = cast(cast(p, dtype, scale=256) @ v / total, dtype, per_head)
    return o.to(given), largest + total.log(), q.to(given), k.to(given), v.to(given)


def backward_pass(q, k, v, o, lse, do, dtype, gradients, per_head):
    """dQ, dK and dV; q, k, v and o are as cast."""
    given, width = do.dtype, q.shape[3] ** -0.5
    q, k, v, o = (x.float() for x in (q, k, v, o))
    do = cast(do.float(), gradients, per_head)
    p = (masked_scores(q, k) - lse).exp()
    dv = cast(p, dtype, scale=256).mT @ do
    ds = width * p * (do @ v.mT - (do * o).sum(-1, keepdim=True))
    ds = cast(ds, gradients, per_head)
    return tuple(cast(x, gradients, per_head).to(given) for x in (ds @ k, ds.mT @ q, dv))


class Emulation(torch.autograd.Function):
    passes = forward_pass, backward_pass  # replaced by their compiled forms

    @staticmethod
    def forward(ctx, q, k, v, *recipe):
        q, k, v = (x.detach().contiguous() for x in (q, k, v))
        o, lse, *qkv = Emulation.passes[0](q, k, v, *recipe)
        ctx.save_for_backward(*qkv, o, lse)
        ctx.recipe = recipe
        return o

    @staticmethod
    def backward(ctx, do):
        saved = [x.detach() for x in ctx.saved_tensors]
        grads = Emulation.passes[1](*saved, do.detach().contiguous(), *ctx.recipe)
        return *grads, None, None, None


def attention_of(kind, gradients, dtype=E4M3):
    """A function of q, k, v [B, A, S, D], which are cast to dtype, and gradients as named."""

    def emulation(q, k, v):
        if kind == "fp8-heads":
            k = k - k.mean(2, keepdim=True)
        return Emulation.apply(q, k, v, dtype, GRADIENTS[gradients], kind == "fp8-heads")

    if kind == "bf16":
        return functools.partial(F.scaled_dot_product_attention, is_causal=True)
    if kind == "unfused":
        dtype, gradients = None, "none"
    return emulation


def with_gradients(attention, q, k, v, do):
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    o = attention(*leaves)
    return o.detach(), *torch.autograd.grad(o, leaves, do)


def relative_errors(attention, inputs):
    """Relative L2 errors of O, dQ, dK, dV with inputs q, k, v, do."""
    exact = with_gradients(attention_of("bf16", "none"), *(x.double() for x in inputs))
    ours = with_gradients(attention, *inputs)
    return [float((a.double() - b).norm() / b.norm()) for a, b in zip(ours, exact)]


def rotate(x, table):
    cos, sin = table
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def rotary_table(seq, head_dim, device):
    rate = 1e4 ** (-torch.arange(0, head_dim, 2, device=device) / head_dim)
    angle = torch.outer(torch.arange(seq, device=device).float(), rate)
    return angle.cos().bfloat16(), angle.sin().bfloat16()


class Linear(nn.Linear):
    """fp32 weights, multiplied in the type of x."""

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype), self.bias.to(x.dtype))


class Norm(nn.LayerNorm):
    def forward(self, x):
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.attention, self.probe = o.heads, None, None
        self.norm1, self.norm2 = Norm(o.hidden), Norm(o.hidden)
        self.qkv, self.out = Linear(o.hidden, 3 * o.hidden), Linear(o.hidden, o.hidden)
        self.up, self.down = Linear(o.hidden, 4 * o.hidden), Linear(4 * o.hidden, o.hidden)

    def attend(self, x, table):
        B, S, H = x.shape
        qkv = self.qkv(x).view(B, S, 3, self.heads, H // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if table is not None:
            q, k = rotate(q, table), rotate(k, table)
        y = self.attention(q, k, v)
        if self.probe is not None:
            self.probe += [x.detach() for x in (q, k, v)]
            y.register_hook(self.probe.append)
        return self.out(y.transpose(1, 2).reshape(B, S, H))

    def forward(self, x, table):
        x = x + self.attend(self.norm1(x), table)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.word = nn.Embedding(256, o.hidden)
        self.position = nn.Parameter(torch.zeros(o.seq, o.hidden)) if o.learned else None
        self.blocks = nn.ModuleList(Block(o) for _ in range(o.layers))
        self.norm = Norm(o.hidden)
        for name, p in self.named_parameters():
            if p.ndim >= 2:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * o.layers) if last else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def attend_by(self, attention):
        for block in self.blocks:
            block.attention = attention

    def forward(self, token, target, table):
        x = self.word(token)
        if self.position is not None:
            x = x + self.position
        x = x.bfloat16()
        for block in self.blocks:
            x = block(x, table)
        logits = F.linear(self.norm(x), self.word.weight.to(x.dtype))
        return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten())


def make_adamw(model, lr):
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)


def learning_rate(step, o):
    """Linear warm-up over a twentieth of the steps, then a cosine to a tenth."""
    warm = max(1, o.steps // 20)
    if step <= warm:
        return o.lr * step / warm
    part = (step - warm) / max(1, o.steps - warm)
    return o.lr * (0.55 + 0.45 * math.cos(math.pi * part))


def rows_at(text, starts, o):
    rows = text[starts[:, None].to(text.device) + torch.arange(o.seq + 1, device=text.device)]
    return rows.long()


@torch.no_grad()
def validate(model, rows, table, o):
    losses = [model(r[:, :-1], r[:, 1:], table) for r in rows.split(o.batch)]
    return float(torch.stack(losses).mean())


def probe_errors(arm, step, model, layers, o):
    """Lines of errors, of this arm's attention or, on the inputs of bf16, of each kind."""
    kinds = dict.fromkeys(ARMS[a] for a in o.arms) if arm == "bf16" else [ARMS[arm]]
    for i in layers:
        inputs, model.blocks[i].probe = model.blocks[i].probe, None
        for kind in kinds:
            e = relative_errors(attention_of(kind, o.gradients), inputs)
            yield f"{arm:10} {step:6d} {i + 1:6d} {kind:10}" + "".join(f" {x:.5f}" for x in e)


def at_same_weights(step, model, rows, held_out, table, o):
    """Lines of the validation loss, and of the difference of all weights' gradients from those
    of bf16, if each kind of attention takes bf16's place in the model as it is."""
    exact = None
    for kind in dict.fromkeys(["bf16", "unfused", *(ARMS[a] for a in o.arms)]):
        model.attend_by(attention_of(kind, o.gradients))
        loss = validate(model, held_out, table, o)
        model(rows[:, :-1], rows[:, 1:], table).backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        model.zero_grad()
        exact = gradient if exact is None else exact
        difference = float((gradient - exact).norm() / exact.norm())
        yield f"{step:6d} {kind:10} {loss:.5f} {difference:.5f}"
    model.attend_by(attention_of("bf16", o.gradients))


def train(arm, text, device, o):
    """Train one arm. Returns {step: validation loss}, lines of errors of attention, and for
    bf16 lines of what other attention does at the same weights."""
    torch.manual_seed(o.seed)
    model = GPT(o).to(device)
    model.attend_by(attention_of(ARMS[arm], o.gradients))
    table = None if o.learned else rotary_table(o.seq, o.hidden // o.heads, device)
    adamw = make_adamw(model, o.lr)
    split = len(text) * 95 // 100
    ends = split, len(text) - o.seq - 1
    spread = torch.linspace(*ends, o.eval_rows, dtype=torch.float64).long()
    held_out = rows_at(text, spread, o)
    order = torch.Generator().manual_seed(o.seed)
    layers = sorted({0, o.layers // 2, o.layers - 1})
    evals = {o.steps * i // o.evals: i for i in range(1, o.evals + 1)}
    losses, errors, same, begun = {}, [], [], time.time()
    for step in range(1, o.steps + 1):
        starts = torch.randint(split - o.seq - 1, (o.batch,), generator=order)
        probed = arm != "bf16-again" and evals.get(step) in (1, o.evals // 2, o.evals)
        for i in layers if probed else ():
            model.blocks[i].probe = []
        for group in adamw.param_groups:
            group["lr"] = learning_rate(step, o)
        parts = rows_at(text, starts, o).chunk(2 if arm == "bf16-again" else 1)
        for rows in parts:
            (model(rows[:, :-1], rows[:, 1:], table) / len(parts)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad()
        if probed:
            errors += probe_errors(arm, step, model, layers, o)
            if arm == "bf16":
                same += at_same_weights(step, model, rows, held_out, table, o)
        if step in evals:
            losses[step] = validate(model, held_out, table, o)
            took = time.time() - begun
            print(f"{arm:10} {step:6d} {losses[step]:.5f} {took:7.1f} s", flush=True)
            if o.limit and took > o.limit:
                break
    return losses, errors, same


def report(losses, errors, same, size, o):
    """Validation losses beside each other and against the first arm, then the rest."""
    first, *others = losses
    position = "learned" if o.learned else "rotary"
    yield (
        f"# {o.layers} layers of {o.hidden}, {o.heads} heads, {position} positions; {o.steps}"
        f" steps of {o.batch} x {o.seq} bytes of {size}; lr {o.lr:g}; seed {o.seed};"
        f" casts of gradients {o.gradients}; torch {torch.__version__}"
    )
    yield "# validation loss, nats a byte; then, in percent, against " + first
    yield "step " + " ".join([*losses, *(f"{a}-%" for a in others)])
    for step in sorted(set().union(*losses.values())):
        at = [losses[arm].get(step, math.nan) for arm in losses]
        percent = [f"{100 * (x / at[0] - 1):+.3f}" for x in at[1:]]
        yield " ".join([str(step), *(f"{x:.5f}" for x in at), *percent])
    yield "# relative L2 error: arm whose inputs they are, step, layer, attention, O dQ dK dV"
    yield from errors
    yield "# at the weights of bf16: step, attention, validation loss, relative L2 difference of"
    yield "# the gradient of all weights from that with bf16"
    yield from same


def check(device, o):
    """Test the emulation on random data; returns whether it is right."""
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(o.seed)
    shape = 1, o.heads, o.seq, o.hidden // o.heads
    inputs = [torch.randn(shape).to(device) for _ in range(4)]
    mean = 3 * torch.randn(1, o.heads, 1, shape[3]).to(device)
    shifted = [inputs[0], inputs[1] + mean, *inputs[2:]]
    cases = (
        ("no casts", 1e-5, "unfused", "none", None, inputs),
        ("no casts, K less its mean", 1e-5, "fp8-heads", "none", None, shifted),
    )
    for data, x in (("random", inputs), ("K with a mean", shifted)):
        x = [t.bfloat16() for t in x]
        cases += ((data, 0.02, "bf16", "none", None, x),)
        for kind in ("fp8", "fp8-heads"):
            cases += tuple((data, 0.3, kind, g, E4M3, x) for g in ("e5m2", "e4m3"))
    right = True
    print("data, attention, casts of gradients: relative L2 errors of O dQ dK dV, and their bound")
    for data, bound, kind, gradients, dtype, x in cases:
        e = relative_errors(attention_of(kind, gradients, dtype), x)
        # a cast rounds by 2 to 3 percent, so smaller errors would mean that there was none
        right = right and max(e) < bound and (dtype is None or min(e) > 0.02)
        print(f"{data}, {kind}, {gradients}:" + "".join(f" {x:.2e}" for x in e) + f" < {bound}")
    print("right" if right else "WRONG")
    return right


def options():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="fp8_attention.py [options] TEXT...",
    )
    p.add_argument("text", nargs="*", metavar="TEXT", help="files whose bytes are learnt")
    p.add_argument("--check", action="store_true", help="test the emulation, train nothing")
    p.add_argument("--arms", default="bf16,bf16-again,fp8,fp8-heads")
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--heads", type=int, default=6)
    p.add_argument("--seq", type=int, default=1024)
    p.add_argument("--learned", action="store_true", help="learned positions, not rotary")
    p.add_argument("--batch", type=int, default=8, help="sequences a step; even")
    p.add_argument("--steps", type=int, default=1200)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--gradients", choices=("e5m2", "e4m3"), default="e5m2")
    p.add_argument("--evals", type=int, default=12)
    p.add_argument("--eval-rows", type=int, default=160)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--no-compile", action="store_true", help="run the emulation eagerly")
    p.add_argument("--limit", type=float, help="end an arm after so many seconds")
    p.add_argument("--results", metavar="FILE", help="also write the tables there")
    o = p.parse_args()
    o.arms = o.arms.split(",")
    unknown = [a for a in o.arms if a not in ARMS]
    if unknown:
        p.error(f"--arms: {unknown[0]} is none of {', '.join(ARMS)}")
    if not o.text and not o.check:
        p.error("give a TEXT, or --check")
    if o.hidden % (2 * o.heads) or o.batch % 2:
        p.error("--hidden must be a multiple of twice --heads, and --batch even")
    if o.evals > o.steps:
        p.error(f"--evals {o.evals}: there are {o.steps} steps")
    return o


def main():
    o = options()
    device = torch.device(o.device)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32, exact for products of FP8 numbers
        if not o.no_compile:
            Emulation.passes = [torch.compile(f, dynamic=False) for f in Emulation.passes]
    if o.check:
        sys.exit(not check(device, o))
    content = b"".join(open(name, "rb").read() for name in o.text)
    if len(content) < 40 * o.seq:
        sys.exit(f"fp8_attention.py: {len(content)} bytes of text: fewer than 40 x --seq {o.seq}")
    text = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(device)
    losses, errors, same = {}, [], []
    for arm in o.arms:
        losses[arm], *lines = train(arm, text, device, o)
        errors += lines[0]
        same += lines[1]
        table = "\n".join(report(losses, errors, same, len(text), o))
        if o.results:
            os.makedirs(os.path.dirname(o.results) or ".", exist_ok=True)
            with open(o.results, "w") as f:
                f.write(table + "\n")
    print(table)


if __name__ == "__main__":
    main()
