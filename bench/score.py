#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mds_infer score beside transformers, on one GPU: the same random weights and sequences.

    score.py [--mds FILE] [--layers N] [ROW...]

A ROW is SEQUENCES,SHORTEST,LONGEST: random bases, by default those of ROWS below; or
vcf,VARIANTS,WINDOW. mds runs twice, with SEQUENCES and three times as many, so that its rate is
without its start, which is printed too. transformers, in this process and warm, scores fewer of
them one at a time, and if they differ in length also in padded batches of 16,384 tokens, of
sequences of like length; its log-softmax is in f32, its attention PyTorch's SDPA. For a variant it
scores the windows of both alleles.
"""
import argparse
import random
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

ROWS = "500,300,3000 100,8192,8192 20,32768,32768 2,131072,131072 vcf,60,8192".split()
BATCH = 16384  # tokens, as mds has by default


def make_model(layers, folder):
    config = LlamaConfig(
        hidden_size=2048, num_hidden_layers=layers, num_attention_heads=16, intermediate_size=8192,
        vocab_size=6, max_position_embeddings=131072, rope_theta=1e6, tie_word_embeddings=False)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model


@torch.inference_mode()
def theirs(model, sequences):
    """Sums of log-likelihoods; shorter sequences are padded behind their end."""
    longest = max(map(len, sequences))
    ids = torch.tensor([[*map("ACGT".index, s), *[0] * (longest - len(s))] for s in sequences],
                       device="cuda")
    log = torch.log_softmax(model(ids, use_cache=False).logits[:, :-1].float(), -1)
    log = log.gather(2, ids[:, 1:, None])[..., 0]
    return [log[i, : len(s) - 1].sum().item() for i, s in enumerate(sequences)]


def batches(sequences, tokens):
    out = []
    for s in sorted(sequences, key=len, reverse=True):
        if not out or (len(out[-1]) + 1) * len(out[-1][0]) > tokens:
            out.append([])
        out[-1].append(s)
    return out


def rate(model, sequences, groups):
    theirs(model, groups[0])
    torch.cuda.synchronize()
    begin = time.time()
    for g in groups:
        theirs(model, g)
    return sum(map(len, sequences)) / (time.time() - begin)


class Mds:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def seconds(self, *arguments):
        command = [self.program, "score", "--load", self.folder / "w", "--tokenizer", "nucleotide",
                   "--overwrite", *arguments, "--device", "cuda", "--dtype", "bf16",
                   "--log-level", "warn"]
        begin = time.time()
        subprocess.run(command, check=True)
        return time.time() - begin

    def score(self, sequences):
        """Seconds, and log-likelihoods."""
        fasta, table = self.folder / "s.fa", self.folder / "o.tsv"
        fasta.write_text("".join(f">s{i}\n{s}\n" for i, s in enumerate(sequences)))
        seconds = self.seconds("--output", table, fasta)
        return seconds, [float(line.split("\t")[3]) for line in table.read_text().split("\n")[1:-1]]

    def variants(self, genome, n, window):
        """Seconds for n substitutions, whose windows do not overlap."""
        fasta, vcf = self.folder / "g.fa", self.folder / "v.vcf"
        fasta.write_text(f">g\n{genome}\n")
        at = [window * (i + 1) for i in range(n)]
        lines = ["##fileformat=VCFv4.2", "##contig=<ID=g>",
                 "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO"]
        for p in range(window, window * (n + 1), window):
            other = "ACGT"["ACGT".index(genome[p]) - 1]
            lines.append(f"g\t{p + 1}\t.\t{genome[p]}\t{other}\t.\t.\t.")
        vcf.write_text("\n".join(lines) + "\n")
        return self.seconds("--vcf", vcf, "--fasta", fasta, "--window", str(window), "--output",
                            self.folder / "o.vcf")


def compare_sequences(model, mds, row):
    n, shortest, longest = map(int, row.split(","))
    sequences = ["".join(random.choices("ACGT", k=random.randint(shortest, longest)))
                 for _ in range(3 * n)]
    one, _ = mds.score(sequences[:n])
    three, loglik = mds.score(sequences)
    ours = sum(map(len, sequences[n:])) / (three - one)
    some = sequences[: max(3, n // 4)]
    single = rate(model, some, [[s] for s in some])
    padded = rate(model, sequences[:n], batches(sequences[:n], BATCH)) if shortest < longest else 0
    off = max(abs(a / theirs(model, [s])[0] - 1) for a, s in zip(loglik, some[:8]))
    start = one - sum(map(len, sequences[:n])) / ours
    print(f"{row:>20} mds {ours:9,.0f} tokens/s, start {start:.1f} s; transformers {single:9,.0f}"
          + (f", padded {padded:9,.0f}" if padded else "")
          + f"; mds / transformers {ours / max(single, padded):.2f}; scores differ by {off:.1e}",
          flush=True)


def compare_variants(model, mds, row):
    n, window = map(int, row.split(",")[1:])
    genome = "".join(random.choices("ACGT", k=window * (3 * n + 2)))
    one, three = mds.variants(genome, n, window), mds.variants(genome, 3 * n, window)
    some = [genome[i * window : (i + 1) * window] for i in range(min(n, 16))]
    ours, other = (three - one) / (2 * n), 2 * window / rate(model, some, [[s] for s in some])
    print(f"{row:>20} mds {ours:.3f} s a variant, transformers {other:.3f}: {other / ours:.2f}",
          flush=True)


def main():
    args = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    args.add_argument("--mds", default="mds_infer")
    args.add_argument("--layers", type=int, default=24)
    args.add_argument("row", nargs="*", default=ROWS)
    a = args.parse_args()
    random.seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, mds = make_model(a.layers, folder / "w"), Mds(a.mds, folder)
        for row in a.row:
            (compare_variants if row.startswith("vcf") else compare_sequences)(model, mds, row)


main()
