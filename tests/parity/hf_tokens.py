#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hf_tokens.py KIND FOLDER...: does transformers make of text the ids that mds_data makes?

KIND and FOLDER, that of a model which mds_ckpt exported, alternate.
"""
import os
import random
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

from transformers import AutoTokenizer

# What the FASTA of mds_data may have, and the bytes that a text may have.
LETTERS = "ACGTURYSWKMBDHVNacgturyswkmbdhvn.-"
BLANKS = " \t\r\n"
BYTES = bytes(range(128)).decode() + "".join(map(chr, range(128, 0x3000, 7))) + "\U0001f9ec"
TAG = "|d__bacteria;g__human|{}|"


def sequences():
    """Sequences: each letter alone, all lengths up to 30, blanks, long ones."""
    dice = random.Random(1)
    some = lambda n, letters: "".join(dice.choice(letters) for _ in range(n))
    yield from LETTERS
    for n in range(31):
        yield some(n, "ACGT")
        yield some(n, "ACGTacgtuUNn")
        yield some(n, LETTERS)
        yield some(n, LETTERS + BLANKS)
    yield some(70000, "ACGT" * 5 + LETTERS)
    yield some(70000, "acgt")
    yield "N" * 1000


def mds_ids(kind, inputs, *options):
    """The documents that mds_data makes of the inputs, without <eod>."""
    subprocess.run(["mds_data", "make", "--tokenizer", kind, "--output", "o.h5", *options, *inputs],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = subprocess.run(["mds_data", "dump", "--ids", "o.h5"], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return [[int(i) for i in line.split()][:-1] for line in lines]


def of_sequences(kind):
    """Texts, and their ids.  Those without a token are no documents."""
    texts = list(sequences())
    with open("t.fa", "w", newline="") as f:
        f.writelines(f">r{i}\n{text}\n" for i, text in enumerate(texts))
    return texts, mds_ids(kind, ["t.fa"])


def of_tags():
    """Sequences with a tag before each 8 bases."""
    plain = [s for s in sequences() if s.strip(BLANKS) and len(s) < 100]
    with open("t.fa", "w", newline="") as f:
        f.writelines(f">r{i}.x\n{text}\n" for i, text in enumerate(plain))
    ids = mds_ids("dna", ["t.fa"], "--tag", TAG.format("{record}"), "--tag-every", "8")
    texts = []
    for i, s in enumerate(plain):
        bases = "".join(s.split())
        tag = TAG.format(f"r{i}.x")
        texts.append("".join(tag + bases[at:at + 8] for at in range(0, len(bases), 8)))
    return texts, ids


def of_bytes():
    texts = [BYTES, "a", "ACGTacgt-N\r\n |x|", "", "\n", " leading and trailing "]
    texts += [BYTES[i:i + 3] for i in range(0, 400, 3)]
    for i, text in enumerate(texts):
        with open(f"t{i}", "wb") as f:
            f.write(text.encode())
    return texts, mds_ids("bytes", [f"t{i}" for i in range(len(texts))])


def differences(kind, tokenizer, texts, ids):
    got = [(t, g) for t, g in ((t, tokenizer(t)["input_ids"]) for t in texts) if g]
    bad = [(t, g, w) for (t, g), w in zip(got, ids) if g != w]
    print(f"{kind}: {len(got)} of {len(texts)} texts have tokens, {len(ids)} documents, {len(bad)} differ")
    for text, g, w in bad[:5]:
        print(f"  {text[:60]!r}: {g[:12]}, but mds_data makes {w[:12]}")
    return len(bad) + (len(got) != len(ids))


bad = 0
folders = [os.path.abspath(f) for f in sys.argv[2::2]]
with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    for kind, folder in zip(sys.argv[1::2], folders):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        bad += differences(kind, tokenizer, *(of_bytes() if kind == "bytes" else of_sequences(kind)))
        if kind == "dna":
            bad += differences("dna with tags", tokenizer, *of_tags())
        if kind == "bytes":
            bad += tokenizer.decode(tokenizer(BYTES)["input_ids"]) != BYTES
        eos = tokenizer.eos_token
        bad += tokenizer(eos)["input_ids"] != [tokenizer.eos_token_id]
        bad += tokenizer("ACGTAC" + eos)["input_ids"] != tokenizer("ACGTAC")["input_ids"] + [tokenizer.eos_token_id]
sys.exit(bad > 0)
