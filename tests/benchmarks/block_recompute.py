#!/usr/bin/env python3
"""Prints the best even plans of Megatron-LM by their recomputation, block recomputation included.

usage: block_recompute.py --planctl PROGRAM --cluster FILE [--nodes N] [--sequence N] [--batch N]

Predicts Llama-3-70B under every combination of tensor and pipeline degree, virtual stages and
micro-batch size with equally many layers in each stage: without recomputation, of attention, of
all layers, and, if the first does not fit, of the first n layers of each stage for every n.
docs/targets.md has the figures.
"""

import argparse
import itertools
import json
import pathlib
import re
import subprocess

LAYERS = 80
MODEL = (f"--num-layers {LAYERS} --hidden-size 8192 --ffn-hidden-size 28672 "
         "--num-attention-heads 64 --group-query-attention --num-query-groups 8 "
         "--vocab-size 128256 --swiglu --normalization RMSNorm --disable-bias-linear "
         "--position-embedding-type rope --untie-embeddings-and-output-weights --bf16 "
         "--sequence-parallel --use-distributed-optimizer --overlap-grad-reduce "
         "--overlap-param-gather")
FULL = "--recompute-granularity full --recompute-method"
KINDS = {"none": "", "attention": "--recompute-granularity selective --recompute-modules core_attn",
         "all": f"{FULL} uniform --recompute-num-layers 1"}
FACTORS = {"s": 1.0, "ms": 1e-3}


def predict(flags, arguments):
    """Returns step time in seconds and whether the plan fits; None for a plan that is refused."""
    command = [flags.planctl, "evaluate", "--megatron-args", arguments, "--cluster", flags.cluster,
               "--allow-estimates"] + (["--nodes", str(flags.nodes)] if flags.nodes else [])
    text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False).stdout
    step = re.search(r"step time +([\d.]+) (m?s),", text)
    memory = re.search(r"at most ([\d.]+) GB of ([\d.]+) GB", text)
    if not step or not memory:
        return None
    return (float(step[1]) * FACTORS[step[2]], float(memory[1]) <= float(memory[2]))


def device_count(flags):
    group = json.loads(pathlib.Path(flags.cluster).read_text())["node_groups"][0]
    return (flags.nodes or group["node_count"]) * group["devices_per_node"]


def shapes(flags, devices):
    """Lists degrees, virtual stages and micro-batch sizes of even plans."""
    for tensor, pipeline, virtual, micro in itertools.product(
            (1, 2, 4, 8), (2, 4, 5, 8, 10, 16), (1, 2, 4, 5, 8, 10, 20), (1, 2)):
        whole = micro * devices // (tensor * pipeline)
        if devices % (tensor * pipeline) == 0 and LAYERS % (pipeline * virtual) == 0 and (
                whole > 0 and flags.batch % whole == 0):
            yield tensor, pipeline, virtual, micro


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=128)
    flags = parser.parse_args()
    best, tried = {}, 0
    for tensor, pipeline, virtual, micro in shapes(flags, device_count(flags)):
        arguments = (f"{MODEL} --seq-length {flags.sequence} --micro-batch-size {micro} "
                     f"--global-batch-size {flags.batch} --tensor-model-parallel-size {tensor} "
                     f"--pipeline-model-parallel-size {pipeline}")
        if virtual > 1:
            arguments += f" --num-virtual-stages-per-pipeline-rank {virtual}"
        kinds = dict(KINDS)
        per_stage = LAYERS // (pipeline * virtual)
        while kinds:
            kind, further = next(iter(kinds.items()))
            del kinds[kind]
            found = predict(flags, f"{arguments} {further}")
            tried += 1
            if kind == "none" and found and not found[1]:
                kinds |= {f"block {n}": f"{FULL} block --recompute-num-layers {n}"
                          for n in range(1, per_stage)}
            if found and found[1]:
                name = kind.split()[0]
                plan = f"{kind}, tp {tensor} pp {pipeline} vpp {virtual} micro-batch {micro}"
                best[name] = min(best.get(name, (float("inf"), "")), (found[0], plan))
    print(f"{tried} plans")
    for name in ("none", "attention", "all", "block"):
        step, plan = best.get(name, (None, "nothing fits"))
        print(f"{name:10} " + (plan if step is None else f"{step:.4g} s  {plan}"))


if __name__ == "__main__":
    main()
