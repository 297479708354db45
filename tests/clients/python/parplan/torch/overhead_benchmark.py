"""Steps of `parplan.torch.apply` beside those of hand-written FSDP2, tensor-parallel and pipeline
code for the same plan. A command, no test:

    PYTHONPATH=clients/python python tests/clients/python/parplan/torch/overhead_benchmark.py

Both run in the same two processes of gloo, in turns: a step of one, a step of the other, and who
goes first takes turns too. Printed are the median times of a step and the median of the ratios of
the pairs, with the interval that contains it with 95 % by their order: what slows a machine down
for a while slows both steps of a pair. The same follows for the time that the processors of both
ranks spent on a step, which other programs do not lengthen by taking turns with it. On a busy
machine that is the figure to read, but it does not show ranks that wait for each other. With
`--at-most` the exit code is 1 if the ratio of processor time is above it, or the whole interval of
the time that passed.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import math
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import signed_plans as plans
import torch
import torch.distributed as dist
import torch_jobs as jobs
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                               RowwiseParallel, parallelize_module)
from torch.distributed.tensor import Replicate

import parplan.torch
from parplan.strategy import Sharding, Strategy

RANKS, BATCH, MICRO_BATCHES = 2, 8, 4
ADAM = functools.partial(torch.optim.AdamW, lr=1e-4)
Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Block(nn.Module):
    """A decoder whose attention and feed-forward part are modules of their own."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_size = width // heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed_forward = Attention(width, heads), FeedForward(width)
        self.token_positions: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first_norm(x))
        return x + self.feed_forward(self.second_norm(x))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_size = width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False)
                                                      for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (matrix(x).unflatten(-1, (-1, self.head_size)).transpose(1, 2)
                             for matrix in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = (nn.Linear(width, 4 * width, bias=False),
                              nn.Linear(4 * width, width, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


TENSOR_PLAN = {**{f"*.attention.{name}": "colwise" for name in ("query", "key", "value")},
               "*.attention.out": "rowwise", "*.feed_forward.up": "colwise",
               "*.feed_forward.down": "rowwise", "*.1": "colwise_gather_output"}


def make_model(width: int, count: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(512, width), *(Block(width, 8) for _ in range(count)),
                         nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 512, bias=False)))


def sharded(model: nn.Sequential) -> Step:
    """ZeRO-3 by hand."""
    mesh = init_device_mesh("cpu", (RANKS,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = ADAM(model.parameters())
    share = BATCH // MICRO_BATCHES // RANKS
    first = dist.get_rank() * share

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        total = torch.zeros(())
        for one, target in zip(inputs.chunk(MICRO_BATCHES), targets.chunk(MICRO_BATCHES)):
            loss = jobs.loss_fn(model(one[first:first + share]),
                                target[first:first + share]) / MICRO_BATCHES
            loss.backward()
            total += loss.detach()
        optimizer.step()
        dist.all_reduce(total)
        return total / RANKS

    return step


def split(model: nn.Sequential) -> Step:
    """Tensor parallelism by hand."""
    mesh = init_device_mesh("cpu", (RANKS,))
    whole = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    parallelize_module(model[0], mesh, RowwiseParallel(input_layouts=Replicate()))
    for block in list(model)[1:-1]:
        parallelize_module(block, mesh, {
            "attention": whole, "feed_forward": whole,
            **{f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")},
            "attention.out": RowwiseParallel(), "feed_forward.up": ColwiseParallel(),
            "feed_forward.down": RowwiseParallel()})
    parallelize_module(model[-1], mesh, {"1": ColwiseParallel(output_layouts=Replicate())})
    optimizer = ADAM(model.parameters())

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        total = torch.zeros(())
        for one, target in zip(inputs.chunk(MICRO_BATCHES), targets.chunk(MICRO_BATCHES)):
            loss = jobs.loss_fn(model(one), target) / MICRO_BATCHES
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    return step


def piped(model: nn.Sequential) -> Step:
    """A pipeline of two stages by hand."""
    rank, half = dist.get_rank(), len(model) // 2
    stage = nn.Sequential(*(list(model)[:half] if rank == 0 else list(model)[half:]))
    made = PipelineStage(stage, rank, RANKS, torch.device("cpu"))
    schedule = Schedule1F1B(made, MICRO_BATCHES, loss_fn=jobs.loss_fn)
    optimizer = ADAM(stage.parameters())

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=targets, losses=losses)
        optimizer.step()
        total = torch.stack(losses).mean() if losses else torch.zeros(())
        dist.all_reduce(total)
        return total

    return step


def _stages(kind: str, count: int) -> list[list[Strategy]]:
    if kind == "sharded":
        return [[Strategy(1, RANKS, sharding=Sharding.PARAMETERS)] * count]
    if kind == "split":
        return [[Strategy(RANKS, 1)] * count]
    half = count // 2
    return [[Strategy(1, 1)] * half, [Strategy(1, 1)] * (count - half)]


BY_HAND = {"sharded": sharded, "split": split, "piped": piped}


# Seconds of a step, and those of the processor in this process.
Taken = tuple[float, float]


def measure(kind: str, width: int, tokens: int, count: int,
            pairs: int) -> list[tuple[Taken, Taken]]:
    """Returns what a step of ours and one by hand take, for each pair."""
    model = make_model(width, count)
    stages = _stages(kind, len(model))
    spec = plans.model_of(len(model), sequence_length=tokens)
    for one in spec.layer_definitions:
        one.hidden_size = width
        if one.attention_head_count:
            one.attention_head_count, one.feed_forward_size = 8, 4 * width
        else:
            one.vocabulary_size = 512
    plan = jobs.plan_of(spec, stages, batch=BATCH, micro_batch_count=MICRO_BATCHES)
    by_hand = BY_HAND[kind](copy.deepcopy(model))
    run = parplan.torch.apply(plan, model, jobs.loss_fn, optimizer=ADAM, tensor_plan=TENSOR_PLAN,
                              device="cpu")
    generator = torch.Generator().manual_seed(0)
    batch = torch.randint(0, 512, (BATCH, tokens + 1), generator=generator)
    inputs, targets = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()
    times = []
    for number in range(pairs + 3):
        pair = []
        # Who goes first takes turns as well.
        order = (run.step, by_hand) if number % 2 == 0 else (by_hand, run.step)
        losses = []
        for step in order:
            dist.barrier()
            begin, busy = time.perf_counter(), time.process_time()
            losses.append(step(inputs, targets).item())
            busy = time.process_time() - busy
            dist.barrier()
            pair.append((time.perf_counter() - begin, busy))
        if abs(losses[0] - losses[1]) > 1e-3 * losses[0]:
            raise AssertionError(f"{kind}: the losses {losses} differ in step {number}")
        times.append(tuple(pair if number % 2 == 0 else pair[::-1]))
    return times[3:]


def interval(values: list[float]) -> tuple[float, float]:
    """Returns the values between which the median is with 95 %."""
    ordered, count = sorted(values), len(values)
    reach = math.ceil(0.98 * math.sqrt(count)) + 1
    return ordered[max(0, count // 2 - reach)], ordered[min(count - 1, count // 2 + reach)]


def compared(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Returns the medians of ours and by hand, and that of their ratios with its interval."""
    ratios = [ours / theirs for ours, theirs in pairs]
    low, high = interval(ratios)
    ours, by_hand = (statistics.median(column) for column in zip(*pairs))
    return {"ours_seconds": ours, "by_hand_seconds": by_hand, "ratio": statistics.median(ratios),
            "low": low, "high": high}


def too_slow(found: dict[str, dict[str, dict[str, float]]], at_most: float) -> list[str]:
    """Returns the plans whose ratio is larger, with the time it is of. Ranks that wait, at one more
    barrier for example, burn no processor time, so the time that passed counts too: by the low end
    of its interval, since other programs widen the interval."""
    return [f"{kind} {name}" for kind, times in found.items()
            for name, end in (("processor", "ratio"), ("elapsed", "low"))
            if times[name][end] > at_most]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--kind", choices=tuple(BY_HAND), nargs="+", default=list(BY_HAND))
    parser.add_argument("--at-most", type=float, metavar="RATIO",
                        help="fail if a ratio of processor time is larger, or the low end of the "
                             "interval of the time that passed; the target is 1.03")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    flags = parser.parse_args()
    found = {}
    for kind in flags.kind:
        with tempfile.TemporaryDirectory() as folder:
            (ranks,) = jobs.run_ranks(RANKS, pathlib.Path(folder), measure, [
                (kind, flags.width, flags.tokens, flags.blocks, flags.pairs)])
        # A step ends at the same time on all ranks; their processors are added up.
        found[kind] = {
            "elapsed": compared([(ours[0], theirs[0]) for ours, theirs in ranks[0]]),
            "processor": compared([tuple(sum(one[side][1] for one in pair) for side in (0, 1))
                                   for pair in zip(*ranks)])}
        if flags.format == "text":
            for name, one in found[kind].items():
                print("{0:8} {1:9}  ours {ours_seconds:.4f} s  by hand {by_hand_seconds:.4f} s  "
                      "ratio {ratio:.3f} ({low:.3f} to {high:.3f})".format(kind, name, **one),
                      flush=True)
    if flags.format == "json":
        print(json.dumps({"torch": torch.__version__, "pairs": flags.pairs, **found}))
    if flags.at_most is not None and (slow := too_slow(found, flags.at_most)):
        sys.exit(f"above {flags.at_most}: {', '.join(slow)}")


if __name__ == "__main__":
    main()
