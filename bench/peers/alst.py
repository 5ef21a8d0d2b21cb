#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The peer for long sequences: Arctic Long Sequence Training (arXiv:2506.13996). That is a
Llama from transformers in DeepSpeed with Ulysses, ZeRO 3, MLP and loss in tiles, and layer
inputs offloaded to host memory.

    alst.py [options] TRY
    torchrun --standalone --nproc-per-node N alst.py [options] TRY

TRY is a list of settings, such as 131072,opt: the sequence length; opt (also offload the
optimizer) or super (the same by SuperOffload, arXiv:2509.21271); gpu (do not offload layer
inputs); cudnn or flash (attention).

Prints a JSON line, with an error if it failed, out of memory for example. One TRY a
process, because DeepSpeed does not let go of an engine's memory. Needs torch, transformers
and deepspeed. Without a GPU it runs on the CPU, as a test.
"""
import argparse
import json
import os
import statistics
import sys
import time

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # as ALST advises

import deepspeed
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from deepspeed.runtime.sequence_parallel.ulysses_sp import (
    TiledFusedLogitsLoss,
    TiledMLP,
    UlyssesSPAttentionHF,
)
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

GPU = torch.cuda.is_available()


def choose_attention(name):
    for kind in ("flash", "mem_efficient", "math", "cudnn"):
        getattr(torch.backends.cuda, f"enable_{kind}_sdp")(kind == name)


class OffloadedCheckpoint(torch.autograd.Function):
    """A checkpointed layer whose input is saved in pinned host memory."""

    @staticmethod
    def forward(ctx, layer, x):
        ctx.layer, ctx.device = layer, x.device
        ctx.x = torch.empty(x.shape, dtype=x.dtype, pin_memory=GPU)
        ctx.x.copy_(x, non_blocking=True)
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.x.to(ctx.device, non_blocking=True).requires_grad_()
        ctx.x = None
        with torch.enable_grad():
            y = ctx.layer(x)
        torch.autograd.backward(y, dy)
        return None, x.grad


def offloaded(function, x, *args):
    return OffloadedCheckpoint.apply(lambda x: function(x, *args), x)


def tile_mlps(tile):
    """Replace the class's forward by one in sequence tiles, as in ALST's examples."""

    def whole(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))

    def tiled(self, x):
        weights = [self.down_proj.weight, self.gate_proj.weight, self.up_proj.weight]
        tiles = max(1, -(-x.shape[1] // tile))
        return TiledMLP.apply(whole, self, x, tiles, weights)

    modeling_llama.LlamaMLP.forward = tiled


class Peer(nn.Module):
    """The model with its loss computed in tiles."""

    def __init__(self, llama, tile):
        super().__init__()
        self.llama, self.tile = llama, tile

    def tile_loss(self, x, target):
        logits = self.llama.lm_head(x).float()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1))

    def forward(self, token, target, position):
        x = self.llama.model(
            input_ids=token, position_ids=position, use_cache=False
        ).last_hidden_state
        tiles = max(1, -(-x.shape[1] // self.tile))
        weights = [self.llama.lm_head.weight]
        return TiledFusedLogitsLoss.apply(
            Peer.tile_loss, self, x, target, None, tiles, weights, "mean"
        )


class Settings:
    """The settings in a TRY."""

    def __init__(self, text):
        self.text, self.seq = text, 0
        self.attention, self.host_optimizer, self.host_inputs = "cudnn", False, True
        self.super_offload = False
        for word in text.split(","):
            if word.isdigit():
                self.seq = int(word)
            elif word == "opt":
                self.host_optimizer = True
            elif word == "super":
                self.host_optimizer = self.super_offload = True
            elif word == "gpu":
                self.host_inputs = False
            elif word in ("cudnn", "flash"):
                self.attention = word
            else:
                sys.exit(f"alst.py: unknown setting {word} in a TRY; see --help")


def causal_flops(o, seq):
    """FLOPs of one sequence as mds counts them (src/metrics/flops.h)."""
    head_dim = o.hidden // o.heads
    layer = o.hidden * (2 * o.hidden + 2 * o.kv_heads * head_dim + 3 * o.ffn)
    products = o.layers * layer + o.vocab * o.hidden
    return 6 * products * seq + 6 * o.layers * o.hidden * seq * seq


def ds_config(o, settings, ranks):
    zero = {
        "stage": 3,
        "stage3_param_persistence_threshold": 0,
        "overlap_comm": True,
        "contiguous_gradients": True,
    }
    if settings.host_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if settings.super_offload:  # as its authors advise
        zero["offload_optimizer"] |= {"super_offload": True, "cpuadam_cores_perc": 0.9, "ratio": 0.9}
        zero["sub_group_size"] = int(4e8)
    adam = {"lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}
    if not settings.host_optimizer:
        adam |= {"torch_adam": True, "fused": GPU}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
        # SuperOffload updates during the backward pass only without clipping
        "gradient_clipping": 0.0 if settings.super_offload else 1.0,
        "optimizer": {"type": "AdamW", "params": adam},
        "sequence_parallel_size": ranks,
        "steps_per_print": 10**9,
    }


def build(o, settings, ranks, device):
    shape = LlamaConfig(
        vocab_size=o.vocab,
        hidden_size=o.hidden,
        intermediate_size=o.ffn,
        num_hidden_layers=o.layers,
        num_attention_heads=o.heads,
        num_key_value_heads=o.kv_heads,
        max_position_embeddings=settings.seq,
        tie_word_embeddings=False,
        attn_implementation="sdpa",
    )
    # causal attention without a mask tensor, which would be S x S here
    modeling_llama.create_causal_mask = lambda *args, **kwargs: None
    with torch.device(device):
        torch.set_default_dtype(torch.bfloat16)
        llama = LlamaForCausalLM(shape)
        torch.set_default_dtype(torch.float32)
    mpu = UlyssesSPAttentionHF.register_with_transformers(
        model_name_or_path=llama,
        core_attn_implementation="sdpa",
        sequence_parallel_size=ranks,
        micro_batch_size=1,
        seq_length=settings.seq,
        seq_length_is_variable=False,
    )
    llama.gradient_checkpointing_enable({"use_reentrant": True})
    if settings.host_inputs:
        for layer in llama.model.layers:
            layer._gradient_checkpointing_func = offloaded
    llama.train()
    engine, *_ = deepspeed.initialize(
        model=Peer(llama, o.tile), config=ds_config(o, settings, ranks), mpu=mpu
    )
    return engine


def batch(o, settings, rank, ranks, device):
    """This rank's part of one sequence: tokens, targets, positions."""
    torch.manual_seed(1)
    whole = torch.randint(o.vocab, (1, settings.seq + 1), device=device)
    n = settings.seq // ranks
    part = slice(rank * n, (rank + 1) * n)
    position = torch.arange(settings.seq, device=device)[None, part]
    return whole[:, :-1][:, part], whole[:, 1:][:, part], position


def now():
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter()


def train(o, settings, rank, ranks, device):
    """Seconds of each timed step, and the last loss."""
    engine = build(o, settings, ranks, device)
    data, laps = batch(o, settings, rank, ranks, device), []
    for i in range(o.warmup + o.steps):
        start = now()
        loss = engine(*data)
        engine.backward(loss)
        engine.step()
        seconds = now() - start
        if i >= o.warmup:
            laps.append(seconds)
        if rank == 0:
            print(f"alst.py: {settings.text}: step {i + 1}: {seconds:.1f} s", file=sys.stderr)
    return laps, loss.item()


def attempt(o, settings, rank, ranks, device):
    record = {"try": settings.text, "seq": settings.seq, "layers": o.layers, "gpus": ranks}
    if GPU:
        choose_attention(settings.attention)
        torch.cuda.reset_peak_memory_stats()
    try:
        laps, loss = train(o, settings, rank, ranks, device)
    except (torch.OutOfMemoryError, RuntimeError) as e:
        lines = str(e).strip().splitlines() or [type(e).__name__]
        return record | {"error": lines[0][:200]}
    step = statistics.median(laps)
    record |= {
        "step_s": step,
        "step_min_s": min(laps),
        "step_max_s": max(laps),
        "steps": len(laps),
        "tokens_per_s_per_gpu": settings.seq / step / ranks,
        "causal_tflops_per_gpu": causal_flops(o, settings.seq) / step / ranks / 1e12,
        "loss": loss,
    }
    if GPU:
        free, total = torch.cuda.mem_get_info(device)
        record["allocated_gib"] = torch.cuda.max_memory_allocated() / 2**30
        record["used_gib"] = (total - free) / 2**30
    return record


def options():
    p = argparse.ArgumentParser(usage="alst.py [options] TRY")
    p.add_argument("settings", type=Settings, metavar="TRY")
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--hidden", type=int, default=4096)
    p.add_argument("--heads", type=int, default=32)
    p.add_argument("--kv-heads", type=int, default=8)
    p.add_argument("--ffn", type=int, default=14336)
    p.add_argument("--vocab", type=int, default=128256)
    p.add_argument("--tile", type=int, default=4096, help="tokens of a tile of MLP and loss")
    p.add_argument("--steps", type=int, default=2)
    p.add_argument("--warmup", type=int, default=1)
    return p.parse_args()


def main():
    o = options()
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        os.environ.setdefault(name, value)
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29511")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank) if GPU else torch.device("cpu")
    if GPU:
        torch.cuda.set_device(device)
    deepspeed.init_distributed("nccl" if GPU else "gloo")
    tile_mlps(o.tile)
    record = attempt(o, o.settings, rank, ranks, device)
    record |= {"torch": torch.__version__, "deepspeed": deepspeed.__version__}
    if rank == 0 or "error" in record:
        print(json.dumps(record | {"rank": rank}), flush=True)
    if "error" in record:
        os._exit(3)  # other ranks may wait in a collective: torchrun ends them
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
