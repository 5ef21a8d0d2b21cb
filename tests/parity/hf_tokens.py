#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hf_tokens.py KIND FOLDER...: does transformers make of text the ids that mds_data makes?

KIND and FOLDER, that of a model which mds_ckpt exported, alternate.
"""
import os
import sys

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

from transformers import AutoTokenizer

TEXT = "ACGTacguNNRYKA-TTTGGCC\nAGATAG\n<eod>CAT"
BYTES = bytes(range(128)).decode() + "".join(map(chr, range(128, 0x3000, 7)))
CASES = {
    "codon": [(TEXT, [6, 49, 65, 65, 65, 63, 41, 18, 12, 64, 19]), ("ACGT", [6])],
    "nucleotide": [(TEXT, ["ACGTN".index(b) for b in "ACGTACGTNNNNNANTTTGGCCAGATAG"]
                    + [5, 1, 0, 3])],
    "bytes": [(BYTES, list(BYTES.encode())), ("a<eod>", [97, 256])],
}
bad = 0
for kind, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text, want in CASES[kind]:
        got = tokenizer(text)["input_ids"]
        bad += got != want
        print(f"{kind}: {got == want} {got[:12]}, eos {tokenizer.eos_token_id}")
    bad += tokenizer(tokenizer.eos_token)["input_ids"] != [tokenizer.eos_token_id]
    bad += tokenizer.decode(CASES["bytes"][0][1]) != BYTES if kind == "bytes" else 0
sys.exit(bad > 0)
