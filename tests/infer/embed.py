#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files of mds_infer embed.

    embed.py same A B LIMIT [TYPE]   the same rows, starts and names; B is of this type
    embed.py pooled TOKENS FILE      FILE has what its attributes say of TOKENS, which
                                     has a row for each token
    embed.py model WEIGHTS FASTA FILE OPTIONS    FILE, a row for each token, is what
                                     PyTorch computes of codons in f64; OPTIONS as
                                     in tests/parity/reference.py
"""
import sys

import h5py
import numpy as np

LIMIT = 2e-6  # of f32 against f64, relative


def read(path):
    with h5py.File(path, "r") as f:
        return f["hidden"][:], f["start"][:], list(f["name"][:]), dict(f.attrs)


def near(a, b, limit, what):
    """Rows, each by its largest number; nan is nan."""
    assert a.shape == b.shape, f"{what}: {a.shape}, {b.shape}"
    a, b = a.astype(np.float64), b.astype(np.float64)
    none = np.isnan(a)
    assert (none == np.isnan(b)).all(), f"{what}: nan"
    off = np.where(none, 0, np.abs(a - b)) / np.where(none, 1, np.abs(a)).max(
        1, keepdims=True)
    print(f"{what}: {len(a)} rows, off by {off.max():.1e} (limit {limit:.0e})")
    assert len(a) > 0 and off.max() <= limit


def same(a, b, limit, kind="float32"):
    x, y = read(a), read(b)
    assert (x[1] == y[1]).all() and x[2] == y[2]
    near(x[0], y[0], float(limit), b)
    assert y[0].dtype == kind, y[0].dtype


def pooled(tokens, path):
    rows, start, names, _ = read(tokens)
    is_, starts, own_names, about = read(path)
    assert names == own_names
    want, at = [], [0]
    for first, end in zip(start, start[1:]):
        x = rows[first:end].astype(np.float64)
        n = about["pool_window"] or max(len(x), 1)
        parts = [x[i : i + n] for i in range(0, len(x), n)]
        if not parts and about["pool_window"] == 0:
            parts = [np.full((1, x.shape[1]), np.nan)]
        want += [p.mean(0) if about["pool"] == "mean" else p[-1] for p in parts]
        at.append(len(want))
    assert (np.array(at) == starts).all()
    near(np.array(want), is_, 1e-6 if about["pool"] == "mean" else 0, path)


def codons(path):
    with open(path, encoding="ascii") as f:
        for record in f.read().split(">")[1:]:
            bases = ["ACGT".index(b) for b in "".join(record.split("\n")[1:])]
            triples = [bases[i : i + 3] for i in range(0, len(bases) - 2, 3)]
            yield [16 * a + 4 * b + c for a, b, c in triples]


def model(weights, fasta, path, *argv):
    import reference
    import stfile
    import torch

    o = reference.options(argv)
    w = {n: torch.tensor(np.array(a), dtype=torch.float64)
         for n, a in stfile.load(weights).items()}
    rows, start, _, about = read(path)
    want = []
    for ids in codons(fasta):
        x = w["embedding.word.weight"][torch.tensor([ids])]
        if not o.use_rotary_position_embeddings:
            x = x + w["embedding.position.weight"][: x.shape[1]]
        for i in range(about["layer"]):
            name = f"layer.{i}"
            y = reference.norm(w, f"{name}.norm1", x, o)
            x = x + reference.attention(w, f"{name}.attention", y, o)
            x = x + reference.mlp(w, f"{name}.mlp", reference.norm(w, f"{name}.norm2", x, o), o)
        if about["layer"] == o.num_layers:
            x = reference.norm(w, "final_norm", x, o)
        want.append(x[0].numpy())
    assert [len(x) for x in want] == list(np.diff(start))
    near(np.concatenate(want), rows, LIMIT, path)


if __name__ == "__main__":
    {"same": same, "pooled": pooled, "model": model}[sys.argv[1]](*sys.argv[2:])
