#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mds_pretrain against PyTorch in fp32.

    reference.py init FILE MODEL-OPTIONS       write initial weights
    reference.py check DIR JSONL OPTIONS       replay a run, print one TAP line a check

The options are mds_pretrain's own. DIR is its --trace-dir (weights, batches, gradients
of step 1), JSONL its --metrics-jsonl. The model is written plainly here, from the
papers; it shares nothing with mds but parameter names.
"""
import argparse
import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

import stfile

LOSS_1_TOLERANCE = 1e-6  # relative, step 1
GRAD_TOLERANCE = 1e-5  # relative L2, each tensor
LOSS_TOLERANCE = 1e-4  # relative, each step
LR_TOLERANCE = 1e-12
GRAD_NORM_TOLERANCE = 1e-5  # relative, step 1


def options(argv):
    p = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("num-layers", "hidden-size", "num-attention-heads", "seq-length"):
        p.add_argument(f"--{name}", type=int, required=True)
    p.add_argument("--num-key-value-heads", type=int)
    p.add_argument("--ffn-hidden-size", type=int)
    p.add_argument("--train-iters", type=int)
    p.add_argument("--num-experts", type=int, default=0)
    p.add_argument("--moe-router-topk", type=int, default=2)
    p.add_argument("--moe-router-score-function", default="softmax")
    p.add_argument("--moe-router-topk-scaling-factor", type=float, default=1.0)
    p.add_argument("--moe-router-bias-update-rate", type=float, default=1e-3)
    p.add_argument("--moe-ffn-hidden-size", type=int)
    p.add_argument("--moe-layer-freq", default="1")
    p.add_argument("--moe-shared-expert-intermediate-size", type=int, default=0)
    p.add_argument("--moe-aux-loss-coeff", type=float, default=0.0)
    p.add_argument("--moe-z-loss-coeff", type=float, default=0.0)
    for flag in (
        "use-rotary-position-embeddings",
        "swiglu",
        "squared-relu",
        "exact-gelu",
        "qk-layernorm",
        "qk-norm-across-heads",
        "use-parallel-residual",
        "disable-bias-linear",
        "add-qkv-bias",
        "untie-embeddings-and-output-weights",
        "moe-router-pre-softmax",
        "use-mup",
        "moe-router-enable-expert-bias",
    ):
        p.add_argument(f"--{flag}", action="store_true")
    p.add_argument("--position-embedding-type", default="learned_absolute")
    p.add_argument("--rotary-percent", type=float, default=1.0)
    p.add_argument("--normalization", type=str.lower, default="layernorm")
    p.add_argument("--norm-epsilon", type=float, default=1e-5)
    p.add_argument("--norm-placement", default="before")
    p.add_argument("--init-method-std", type=float, default=0.05)
    p.add_argument("--lr", type=float)
    p.add_argument("--min-lr", type=float, default=0.0)
    p.add_argument("--lr-warmup-iters", type=int, default=0)
    p.add_argument("--weight-decay", type=float)
    p.add_argument("--adam-beta1", type=float)
    p.add_argument("--adam-beta2", type=float)
    p.add_argument("--adam-eps", type=float, default=1e-8)
    p.add_argument("--clip-grad", type=float)
    p.add_argument("--mup-base-hidden-size", type=int)
    p.add_argument("--mup-base-head-dim", type=float, default=1.0)
    p.add_argument("--mup-embedding-mult", type=float, default=1.0)
    p.add_argument("--mup-output-mult", type=float)
    p.add_argument("--padded-vocab", type=int, help="only init: rows of the embedding")
    p.add_argument("--name", default="gpt", help="what the TAP lines call this run")
    o, _ = p.parse_known_args(argv)  # the rest is for mds_pretrain alone
    o.num_key_value_heads = o.num_key_value_heads or o.num_attention_heads
    o.head_dim = o.hidden_size // o.num_attention_heads
    o.width = o.hidden_size / (o.mup_base_hidden_size or o.hidden_size)
    o.score_scale = 1 / math.sqrt(o.head_dim)
    if o.use_mup:  # Yang et al. 2022, arXiv:2203.03466, table 8
        o.score_scale = math.sqrt(o.mup_base_head_dim) / o.head_dim
    o.output_mult = o.mup_output_mult or 1 / o.width
    return o


# ---- the model --------------------------------------------------------------------------


def norm(w, name, x, o):
    if o.normalization == "rmsnorm":
        rms = torch.sqrt((x * x).mean(-1, keepdim=True) + o.norm_epsilon)
        return x / rms * w[f"{name}.gamma"]
    return F.layer_norm(
        x, x.shape[-1:], w[f"{name}.gamma"], w[f"{name}.beta"], o.norm_epsilon
    )


def linear(w, name, x):
    return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))


def rotate(x, o):
    """Rotary positions, half-split pairs (arXiv:2104.09864); x [B,heads,S,D]."""
    rot = int(o.head_dim * o.rotary_percent)
    frequency = 10000.0 ** (-torch.arange(0, rot, 2, dtype=torch.float64) / rot)
    angle = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), frequency)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b, rest = x[..., : rot // 2], x[..., rot // 2 : rot], x[..., rot:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


def has_table(o):
    learned = o.position_embedding_type == "learned_absolute"
    return learned and not o.use_rotary_position_embeddings


def slopes(heads):
    """ALiBi (arXiv:2108.12409): a geometric sequence for a power of two; else that of
    the power below, and of the power above every other one."""
    power = 2 ** int(math.log2(heads))
    if power == heads:
        return [2 ** (-8 * (i + 1) / heads) for i in range(heads)]
    return slopes(power) + slopes(2 * power)[0::2][: heads - power]


def attention(w, name, x, o):
    B, S, _ = x.shape

    def heads(part, n):
        y = linear(w, f"{name}.{part}", x)
        if o.qk_norm_across_heads and part != "v":
            y = norm(w, f"{name}.{part}_norm", y, o)
        return y.view(B, S, n, o.head_dim).transpose(1, 2)

    q = heads("q", o.num_attention_heads)
    k = heads("k", o.num_key_value_heads)
    v = heads("v", o.num_key_value_heads)
    if o.qk_layernorm and not o.qk_norm_across_heads:
        q, k = norm(w, f"{name}.q_norm", q, o), norm(w, f"{name}.k_norm", k, o)
    if o.use_rotary_position_embeddings:
        q, k = rotate(q, o), rotate(k, o)
    share = o.num_attention_heads // o.num_key_value_heads
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    score = q @ k.transpose(2, 3) * o.score_scale
    if o.position_embedding_type == "alibi":
        place = torch.arange(S, dtype=score.dtype)
        slope = torch.tensor(slopes(o.num_attention_heads), dtype=score.dtype)
        score = score + slope[:, None, None] * (place - place[:, None])
    future = torch.ones(S, S, dtype=torch.bool).triu(1)
    y = score.masked_fill(future, -math.inf).softmax(-1) @ v
    return linear(w, f"{name}.out", y.transpose(1, 2).reshape(B, S, -1))


def mlp(w, name, x, o):
    up = linear(w, f"{name}.up", x)
    if o.swiglu:
        inner = F.silu(linear(w, f"{name}.gate", x)) * up
    elif o.squared_relu:
        inner = F.relu(up) ** 2
    else:
        inner = F.gelu(up, approximate="none" if o.exact_gelu else "tanh")
    return linear(w, f"{name}.down", inner)


def expert_losses(logits, o):
    """Balance of each sequence (Fedus et al. 2021) and z-loss, means over sequences;
    logits [B,S,E].  A bias does not count."""
    chosen = logits.topk(o.moe_router_topk)[1]
    share = F.one_hot(chosen, o.num_experts).to(logits.dtype).sum(2).mean(1)
    share = share / o.moe_router_topk
    if o.moe_router_score_function == "sigmoid":
        scores = logits.sigmoid() / logits.sigmoid().sum(-1, keepdim=True)
    else:
        scores = logits.softmax(-1)
    balance = o.num_experts * (share * scores.mean(1)).sum(-1).mean()
    z = (logits.logsumexp(-1) ** 2).mean()
    return o.moe_aux_loss_coeff * balance + o.moe_z_loss_coeff * z


def experts(w, name, x, o, losses):
    """Every expert computes every token here; those not chosen get weight 0."""
    logits = F.linear(x, w[f"{name}.router.weight"])
    best, chosen = logits.topk(o.moe_router_topk)
    if o.moe_router_score_function == "sigmoid":
        bias = o.bias.setdefault(name, torch.zeros(o.num_experts, dtype=x.dtype))
        chosen = (logits.sigmoid() + bias).topk(o.moe_router_topk)[1]
        weight = logits.sigmoid().gather(-1, chosen)
        if o.moe_router_topk > 1:
            weight = weight / weight.sum(-1, keepdim=True)
        if o.moe_router_enable_expert_bias:
            load = chosen.flatten().bincount(minlength=o.num_experts).to(x.dtype)
            o.changes.append((bias, (load.mean() - load).sign()))
    elif o.moe_router_pre_softmax:
        weight = logits.softmax(-1).gather(-1, chosen)
    else:
        weight = best.softmax(-1)
    weight = weight * o.moe_router_topk_scaling_factor
    weights = torch.zeros_like(logits).scatter(-1, chosen, weight)
    losses.append(expert_losses(logits, o))
    y = sum(
        weights[..., e : e + 1] * mlp(w, f"{name}.experts.{e}", x, o)
        for e in range(o.num_experts)
    )
    if o.moe_shared_expert_intermediate_size:
        y = y + mlp(w, f"{name}.shared", x, o)
    return y


def block_mlp(w, name, x, o, losses):
    has_experts = f"{name}.router.weight" in w
    return experts(w, name, x, o, losses) if has_experts else mlp(w, name, x, o)


def loss_of(w, tokens, vocab, o, losses):
    """Mean cross-entropy; tokens [B,S+1]. Columns past vocab are padding. What experts
    add to the loss that is trained is appended to losses."""
    x = w["embedding.word.weight"][tokens[:, :-1]]
    if has_table(o):
        x = x + w["embedding.position.weight"][: x.shape[1]]
    x = x * o.mup_embedding_mult
    for i in range(o.num_layers):
        layer = f"layer.{i}"

        def normed(name, x):
            return norm(w, f"{layer}.{name}", x, o) if f"{layer}.{name}.gamma" in w else x

        a = attention(w, f"{layer}.attention", normed("norm1", x), o)
        y = x + normed("attention.out_norm", a)
        n = normed("norm2", x if o.use_parallel_residual else y)
        x = y + normed("mlp.out_norm", block_mlp(w, f"{layer}.mlp", n, o, losses))
    x = norm(w, "final_norm", x, o)
    head = w["head.weight" if "head.weight" in w else "embedding.word.weight"]
    logits = F.linear(x, head[:vocab]) * o.output_mult
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


# ---- initial weights --------------------------------------------------------------------


def has_experts(o, i):
    """As Megatron reads it: a number, or a Python list."""
    layers = eval(o.moe_layer_freq)
    return o.num_experts > 0 and (i % layers == 0 if isinstance(layers, int) else layers[i] == 1)


def mlp_shapes(o, i):
    H, ffn = o.hidden_size, o.ffn_hidden_size or 4 * o.hidden_size
    widths, out = {"mlp": ffn}, {}
    if has_experts(o, i):
        out["mlp.router"] = (o.num_experts, H)
        widths = {f"mlp.experts.{e}": o.moe_ffn_hidden_size or ffn for e in range(o.num_experts)}
        if o.moe_shared_expert_intermediate_size:
            widths["mlp.shared"] = o.moe_shared_expert_intermediate_size
    for name, width in widths.items():
        out |= {f"{name}.up": (width, H), f"{name}.down": (H, width)}
        if o.swiglu:
            out[f"{name}.gate"] = (width, H)
    return out


def shapes(o):
    H, D, V = o.hidden_size, o.head_dim, o.padded_vocab
    yield "embedding.word.weight", (V, H)
    if has_table(o):
        yield "embedding.position.weight", (o.seq_length, H)
    linears = {
        "attention.q": (o.num_attention_heads * D, H),
        "attention.k": (o.num_key_value_heads * D, H),
        "attention.v": (o.num_key_value_heads * D, H),
        "attention.out": (H, o.num_attention_heads * D),
    }
    norms = {"before": ["norm1", "norm2"], "after": ["attention.out_norm", "mlp.out_norm"]}
    norms["both"] = norms["before"] + norms["after"]
    sizes = {f"layer.{i}.{name}": H for i in range(o.num_layers)
             for name in norms[o.norm_placement]} | {"final_norm": H}
    if o.qk_layernorm:
        heads = {"q": o.num_attention_heads, "k": o.num_key_value_heads}
        sizes |= {f"layer.{i}.attention.{part}_norm":
                  heads[part] * D if o.qk_norm_across_heads else D
                  for i in range(o.num_layers) for part in "qk"}
    for name, size in sizes.items():
        yield f"{name}.gamma", (size,)
        if o.normalization == "layernorm":
            yield f"{name}.beta", (size,)
    for i in range(o.num_layers):
        for part, shape in (linears | mlp_shapes(o, i)).items():
            yield f"layer.{i}.{part}.weight", shape
            is_qkv = part[-2:] in (".q", ".k", ".v")
            if not o.disable_bias_linear or (o.add_qkv_bias and is_qkv):
                yield f"layer.{i}.{part}.bias", shape[:1]
    if o.untie_embeddings_and_output_weights:
        yield "head.weight", (V, H)


def init(path, o):
    """Nothing is 0 or 1 exactly, so that a parameter left out shows."""
    rng = np.random.default_rng(1234)
    arrays = {}
    for name, shape in shapes(o):
        a = rng.normal(0, o.init_method_std, shape) + (1 if name.endswith("gamma") else 0)
        arrays[name] = a.astype(np.float32)
    stfile.save(path, arrays, {"format": "pt"})


# ---- replay -----------------------------------------------------------------------------


class Tap:
    def __init__(self, name):
        self.name, self.failed = name, 0

    def check(self, what, worst, limit, where=""):
        good = worst <= limit  # false for NaN
        self.failed += not good
        print(
            f"{'ok' if good else 'not ok'} - {self.name}: {what}: worst {worst:.2e}"
            f" (limit {limit:.0e}){' at ' + where if where else ''}",
            flush=True,
        )

    def expect(self, what, good, why=""):
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} - {self.name}: {what}{why}", flush=True)


def learning_rate(t, o):
    if t <= o.lr_warmup_iters:
        return o.lr * t / o.lr_warmup_iters
    x = (t - o.lr_warmup_iters) / (o.train_iters - o.lr_warmup_iters)
    return o.min_lr + (o.lr - o.min_lr) * 0.5 * (1 + math.cos(math.pi * x))


def relative(a, b):
    return abs(a - b) / abs(b) if math.isfinite(a) else math.inf


def read_run(path):
    with open(path, encoding="utf-8") as f:
        records = [json.loads(line) for line in f]
    run = next(r for r in records if r["event"] == "run")
    steps = [r for r in records if r["event"] == "step"]
    for r in steps:  # JSON has no NaN
        r["lm_loss"] = math.nan if r["lm_loss"] is None else r["lm_loss"]
    return run, steps


def tensors(arrays, dtype):
    return {
        n: torch.tensor(a, dtype=dtype, requires_grad=True) for n, a in arrays.items()
    }


def gradient_error(name, ours, grads):
    """Relative L2. With learned positions a key's bias shifts all scores of a query
    alike, so its true gradient is 0 and what is there is rounding: that is held
    against the gradient of the query's bias beside it."""
    scale = grads[name].norm()
    if name.endswith("attention.k.bias"):
        scale = max(scale, grads[name.replace(".k.", ".q.")].norm())
    return float((torch.from_numpy(ours) - grads[name]).norm() / scale)


def check_gradients(tap, ours, w):
    grads = {n: p.grad.detach().clone() for n, p in w.items()}
    tap.expect("the same parameters have gradients", set(ours) == set(grads))
    errors = {
        n: gradient_error(n, np.array(ours[n]), grads) for n in grads if n in ours
    }
    worst = max(errors, key=errors.get)
    tap.check(
        f"{len(errors)} gradient tensors of step 1",
        errors[worst],
        GRAD_TOLERANCE,
        worst,
    )


def make_optimizer(w, o):
    """Megatron's rule: biases and norms do not decay. muP: matrices of blocks learn
    slower the wider they are."""
    groups = [
        {"params": [p for n, p in w.items() if p.ndim >= 2 and n.startswith("layer.")],
         "eps": o.adam_eps / o.width, "slower": o.width},
        {"params": [p for n, p in w.items() if p.ndim >= 2 and n[:6] != "layer."]},
        {"params": [p for p in w.values() if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=o.lr,
        betas=(o.adam_beta1, o.adam_beta2),
        eps=o.adam_eps,
        weight_decay=o.weight_decay,
    )


def check(trace, metrics, o):
    tap = Tap(o.name)
    run, steps = read_run(metrics)
    arrays = stfile.load(f"{trace}/weights.safetensors")
    batches = torch.from_numpy(
        np.array(stfile.load(f"{trace}/batches.safetensors")["tokens"])
    ).long()
    tap.expect(
        f"{o.train_iters} steps and batches recorded",
        len(steps) == len(batches) == o.train_iters,
        f" ({len(steps)} steps, {len(batches)} batches)",
    )
    count = sum(a.size for a in arrays.values())
    tap.expect("parameter count", count == run["parameters"], f" {count}")
    o.bias, o.changes = {}, []
    with torch.no_grad():
        exact = loss_of(tensors(arrays, torch.float64), batches[0], run["vocab"], o, [])
    o.bias = {}
    w = tensors(arrays, torch.float32)
    optimizer = make_optimizer(w, o)
    losses, rates = [], []
    for t, (tokens, step) in enumerate(zip(batches, steps), 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(t, o) / group.get("slower", 1)
        optimizer.zero_grad()
        more, o.changes = [], []
        loss = loss_of(w, tokens, run["vocab"], o, more)
        sum(more, loss).backward()
        if t == 1:
            check_gradients(tap, stfile.load(f"{trace}/grads.safetensors"), w)
        norm_ = float(torch.nn.utils.clip_grad_norm_(w.values(), o.clip_grad))
        if t == 1:
            tap.check("loss of step 1", relative(step["lm_loss"], loss.item()),
                      LOSS_1_TOLERANCE)
            print(f"# {o.name}: step 1 against float64: mds"
                  f" {relative(step['lm_loss'], exact.item()):.1e}, PyTorch"
                  f" {relative(loss.item(), exact.item()):.1e}")
            tap.check("gradient norm of step 1", relative(step["grad_norm"], norm_),
                      GRAD_NORM_TOLERANCE)
        optimizer.step()
        for bias, sign in o.changes:
            bias += o.moe_router_bias_update_rate * sign
        losses.append(relative(step["lm_loss"], loss.item()))
        rates.append(relative(step["learning_rate"], learning_rate(t, o)))
    worst = int(np.argmax(losses))
    tap.check(f"losses of {len(losses)} steps", losses[worst], LOSS_TOLERANCE,
              f"step {worst + 1}")
    tap.check("learning rates", max(rates), LR_TOLERANCE)
    print(f"# {o.name}: loss {steps[0]['lm_loss']:.4f} to {steps[-1]['lm_loss']:.4f}")
    tap.expect("the loss fell", steps[-1]["lm_loss"] < steps[0]["lm_loss"])
    return tap.failed


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "init":
        init(sys.argv[2], options(sys.argv[3:]))
        return 0
    return check(sys.argv[2], sys.argv[3], options(sys.argv[4:])) > 0


if __name__ == "__main__":
    sys.exit(main())
