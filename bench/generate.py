#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mds_infer generate on one GPU, beside what reading the weights allows, and transformers.

    generate.py [--mds FILE]... [--layers N] [--peer] [ROW...]

A ROW is SEQUENCES,TOKENS,VOCABULARY[ OPTION...]: prompts of 20 words of six bases, continued by so
many tokens, by default those of ROWS below; of several programs, in turns. Rates are without the
start: each program also makes a quarter of the tokens, and the difference counts. First small
models in fp32 are continued by --device cpu and cuda, which should make the same tokens. --peer:
transformers makes the likeliest tokens as well.
"""
import argparse
import random
import re
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM

ROWS = ["1,2048,4098", "1,1024,50304", "64,512,4098", "64,256,50304",
        "1,512,50304 --temperature 1", "1,512,50304 --temperature 1 --top-k 4"]
OPTIONS = ["", "--temperature 1", "--temperature 0.8 --top-k 20", "--temperature 1 --top-p 0.7"]


def run(program, model, fasta, tokens, out, options):
    """Tokens a second that the program says, of the whole generation."""
    command = [program, "generate", "--load", model, "--tokenizer", "6-mer", "--max-new-tokens",
               str(tokens), "--output", out, "--overwrite", fasta, *options]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return float(re.search(r"([0-9.e+]+) tokens/s", text)[1])


def write_prompts(file, words):
    file.write_text("".join(f">p{i}\n{''.join(random.choices('ACGT', k=6 * n))}\n"
                            for i, n in enumerate(words)))
    return file


def make_neox(folder, layers, vocab):
    config = GPTNeoXConfig(
        vocab_size=vocab, hidden_size=2048, num_hidden_layers=layers, num_attention_heads=16,
        intermediate_size=8192, max_position_embeddings=4096)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = GPTNeoXForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder)
    return model


def small_models(folder):
    """In turn, parallel with a head size that is no power of two, and grouped queries."""
    few = dict(vocab_size=4098, num_hidden_layers=3, max_position_embeddings=512,
               initializer_range=0.1)
    yield GPTNeoXForCausalLM(GPTNeoXConfig(
        hidden_size=256, num_attention_heads=4, intermediate_size=1024, hidden_act="gelu_new",
        use_parallel_residual=False, **few))
    yield GPTNeoXForCausalLM(GPTNeoXConfig(
        hidden_size=320, num_attention_heads=4, intermediate_size=1032, **few))
    yield LlamaForCausalLM(LlamaConfig(
        hidden_size=384, num_attention_heads=6, num_key_value_heads=2, intermediate_size=1000,
        **few))


def compare_devices(program, folder):
    prompts = [write_prompts(folder / "one.fa", [20]),
               write_prompts(folder / "some.fa", [1, 20, 20, 20, 33, 33])]
    same = runs = 0
    for n, model in enumerate(small_models(folder)):
        model.save_pretrained(folder / f"s{n}")
        for fasta in prompts:
            for options in OPTIONS[: 1 if n else None]:
                made = []
                for device in "cpu", "cuda":
                    out = folder / f"made.{device}"
                    run(program, folder / f"s{n}", fasta, 100, out,
                        ["--device", device, *options.split()])
                    made.append(out.read_text())
                runs += 1
                same += made[0] == made[1]
    print(f"{program}: cpu and cuda make the same tokens in {same} of {runs} runs", flush=True)


def reading():
    """Bytes a second of a sum."""
    x = torch.empty(1 << 31, dtype=torch.bfloat16, device="cuda").normal_()
    best = 0
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.time()
        x.sum()
        torch.cuda.synchronize()
        best = max(best, 2 * x.numel() / (time.time() - begin))
    return best


@torch.inference_mode()
def theirs(model, n, tokens):
    ids = torch.randint(4, 4096, (n, 20), device="cuda")
    for count in tokens // 4, tokens:
        torch.cuda.synchronize()
        begin = time.time()
        model.generate(ids, max_new_tokens=count, min_new_tokens=count, do_sample=False)
        torch.cuda.synchronize()
        seconds = time.time() - begin
    return n * tokens / seconds


def compare(row, a, folder, speed):
    shape, *options = row.split()
    n, tokens, vocab = map(int, shape.split(","))
    fasta = write_prompts(folder / "p.fa", [20] * n)
    model = make_neox(folder / "w", a.layers, vocab)
    # The head is read, the embedding is not.
    weights = 2 * sum(p.numel() for p in model.parameters()) - 2 * vocab * 2048
    text = f"{row:>44}: floor {n * speed / weights:,.0f} tokens/s;"
    for program in a.mds:
        seconds = [n * t / run(program, folder / "w", fasta, t, folder / "o",
                               ["--device", "cuda", "--bf16", *options])
                   for t in (tokens // 4, tokens)]
        rate = n * (tokens - tokens // 4) / (seconds[1] - seconds[0])
        text += f" {program} {rate:,.0f} ({rate * weights / n / speed:.2f})"
    if a.peer and not options:
        text += f"; transformers {theirs(model, n, tokens):,.0f}"
    print(text, flush=True)


def main():
    args = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    args.add_argument("--mds", action="append")
    args.add_argument("--layers", type=int, default=24)
    args.add_argument("--peer", action="store_true")
    args.add_argument("row", nargs="*", default=ROWS)
    a = args.parse_args()
    a.mds = a.mds or ["mds_infer"]
    random.seed(1)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compare_devices(a.mds[0], folder)
        speed = reading()
        print(f"reading: {speed / 1e12:.2f} TB/s", flush=True)
        for row in a.row:
            compare(row, a, folder, speed)


main()
