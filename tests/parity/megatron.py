#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files as Megatron-DeepSpeed's pipeline writes them, from weights of ours.

    megatron.py WEIGHTS.safetensors FOLDER RANKS HEADS GROUPS [swiglu]

The way back from scripts/mds_from_megatron, written apart from it: first each rank's
part of every tensor is taken, then fused as Megatron has it.
"""
import os
import re
import sys

import numpy as np
import torch

import stfile


def part(a, rank, ranks, axis):
    return np.split(a, ranks, axis)[rank]


def fused(q, k, v, groups):
    """Rows: for each group its queries, its key, its value."""
    rows = []
    for g in range(groups):
        rows += [np.split(q, groups)[g], np.split(k, groups)[g], np.split(v, groups)[g]]
    return np.concatenate(rows)


def layer_of(w, stem, rank, ranks, groups, swiglu):
    out = {}
    for theirs, ours in (("input_layernorm", "norm1"),
                         ("post_attention_layernorm", "norm2")):
        for a, b in (("weight", "gamma"), ("bias", "beta")):
            if f"{stem}{ours}.{b}" in w:
                out[f"{theirs}.{a}"] = w[f"{stem}{ours}.{b}"]
    for kind in ("weight", "bias"):
        if f"{stem}attention.q.{kind}" not in w:
            continue
        mine = [part(w[f"{stem}attention.{p}.{kind}"], rank, ranks, 0) for p in "qkv"]
        out[f"self_attention.query_key_value.{kind}"] = fused(*mine, groups // ranks)
        up = [part(w[f"{stem}mlp.{p}.{kind}"], rank, ranks, 0)
              for p in (("gate", "up") if swiglu else ("up",))]
        out[f"mlp.dense_h_to_4h.{kind}"] = np.concatenate(up)
        for theirs, ours in (("self_attention.dense", "attention.out"),
                             ("mlp.dense_4h_to_h", "mlp.down")):
            a = w[f"{stem}{ours}.{kind}"]
            out[f"{theirs}.{kind}"] = part(a, rank, ranks, 1) if kind == "weight" else a
    out["self_attention.rotary_emb.inv_freq"] = np.ones(4, np.float32)
    return out


def main():
    path, folder, ranks, _, groups, *more = sys.argv[1:]
    ranks, groups, swiglu = int(ranks), int(groups), more == ["swiglu"]
    w = stfile.load(path)
    layers = 1 + max(int(m[1]) for m in (re.match(r"layer\.(\d+)\.", n) for n in w) if m)
    os.makedirs(folder, exist_ok=True)
    for rank in range(ranks):
        def put(number, tensors):
            torch.save({n: torch.from_numpy(np.array(a)) for n, a in tensors.items()},
                       f"{folder}/layer_{number:02d}-model_{rank:02d}-model_states.pt")

        embedding = {"word_embeddings.weight":
                     part(w["embedding.word.weight"], rank, ranks, 0)}
        if "embedding.position.weight" in w:
            embedding["position_embeddings.weight"] = w["embedding.position.weight"]
        put(1, embedding)
        for i in range(layers):
            put(2 + i, layer_of(w, f"layer.{i}.", rank, ranks, groups, swiglu))
        put(2 + layers, {a: w[f"final_norm.{b}"] for a, b in (("weight", "gamma"),
                         ("bias", "beta")) if f"final_norm.{b}" in w})
        if "head.weight" in w:
            put(3 + layers, {"lm_head.weight": part(w["head.weight"], rank, ranks, 0)})
        else:
            put(3 + layers, embedding)


if __name__ == "__main__":
    main()
