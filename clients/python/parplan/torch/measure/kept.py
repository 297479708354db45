"""Bytes that a layer keeps from its forward to its backward pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from parplan.torch.measure.devices import Device
from parplan.torch.measure.models import LayerKind
from parplan.torch.measure.passes import LONG, SHORT, Pass
from parplan.torch.measure.recompute import OperatorCheckpoint, with_policy
from parplan.torch.measure.splits import local_part
from parplan.torch.transformers_layers import Decoder


@dataclasses.dataclass(frozen=True)
class KeptBytes:
    """Bytes for one sample by policy of recomputation. `allocated` is what the allocator of a GPU
    counts without recomputation, or MemTracker on a processor; None where there is neither, and
    for layers that are spread over ranks on a processor."""
    by_policy: Mapping[str, int]
    allocated: int | None

    @property
    def differs(self) -> bool:
        """Whether both ways to count differ by more than 1 %."""
        own = self.by_policy["none"]
        return self.allocated is not None and abs(self.allocated - own) > 0.01 * own


def measure_kept(layers: Sequence[nn.Module], kind: LayerKind, samples: int, device: Device,
                 computes_loss: bool, policies: Sequence[str] = ("none", "full"),
                 is_alone: bool = True) -> KeptBytes:
    """Counts storages that are saved for the backward pass, each once, without those of parameters
    and of what the layer has for all passes.
    For a layer that can be chained it is the difference of two chains, so what two layers share
    counts once. `is_alone` is false for layers that are spread over ranks. Raises SpecInvalid for a
    policy that a layer cannot have."""
    def kept(policy: str) -> int:
        wrapped = [with_policy(one, policy, kind) for one in layers]
        return kept_by_one(wrapped, kind, samples, device, computes_loss)

    def allocated(length: int) -> int | None:
        return allocated_bytes(layers[:length], kind, samples, device, computes_loss)

    # First, since it calls the layers once before it counts.
    by_policy = {policy: kept(policy) for policy in policies}
    counted = None
    if device.place.type == "cuda" or (is_alone and _tracker() is not None):
        counted = _of_one(allocated, kind) // samples
    return KeptBytes(by_policy, counted)


def kept_by_one(layers: Sequence[nn.Module], kind: LayerKind, samples: int, device: Device,
                computes_loss: bool) -> int:
    """Returns the bytes that one of `layers` saves for a sample, as they are."""
    return _of_one(lambda length: saved_bytes(layers[:length], kind, samples, device,
                                              computes_loss), kind) // samples


def _of_one(bytes_of: Callable[[int], Any], kind: LayerKind) -> int:
    if not kind.is_chainable:
        return int(bytes_of(1))
    return int(bytes_of(LONG) - bytes_of(SHORT)) // (LONG - SHORT)


def saved_bytes(layers: Sequence[nn.Module], kind: LayerKind, samples: int, device: Device,
                computes_loss: bool) -> int:
    """Returns the bytes that a chain of layers saves in a forward pass."""
    # Hooks are to be no part of what torch.compile makes of a layer at its first call.
    Pass(layers, kind, samples, device.place, computes_loss).forward()
    chain = Pass(layers, kind, samples, device.place, computes_loss)
    own = {local_part(one).untyped_storage()._cdata for layer in layers
           for one in [*layer.parameters(), *layer.buffers(), *constants_of(layer)]}
    sizes: dict[int, tuple[int, torch.Tensor]] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = local_part(tensor).untyped_storage()
        if storage._cdata not in own:
            # The tensor is held, so that its storage's place is not used again.
            sizes[storage._cdata] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        chain.forward()
    for layer in layers:
        if isinstance(layer, OperatorCheckpoint):
            for tensor in layer.kept():
                pack(tensor)
    return sum(size for size, _ in sizes.values())


def constants_of(layer: nn.Module) -> list[torch.Tensor]:
    """Returns what a layer made in its first pass for all others."""
    return [one for part in layer.modules() if isinstance(part, Decoder)
            for one in part.constants]


def allocated_bytes(layers: Sequence[nn.Module], kind: LayerKind, samples: int, device: Device,
                    computes_loss: bool) -> int:
    """Returns the bytes that are allocated after a forward pass and were not before it."""
    chain = Pass(layers, kind, samples, device.place, computes_loss)
    before = device.allocated_bytes()
    if before is not None:
        chain.forward()
        return (device.allocated_bytes() or 0) - before
    tracker: Any = _tracker()()
    # Views of what was there before would count as new.
    tracker.track_external(*layers, *(one for layer in layers for one in constants_of(layer)))
    with tracker:
        before = _total(tracker)
        chain.forward()
        return _total(tracker) - before


def _tracker() -> Any:
    try:
        from torch.distributed._tools.mem_tracker import MemTracker
    except ImportError:
        return None
    return MemTracker


def _total(tracker: Any) -> int:
    return sum(sizes["Total"] for sizes in tracker.get_tracker_snapshot("current").values())
