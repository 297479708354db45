"""Moves around the modules of a tensor-parallel block: activations become whole for it, and
its modules that are not split get them as plain tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from parplan.torch.layers import refused
from parplan.torch.parts import entered

# Names of the parameter that takes activations, for blocks that do not get them by place.
_ACTIVATIONS = ("hidden_states", "hidden", "x", "input")


class Entry:
    """Makes the first activations that a block gets whole once for all of its matrices, so that
    their gradients are added up once as well."""

    def __init__(self, index: int, name: str, mesh: DeviceMesh, dimension: int | None) -> None:
        """`index` is that of the layer, `name` that of the block within the model. Ranks share the
        tokens along `dimension`, or each have all of them if that is None."""
        self._index, self._name = index, name
        self._mesh = mesh
        self._placement = Replicate() if dimension is None else Shard(dimension)

    def __call__(self, _: nn.Module, args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if args and isinstance(args[0], torch.Tensor):
            return (self._whole(args[0]), *args[1:]), kwargs
        for name in _ACTIVATIONS:
            if isinstance(kwargs.get(name), torch.Tensor):
                return args, {**kwargs, name: self._whole(kwargs[name])}
        raise refused(self._index, f"{self._name} does not get its activations as the first "
                      f"argument or as one of {', '.join(_ACTIVATIONS)}, so they cannot be made "
                      "whole for its matrices; call it with them so")

    def _whole(self, rows: torch.Tensor) -> torch.Tensor:
        if isinstance(rows, DTensor):
            return rows
        return DTensor.from_local(rows, self._mesh, [self._placement],
                                  run_check=False).redistribute(placements=[Replicate()])


class OwnTokens:
    """Leaves each rank its share of the tokens of what a module returns that is whole on all."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self._mesh = mesh

    def __call__(self, _: nn.Module, args: tuple[Any, ...], rows: torch.Tensor) -> torch.Tensor:
        return rows.chunk(self._mesh.size(), -2)[self._mesh.get_local_rank()]


def local_arguments(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Gives a module whose parameters are plain tensors plain activations, whole on every rank. So
    is the gradient of what it returns, and each rank has all of the gradient of its parameters."""
    return tuple(one.to_local() if isinstance(one, DTensor) else one for one in args)


class ToAllHeads:
    """Adds up the gradients of the last columns that a module returns. In multi-head latent
    attention the others go to matrices that are split, which add up theirs; these have the
    positions of the keys, and go to the heads of every rank as they are."""

    def __init__(self, mesh: DeviceMesh, size: int | None) -> None:
        assert size is not None
        self._mesh, self._size = mesh, size

    def __call__(self, _: nn.Module, args: tuple[Any, ...], made: torch.Tensor) -> torch.Tensor:
        others, rotated = torch.split(made, [made.shape[-1] - self._size, self._size], -1)
        return torch.cat([others, entered(rotated, self._mesh, None)], -1)


def rotated_size(block: Any) -> int | None:
    """Returns how many of the columns that the latent projection of an attention block returns are
    positions; None if the block does not say it."""
    for place in (block, getattr(block, "config", None)):
        size = getattr(place, "qk_rope_head_dim", None)
        if isinstance(size, int):
            return size
    return None
