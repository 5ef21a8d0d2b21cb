#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Models of mds in transformers, and models of transformers in mds.

    hf.py make DIR                   random models of transformers: DIR/gpt2 and so on
    hf.py check MODEL TRACE JSONL    each three words: does transformers' model compute
                                     mds's loss of the first step?  A TAP line each

    hf.py score MODEL FASTA TSV      each three words: does transformers' model give the
                                     log-likelihoods of mds_infer score?

    hf.py generate MODEL PROMPTS FASTA  each three words: does transformers' model continue
                                     the prompts like mds_infer generate, greedily?

TRACE is mds_pretrain's --trace-dir (its batches), JSONL its --metrics-jsonl.
"""
import importlib.util
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
import transformers

import stfile

LOSS_TOLERANCE = 1e-6  # relative
SCORE_TOLERANCE = 1e-5  # relative, of each sequence


def configs():
    """Shapes with nothing square, and every setting that matters off its default."""
    yield "gpt2", transformers.GPT2Config(
        n_embd=48, n_layer=2, n_head=4, n_inner=112, n_positions=64, vocab_size=66,
        layer_norm_epsilon=3e-5)
    yield "neox", transformers.GPTNeoXConfig(
        hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
        num_attention_heads=4, max_position_embeddings=64, hidden_act="gelu_new",
        use_parallel_residual=False, rotary_pct=0.5, rotary_emb_base=5000,
        layer_norm_eps=3e-5)
    yield "neox-parallel", transformers.GPTNeoXConfig(
        hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
        num_attention_heads=4, max_position_embeddings=64, hidden_act="gelu_new",
        use_parallel_residual=True, rotary_pct=0.5)
    yield "neox-relu2", transformers.GPTNeoXConfig(
        hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
        num_attention_heads=4, max_position_embeddings=64, hidden_act="relu2",
        use_parallel_residual=False, rotary_pct=0.5)
    yield "qwen2", transformers.Qwen2Config(
        hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
        rope_theta=5000.0, tie_word_embeddings=True)
    yield "llama", transformers.LlamaConfig(
        hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
        rms_norm_eps=3e-5, rope_theta=5000.0)
    yield "llama-bias", transformers.LlamaConfig(
        hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
        num_attention_heads=4, max_position_embeddings=64, attention_bias=True,
        mlp_bias=True, tie_word_embeddings=True)
    yield "llama-attention-bias", transformers.LlamaConfig(
        hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
        num_attention_heads=4, max_position_embeddings=64, attention_bias=True,
        rope_theta=500000.0)
    # Older ones let a query see one key more.
    if importlib.util.find_spec("transformers.masking_utils"):
        yield "mistral", transformers.MistralConfig(
            hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
            num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
            sliding_window=9)
    if hasattr(transformers, "MinistralConfig"):
        yield "ministral", transformers.MinistralConfig(
            hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
            num_attention_heads=6, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=64, sliding_window=9,
            layer_types=["full_attention", "sliding_attention"])
    if hasattr(transformers, "Qwen3Config"):
        yield "qwen3", transformers.Qwen3Config(
            hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
            num_attention_heads=6, num_key_value_heads=2, head_dim=16,
            max_position_embeddings=64, rope_theta=5000.0)
    if hasattr(transformers, "Olmo2Config"):
        yield "olmo2", transformers.Olmo2Config(
            hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
            num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
            rope_theta=5000.0, pad_token_id=None, eos_token_id=None, rms_norm_eps=3e-5)
    yield "mixtral", transformers.MixtralConfig(
        hidden_size=48, intermediate_size=112, num_hidden_layers=2, vocab_size=66,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
        rope_theta=5000.0, num_local_experts=5, num_experts_per_tok=3)
    if hasattr(transformers, "OlmoeConfig"):
        olmoe = {"hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 2, "vocab_size": 66,
                 "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64,
                 "rope_theta": 5000.0, "pad_token_id": None, "eos_token_id": None,
                 "rms_norm_eps": 3e-5, "num_experts": 6, "num_experts_per_tok": 2}
        yield "olmoe", transformers.OlmoeConfig(**olmoe)
        yield "olmoe-shares", transformers.OlmoeConfig(**olmoe, norm_topk_prob=True)
    if hasattr(transformers, "Qwen3MoeConfig"):
        moe = {"hidden_size": 48, "intermediate_size": 112, "moe_intermediate_size": 40,
               "num_hidden_layers": 2, "vocab_size": 66, "num_attention_heads": 6,
               "num_key_value_heads": 2, "head_dim": 16, "rope_theta": 5000.0,
               "max_position_embeddings": 64, "num_experts": 6, "num_experts_per_tok": 2}
        yield "qwen3moe", transformers.Qwen3MoeConfig(**moe)
        yield "qwen3moe-mixed", transformers.Qwen3MoeConfig(**moe, mlp_only_layers=[0])
        yield "qwen3moe-shares", transformers.Qwen3MoeConfig(**moe, norm_topk_prob=True)


def large_configs():
    """For large weights: rotary frequencies that are scaled, for sequences of 64 tokens;
    exact GELU, which differs from its tanh form by 3e-6 of the loss."""
    llama = {"hidden_size": 48, "intermediate_size": 112, "num_hidden_layers": 2,
             "vocab_size": 66, "num_attention_heads": 2, "rope_theta": 5000.0,
             "max_position_embeddings": 64}
    neox = {"hidden_size": 48, "intermediate_size": 112, "num_hidden_layers": 2,
            "vocab_size": 66, "num_attention_heads": 2, "rotary_pct": 0.5,
            "max_position_embeddings": 64, "hidden_act": "gelu_new"}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
            "beta_fast": 2.0, "beta_slow": 0.5}
    yield "pythia", transformers.GPTNeoXConfig(
        **neox | {"hidden_act": "gelu", "use_parallel_residual": True})
    yield "llama-linear", transformers.LlamaConfig(
        **llama, rope_scaling={"type": "linear", "factor": 4.0})
    yield "llama-one", transformers.LlamaConfig(
        **llama, rope_scaling={"rope_type": "linear", "factor": 1.0})
    yield "llama-llama3", transformers.LlamaConfig(**llama, rope_scaling={
        "rope_type": "llama3", "factor": 4.0, "original_max_position_embeddings": 16,
        "low_freq_factor": 0.5, "high_freq_factor": 2.0})
    yield "llama-dynamic", transformers.LlamaConfig(
        **llama | {"max_position_embeddings": 32},
        rope_scaling={"rope_type": "dynamic", "factor": 2.0})
    yield "neox-linear", transformers.GPTNeoXConfig(
        **neox, rope_scaling={"rope_type": "linear", "factor": 4.0})
    if version() >= (4, 50):  # the ones before overlook the original length
        yield "llama-yarn", transformers.LlamaConfig(**llama, rope_scaling=yarn)
        yield "neox-yarn", transformers.GPTNeoXConfig(
            **neox, rope_scaling=yarn | {"attention_factor": 1.5})


def version():
    return tuple(int(x) for x in transformers.__version__.split(".")[:2])


def make(folder):
    """Nothing is 0 or 1 exactly, so that what ends in a wrong place shows."""
    torch.manual_seed(1234)
    for name, config in configs():
        model = transformers.AutoModelForCausalLM.from_config(config)
        randomize(model, 0.05)
        model.save_pretrained(f"{folder}/{name}", max_shard_size="40kB")
        if name == "gpt2":
            make_bare(model, config, f"{folder}/{name}-bare")
        half = model.to(torch.bfloat16)
        half.save_pretrained(f"{folder}/{name}-bf16")
    for name, config in large_configs():
        model = transformers.AutoModelForCausalLM.from_config(config)
        randomize(model, 0.3)  # large enough for the loss to depend on them
        model.save_pretrained(f"{folder}/{name}")


def randomize(model, spread):
    with torch.no_grad():
        for n, p in model.named_parameters():
            is_gain = p.ndim == 1 and n.endswith("weight")
            p.normal_(1.0 if is_gain else 0.0, spread)


def make_bare(model, config, folder):
    """As old files have it: without the first word of names, and with masks."""
    tensors = {n.removeprefix("transformer."): p.detach().clone()
               for n, p in model.named_parameters()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 64, 64, dtype=torch.bool)
    config.save_pretrained(folder)
    safetensors.torch.save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})


def mds_loss(path):
    with open(path, encoding="utf-8") as f:
        records = [json.loads(line) for line in f]
    return next(r["lm_loss"] for r in records if r["event"] == "step")


def check(folder, trace, metrics):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.float32).eval()
    tokens = torch.from_numpy(
        np.array(stfile.load(f"{trace}/batches.safetensors")["tokens"])).long()[0]
    with torch.no_grad():
        logits = model(input_ids=tokens[:, :-1]).logits
    theirs = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()
    ours = mds_loss(metrics)
    error = abs(ours - theirs) / theirs
    good = error <= LOSS_TOLERANCE and not np.isnan(error)
    print(f"{'ok' if good else 'not ok'} - {os.path.basename(folder)}: loss {ours:.6f},"
          f" {type(model).__name__} {theirs:.6f}: off by {error:.1e}"
          f" (limit {LOSS_TOLERANCE:.0e})", flush=True)
    return good


def codons(path):
    """The ids of each record."""
    with open(path, encoding="ascii") as f:
        for record in f.read().split(">")[1:]:
            bases = ["ACGT".index(b) for b in "".join(record.split("\n")[1:])]
            triples = [bases[i : i + 3] for i in range(0, len(bases) - 2, 3)]
            yield [16 * a + 4 * b + c for a, b, c in triples]


def score(folder, fasta, table):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.float32).eval()
    with open(table, encoding="utf-8") as f:
        ours = [float(line.split("\t")[3]) for line in f.readlines()[1:]]
    worst = 0.0
    for own, ids in zip(ours, codons(fasta), strict=True):
        ids = torch.tensor([ids])
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, :-1].double()
        theirs = -F.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
        worst = max(worst, abs(own - theirs) / abs(theirs))
    good = worst <= SCORE_TOLERANCE and len(ours) > 0
    print(f"{'ok' if good else 'not ok'} - {os.path.basename(folder)}: {len(ours)}"
          f" log-likelihoods, {type(model).__name__}: off by {worst:.1e} at most"
          f" (limit {SCORE_TOLERANCE:.0e})", flush=True)
    return good


EOD = 64
NEW_TOKENS = 10


def generated(path):
    """The bases of each record."""
    with open(path, encoding="ascii") as f:
        for record in f.read().split(">")[1:]:
            yield "".join(record.split("\n")[1:])


def bases(ids):
    """Up to <eod>; <unk> is no base."""
    ids = ids[: ids.index(EOD)] if EOD in ids else ids
    return "".join("NNN" if i > EOD else "ACGT"[i // 16] + "ACGT"[i // 4 % 4] + "ACGT"[i % 4]
                   for i in ids)


def generate(folder, fasta, ours):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.float32).eval()
    theirs = []
    for ids in codons(fasta):
        with torch.no_grad():
            out = model.generate(
                torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False,
                max_new_tokens=NEW_TOKENS, eos_token_id=EOD, pad_token_id=EOD)
        theirs.append(bases(out[0, len(ids) :].tolist()))
    same = sum(a == b for a, b in zip(generated(ours), theirs, strict=True))
    good = same == len(theirs) > 0
    print(f"{'ok' if good else 'not ok'} - {os.path.basename(folder)}: {same} of"
          f" {len(theirs)} prompts continued as by {type(model).__name__}", flush=True)
    return good


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if sys.argv[1] == "make":
        make(sys.argv[2])
        return 0
    words = sys.argv[2:]
    run = {"check": check, "generate": generate, "score": score}[sys.argv[1]]
    return not all([run(*words[i : i + 3]) for i in range(0, len(words), 3)])


if __name__ == "__main__":
    sys.exit(main())
