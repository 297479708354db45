"""The time that `fully_shard` adds to the passes over layers on processors.

There its collectives run beside nothing: streams of processors do nothing, and calls of gloo return
when they are done. Beside them parameters and gradients are copied into messages and out of them,
and ranks wait for each other at each layer. So the job's own way is timed, by layers of the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from parplan.strategy import Sharding, Strategy
from parplan.torch.data_parallel import LayerGradients
from parplan.torch.measure.masters import COPIED
from parplan.torch.measure.models import LayerKind, Model
from parplan.torch.measure.passes import LONG, Pass
from parplan.torch.measure.steady import Bench
from parplan.torch.stage import gather_ahead


@dataclasses.dataclass(frozen=True)
class ShardingTimes:
    """Medians of the slowest rank, of a forward and a backward pass over a chain of layers: seconds
    with whole and with sharded parameters, and of the messages of the latter alone."""
    whole: float
    sharded: float
    messages: float
    # The time that sharding adds, over that of its messages. It is the median of repetitions, in
    # each of which all three were timed one after the other: whatever slows a machine down for a
    # while slows all of them down.
    ratio: float

    @property
    def slowdown(self) -> float:
        """The k, at least 1, for which `max(a, b) + (k - 1) min(a, b)` is the time of computation a
        and shorter messages b. Without overlap and copies it is 2."""
        return max(1.0, 1.0 + self.ratio)


def can_measure_sharding(device_type: str, dtype: torch.dtype, model: Model) -> bool:
    """Returns whether `measure_sharding` measures the model: on processors, where this release of
    PyTorch shards layers there, and with layers that can follow each other and are sharded as they
    are, without copies of 16 bits."""
    return (device_type == "cpu" and hasattr(torch.cpu.Stream, "record_event")
            and dtype not in COPIED and largest_chain(model) is not None)


def largest_chain(model: Model) -> LayerKind | None:
    """Returns the layer with the most parameters among those that can follow each other and that
    `fully_shard` takes, or None."""
    kinds = [kind for kind in model.kinds if kind.is_chainable and _can_shard(kind.module)]
    return max(kinds, key=lambda kind: kind.parameter_count, default=None)


def _can_shard(layer: nn.Module) -> bool:
    """Returns whether a layer has parameters, and only such that jobs shard (refusals.py)."""
    parameters = list(layer.parameters())
    return len({one.dtype for one in parameters}) == 1 and all(
        one.dim() > 0 and one.is_contiguous() for one in parameters)


def measure_sharding(bench: Bench, model: Model, samples: int) -> ShardingTimes:
    """Measures chains of `LONG` copies of the layer of `largest_chain`, whose parameters all ranks
    share. Collective over the job, which has at least two ranks."""
    kind, place = largest_chain(model), bench.device.place
    assert kind is not None
    whole = Pass(model.on_device(kind, place, LONG), kind, samples, place, False)
    stage = sharded_stage(model.on_device(kind, place, LONG), bench.job.count)
    sharded = Pass([stage], kind, samples, place, False)
    parts = [_Messages(kind, bench.job.count, place) for _ in range(LONG)]

    def send() -> None:
        for one in parts:
            one.send()

    def timed(chain: Pass) -> float:
        bench.job.barrier()
        return bench.device.time(chain.forward) + bench.device.time(chain.backward)

    def sample() -> list[float]:
        # The cost model adds the time to add up parts of gradients.
        for one in stage.parameters():
            one.grad = None
        alone, both = timed(whole), timed(sharded)
        bench.job.barrier()
        messages = bench.device.time(send)
        return [alone, both, messages, max((both - alone) / messages, 1e-9)]

    alone, both, messages, ratio = bench.measure(sample)
    return ShardingTimes(alone.median, both.median, messages.median, ratio.median)


def sharded_stage(layers: Sequence[nn.Module], ranks: int) -> nn.Module:
    """Returns layers, one after the other, sharded as stages of jobs are with ZeRO-3."""
    mesh = init_device_mesh("cpu", (ranks,))
    strategy = Strategy(data_parallel_degree=ranks, sharding=Sharding.PARAMETERS)
    units = [module for layer in layers
             for module in LayerGradients(layer, strategy, mesh, mesh, set()).sharded]
    stage = nn.Sequential(*units)
    fully_shard(stage, mesh=mesh)
    gather_ahead(units, units[::-1])
    return stage


class _Messages:
    """The collectives of a sharded layer in both passes."""

    def __init__(self, kind: LayerKind, ranks: int, place: torch.device) -> None:
        count, dtype = -(-kind.parameter_count // ranks), next(kind.module.parameters()).dtype
        self._part = torch.zeros(count, dtype=dtype, device=place)
        self._whole = torch.zeros(count * ranks, dtype=dtype, device=place)

    def send(self) -> None:
        for _ in range(2):
            dist.all_gather_into_tensor(self._whole, self._part)
        dist.reduce_scatter_tensor(self._part, self._whole)
