# SPDX-License-Identifier: BSD-3-Clause
"""Safetensors files with nothing but json and numpy, to check mds's own reader and
writer against. Format: https://huggingface.co/docs/safetensors."""
import json
import struct

import numpy as np

DTYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64}
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}


def load(path):
    """{name: array}; raises ValueError where the file breaks the format."""
    with open(path, "rb") as f:
        raw = f.read()
    (size,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    header.pop("__metadata__", None)
    arrays, at = {}, 0
    for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = t["data_offsets"]
        if begin != at or size % 8:
            raise ValueError(f"{path}: {name}: gap, overlap or header not padded to 8")
        arrays[name] = np.frombuffer(data[begin:end], DTYPES[t["dtype"]]).reshape(
            t["shape"]
        )
        at = end
    if at != len(data):
        raise ValueError(f"{path}: {len(data) - at} bytes too many")
    return arrays


def save(path, arrays, metadata=None):
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, a in arrays.items():
        header[name] = {
            "dtype": NAMES[a.dtype],
            "shape": list(a.shape),
            "data_offsets": [at, at + a.nbytes],
        }
        at += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in arrays.values():
            f.write(np.ascontiguousarray(a).tobytes())
