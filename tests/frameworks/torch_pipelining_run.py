#!/usr/bin/env python3
"""Trains one step by files of `planctl export --to torch-pipelining` and compares the gradients.

usage: torchrun --nproc-per-node N torch_pipelining_run.py FOLDER

N is the device_count of FOLDER/stages.json. Each rank makes the same small model on its processor
and keeps the modules of its stages. torch.distributed.pipelining runs FOLDER/schedule.csv over
gloo. Strategies inside stages may shard and recompute; the exit code is 2 for those that this small
model has no code for (tensor and context parallelism, experts). Every gradient must be that of one
process with all samples, to 1e-4 of its largest entry. Rank 0 prints one line of JSON with the
number of gradients that were compared and the largest difference; the exit code is 1 if one is
wrong.
"""

import copy
import json
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (CheckpointImpl,
                                                                         checkpoint_wrapper)
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.distributed.tensor import DTensor

WIDTH, TOKENS, VOCABULARY = 16, 4, 32
LARGEST_ERROR = 1e-4
WRAPPER = "_checkpoint_wrapped_module."


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Decoder(nn.Module):
    """Modules by the names of torchtitan's decoders, each of which may be absent."""

    def __init__(self, layer_count):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleDict({str(i): Block() for i in range(layer_count)})
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY)

    def keep(self, names):
        """Drops the modules that are not named; the order of a stage is that of the model."""
        for name in ("tok_embeddings", "norm", "lm_head"):
            if name not in names:
                setattr(self, name, None)
        for key in list(self.layers):
            if f"layers.{key}" not in names:
                del self.layers[key]
        return self

    def forward(self, x):
        if self.tok_embeddings is not None:
            x = self.tok_embeddings(x)
        for layer in self.layers.values():
            x = layer(x)
        if self.norm is not None:
            x = self.norm(x)
        return x if self.lm_head is None else self.lm_head(x)


def loss_of(logits, target):
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def layers_of(stage):
    return [layer["modules"] for layer in stage["layers"]]


def refuse(reason):
    print(f"torch_pipelining_run: {reason}", file=sys.stderr)
    sys.exit(2)


def check_strategies(plan):
    for index, strategy in enumerate(plan["strategies"]):
        degrees = dict(zip(strategy["mesh"]["axes"], strategy["mesh"]["shape"]))
        if degrees["tensor"] * degrees["context"] * strategy["expert_parallel_degree"] > 1:
            refuse(f"strategies[{index}] splits matrices, tokens or experts")
        if strategy["recompute"] not in ("none", "layer"):
            refuse(f"strategies[{index}] recomputes parts of a layer")


def apply_strategies(module, stage, plan, mesh):
    """Recomputes the layers that the plan says, and shards or replicates the stage."""
    kinds = set()
    for layer in stage["layers"]:
        strategy = plan["strategies"][layer["strategy"]]
        sharding = strategy["data_parallel"]
        if "shard_degree" in sharding:
            refuse("layers share states in groups of ranks, and this runner has one group")
        kinds.add((sharding["kind"], sharding.get("reshard_after_forward", False)))
        if strategy["recompute"] == "layer":
            for name in layer["modules"]:
                key = name.partition(".")[2]
                module.layers[key] = checkpoint_wrapper(
                    module.layers[key], checkpoint_impl=CheckpointImpl.NO_REENTRANT)
    if mesh.size() == 1:
        return module
    if len(kinds) > 1:
        refuse("layers of one stage differ in sharding")
    kind, reshards = kinds.pop()
    if kind == "replicate":
        return nn.parallel.DistributedDataParallel(module, process_group=mesh.get_group())
    for layer in module.layers.values():
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshards)
    return fully_shard(module, mesh=mesh, reshard_after_forward=reshards)


def gradient_of(parameter):
    gradient = parameter.grad
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient


def main(folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    plan = json.loads((folder / "stages.json").read_text())
    if plan["device_count"] != dist.get_world_size():
        refuse(f"the plan is for {plan['device_count']} ranks, this job has "
               f"{dist.get_world_size()}")
    check_strategies(plan)
    degree, width = plan["pipeline"]["degree"], plan["stages"][0]["rank_count"]
    micro_batches, batch = plan["micro_batch_count"], plan["global_batch_size"]

    torch.manual_seed(7)
    layer_count = sum(name.startswith("layers.") for stage in plan["stages"]
                      for names in layers_of(stage) for name in names)
    reference = Decoder(layer_count)
    samples = torch.randint(0, VOCABULARY, (batch, TOKENS))
    targets = torch.randint(0, VOCABULARY, (batch, TOKENS))
    ours = [copy.deepcopy(reference) for _ in plan["stages"]]
    loss_of(reference(samples), targets).backward()

    # Every rank makes all groups in one order.
    place, replica = divmod(rank, width)
    pipes = [dist.new_group([k * width + r for k in range(degree)]) for r in range(width)]
    meshes = [DeviceMesh("cpu", list(range(k * width, (k + 1) * width)), mesh_dim_names=("data",))
              for k in range(degree)]
    mine = [i for i, stage in enumerate(plan["stages"]) if stage["first_rank"] == place * width]
    stages = []
    for index in mine:
        stage = plan["stages"][index]
        module = ours[index].keep({name for names in layers_of(stage) for name in names})
        module = apply_strategies(module, stage, plan, meshes[place])
        stages.append(PipelineStage(module, index, len(plan["stages"]), torch.device("cpu"),
                                    group=pipes[replica]))
    schedule = _PipelineScheduleRuntime(stages, n_microbatches=micro_batches, loss_fn=loss_of)
    schedule._load_csv(str(folder / "schedule.csv"))

    def part(tensor):
        """Returns this replica's samples of every micro-batch."""
        return tensor.view(micro_batches, width, -1, TOKENS)[:, replica].reshape(-1, TOKENS)

    inputs = (part(samples),) if 0 in mine else ()
    is_last = len(plan["stages"]) - 1 in mine
    schedule.step(*inputs, target=part(targets) if is_last else None,
                  losses=[] if is_last else None)

    expected = dict(reference.named_parameters())
    compared = wrong = 0
    largest = 0.0
    for stage in stages:
        for name, parameter in stage.submod.named_parameters():
            name = name.replace(WRAPPER, "").removeprefix("module.")
            gradient, right = gradient_of(parameter), expected[name].grad
            compared += 1
            difference = ((gradient - right).abs().max() / right.abs().max()).item()
            largest = max(largest, difference)
            # Also where it is no number.
            if not difference <= LARGEST_ERROR:
                wrong += 1
                print(f"rank {rank}: the gradient of {name} is wrong", file=sys.stderr)
    counts = torch.tensor([compared, wrong])
    dist.all_reduce(counts)
    worst = torch.tensor(largest)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"ranks": dist.get_world_size(), "stages": len(plan["stages"]),
                          "compared": int(counts[0]), "wrong": int(counts[1]),
                          "largest_difference": worst.item()}), flush=True)
    dist.destroy_process_group()
    return 1 if counts[1] else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1])))
