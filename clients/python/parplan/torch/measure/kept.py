"""Bytes that a layer keeps from its forward to its backward pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from parplan.torch.measure.models import LayerKind
from parplan.torch.measure.passes import LONG, SHORT, Pass


@dataclasses.dataclass(frozen=True)
class KeptBytes:
    """Bytes for one sample, by what is recomputed. `tracked` is what MemTracker counts without
    recomputation, None where this release of PyTorch has none."""
    nothing_recomputed: int
    full: int
    tracked: int | None


def measure_kept(layers: Sequence[nn.Module], kind: LayerKind, samples: int, device: torch.device,
                 computes_loss: bool) -> KeptBytes:
    """Counts storages that autograd saves, each once, without those of parameters. For a layer that
    can be chained it is the difference of two chains, so what two layers share counts once."""
    def kept(wrap: Callable[[nn.Module], nn.Module]) -> int:
        if not kind.is_chainable:
            return _saved(list(map(wrap, layers[:1])), kind, samples, device, computes_loss)
        short, long = (_saved(list(map(wrap, layers[:length])), kind, samples, device, False)
                       for length in (SHORT, LONG))
        return (long - short) // (LONG - SHORT)

    return KeptBytes(kept(lambda layer: layer) // samples, kept(_Full) // samples,
                     _tracked(layers, kind, samples, device, computes_loss))


class _Full(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, hidden: torch.Tensor) -> Any:
        return checkpoint(self.layer, hidden, use_reentrant=False)


def _saved(layers: Sequence[nn.Module], kind: LayerKind, samples: int, device: torch.device,
           computes_loss: bool) -> int:
    own = {one.untyped_storage()._cdata for layer in layers
           for one in [*map(_local, layer.parameters()), *layer.buffers()]}
    sizes: dict[int, tuple[int, torch.Tensor]] = {}
    chain = Pass(layers, kind, samples, device, computes_loss)

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = _local(tensor).untyped_storage()
        if storage._cdata not in own:
            # The tensor is held, so that its storage's place is not used again.
            sizes[storage._cdata] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        chain.forward()
    return sum(size for size, _ in sizes.values())


def _local(tensor: Any) -> torch.Tensor:
    part: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part


def _tracked(layers: Sequence[nn.Module], kind: LayerKind, samples: int, device: torch.device,
             computes_loss: bool) -> int | None:
    """Returns the bytes of one sample that are allocated after a forward pass and not before it."""
    try:
        from torch.distributed._tools.mem_tracker import MemTracker
    except ImportError:
        return None

    def allocated(length: int) -> int:
        chain = Pass(layers[:length], kind, samples, device, computes_loss)
        tracker = MemTracker()
        tracker.track_external(*layers[:length])
        with tracker:
            before = _total(tracker)
            chain.forward()
            return _total(tracker) - before

    if not kind.is_chainable:
        return allocated(1) // samples
    return (allocated(LONG) - allocated(SHORT)) // (LONG - SHORT) // samples


def _total(tracker: Any) -> int:
    return sum(sizes["Total"] for sizes in tracker.get_tracker_snapshot("current").values())
