"""Times of the forward and the backward pass over one layer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from parplan.torch.measure.devices import Device
from parplan.torch.measure.models import LayerKind
from parplan.torch.measure.steady import Bench, Effort, Spread

# Differences of two lengths leave out what comes once a chain, such as the first gradient.
SHORT, LONG = 2, 4


@dataclasses.dataclass(frozen=True)
class PassTimes:
    """Times of one layer for one micro-batch."""
    forward: Spread
    backward: Spread
    # Notes for a reader, or empty.
    note: str


class Pass:
    """A chain of layers with its input; makes one forward and one backward pass at a time."""

    def __init__(self, layers: Sequence[nn.Module], kind: LayerKind, samples: int,
                 place: torch.device, computes_loss: bool) -> None:
        """With `computes_loss` the output is that of the head and cross entropy follows it."""
        self._layers = layers
        self._given = kind.given.make(samples, place, kind.upper)
        if self._given.is_floating_point():
            self._given.requires_grad_()
        self._targets: torch.Tensor | None = None
        if computes_loss:
            shape = (samples, *kind.returned.shape)
            self._targets = torch.randint(0, shape[-1], (math.prod(shape[:-1]),), device=place)
        self.result: torch.Tensor = self._given

    def forward(self) -> None:
        value = self._given
        for layer in self._layers:
            value = layer(value)
        if self._targets is not None:
            value = nn.functional.cross_entropy(value.flatten(0, -2).float(), self._targets)
        _wait(value)
        self.result = value

    def backward(self) -> None:
        torch.autograd.backward(self.result, torch.ones_like(self.result))
        self.result = self._given
        _wait(self._given.grad)
        # Chains of other sizes follow, which need the memory.
        self._given.grad = None


def _wait(tensor: torch.Tensor | None) -> None:
    """Waits for a functional collective if the tensor is its result."""
    if isinstance(tensor, AsyncCollectiveTensor):
        result: Any = tensor
        result.trigger_wait()


def measure_passes(layers: Sequence[nn.Module], kind: LayerKind, sizes: Sequence[int],
                   bench: Bench, computes_loss: bool) -> dict[int, PassTimes]:
    """Returns the times of one of `layers`, by the number of samples; `layers` are copies of one
    layer: as many as `LONG` if it is chainable, else one. All sizes are measured in turns, so that
    what slows the machine down for a while slows all of them down, and their order is right."""
    each = [_Sample(layers, kind, samples, bench.device, computes_loss) for samples in sizes]

    def all_once() -> list[float]:
        return [seconds for one in each for seconds in one.once()]

    spreads = bench.measure(all_once, count=len(each))
    width = len(spreads) // len(each)
    return {samples: one.times_of(spreads[place * width:(place + 1) * width], bench.effort)
            for place, (samples, one) in enumerate(zip(sizes, each))}


class _Sample:
    """Passes over copies of a layer, for one number of samples."""

    def __init__(self, layers: Sequence[nn.Module], kind: LayerKind, samples: int, device: Device,
                 computes_loss: bool) -> None:
        self._device, self._is_chain = device, kind.is_chainable
        lengths = (SHORT, LONG) if kind.is_chainable else (1,)
        self._passes = [Pass(layers[:length], kind, samples, device.place,
                             computes_loss and not kind.is_chainable) for length in lengths]

    def once(self) -> list[float]:
        """Returns the times of a forward and a backward pass over one layer; of a chain, also those
        of its layers with what comes once a chain."""
        found = [[self._device.time(one.forward), self._device.time(one.backward)]
                 for one in self._passes]
        if not self._is_chain:
            return found[0]
        short, long = found
        return [*((b - a) / (LONG - SHORT) for a, b in zip(short, long)),
                *(b / LONG for b in long)]

    def times_of(self, spreads: Sequence[Spread], effort: Effort) -> PassTimes:
        if not self._is_chain:
            return _times(spreads[:2], effort, "")
        if min(one.median for one in spreads[:2]) > 0:
            return _times([better_known(difference, part, effort.target)
                           for difference, part in zip(spreads[:2], spreads[2:])], effort, "")
        # On a busy machine a longer chain may take no longer.
        return _times(spreads[2:], effort,
                      f"a chain of {LONG} layers took no longer than one of {SHORT}, so each has a "
                      f"part of the chain of {LONG}")


def better_known(difference: Spread, part: Spread, target: float) -> Spread:
    """Returns the time of a layer: the difference between two chains or, if that is not known to
    `target`, the part of a layer of the longer one, where it is better known and within what is
    known of the difference. Noise of two chains is in their difference, which is smaller than both;
    what comes once a chain is in the part."""
    reach = difference.uncertainty * difference.median
    is_within = abs(part.median - difference.median) <= reach
    if target < difference.uncertainty and part.uncertainty < difference.uncertainty and is_within:
        return part
    return difference


def _times(spreads: Sequence[Spread], effort: Effort, note: str) -> PassTimes:
    worst = max(one.uncertainty for one in spreads)
    if worst > effort.target:
        known = "not known" if math.isinf(worst) else f"known only to {100 * worst:.0f} %"
        late = (f"its medians are {known} after {spreads[0].count} repetitions; "
                f"wanted were {100 * effort.target:.0f} %")
        note = f"{note}; {late}" if note else late
    return PassTimes(spreads[0], spreads[1], note)
