"""Parts of parameters: how a whole tensor is cut over the ranks of a mesh, and modules that run
with their rank's parts instead of their parameters."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement, _StridedShard


@dataclasses.dataclass(frozen=True)
class Cut:
    """The dimension of a tensor that ranks share. It may have equal pieces, such as the matrices of
    queries, keys and values in one: then each rank has its part of every piece."""
    dimension: int
    pieces: int = 1

    def divides(self, shape: Sequence[int], count: int) -> bool:
        """Returns whether `count` ranks get equal parts of a tensor of this shape."""
        return shape[self.dimension] % (self.pieces * count) == 0

    def part_of(self, whole: torch.Tensor, count: int, place: int) -> torch.Tensor:
        """Returns the part at `place` of `count`, which divides the tensor."""
        dimension = self.dimension
        parts = torch.unflatten(whole, dimension, (self.pieces, count, -1))
        return parts.select(dimension + 1, place).flatten(dimension, dimension + 1)

    @property
    def placement(self) -> Placement:
        if self.pieces == 1:
            return Shard(self.dimension)
        strided: Any = _StridedShard
        made: Placement = strided(self.dimension, split_factor=self.pieces)
        return made


def cut_parameter(whole: nn.Parameter, mesh: DeviceMesh, cuts: Sequence[Cut]) -> nn.Parameter:
    """Returns a parameter with this rank's part of one that all ranks have: the first dimension of
    `mesh` shares it as the first of `cuts` says, and so on. Each divides its tensor."""
    part = whole.detach()
    for axis, cut in enumerate(cuts):
        part = cut.part_of(part, mesh.size(axis), mesh.get_local_rank(axis))
    # Always a copy: rows that lie together would else be a view that keeps all of the memory.
    part = part.clone(memory_format=torch.contiguous_format)
    spread = DTensor.from_local(part, mesh, [cut.placement for cut in cuts], run_check=False,
                                shape=whole.shape, stride=whole.stride())
    return nn.Parameter(spread, requires_grad=whole.requires_grad)


def local_of(tensor: Any) -> torch.Tensor:
    """Returns this rank's part of a tensor."""
    part: torch.Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return part


def in_pieces(tensor: Any, cut: Cut | None) -> Any:
    """Returns a view of the same memory with a dimension for the pieces, if the tensor has some."""
    if cut is None or tensor.dim() <= cut.dimension:
        return tensor
    dimension = cut.dimension
    sizes = (cut.pieces, -1)
    if not isinstance(tensor, DTensor):
        return torch.unflatten(tensor, dimension, sizes)
    placements = []
    for placement in tensor.placements:
        place: Any = getattr(placement, "dim", None)
        # The dimension of the pieces is shared within each, and later ones are one further.
        placements.append(placement if place is None or place < dimension else Shard(place + 1))
    shape = torch.Size([*tensor.shape[:dimension], cut.pieces,
                        tensor.shape[dimension] // cut.pieces, *tensor.shape[dimension + 1:]])
    local = torch.unflatten(tensor.to_local(), dimension, sizes)
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(local, tensor.device_mesh, placements, run_check=False, shape=shape,
                              stride=stride)


def whole_of(tensor: Any, cut: Cut | None) -> torch.Tensor:
    """Returns the whole of a tensor that the ranks of a mesh share, on each of them. `cut` is that
    of a parameter in pieces (`Spread.pieces`), None for others. PyTorch 2.11 gathers no pieces, so
    they are gathered as a tensor with a dimension for them."""
    if not isinstance(tensor, DTensor):
        made: torch.Tensor = tensor
        return made
    is_alone = cut is not None and sum(
        getattr(placement, "dim", None) == cut.dimension for placement in tensor.placements) == 1
    if cut is None or not is_alone:
        # Ranks of another dimension of the mesh may share the pieces again.
        made = tensor.full_tensor()
        return made
    made = in_pieces(tensor, cut).full_tensor()
    return made.flatten(cut.dimension, cut.dimension + 1)


def entered(rows: torch.Tensor, mesh: DeviceMesh, dimension: int | None) -> torch.Tensor:
    """Returns all rows of the ranks of `mesh`, which share them along `dimension`, or each have all
    of them if that is None. Each rank then has a summand of their gradient, which is added up."""
    spread = DTensor.from_local(rows, mesh, [_layout(dimension)], run_check=False)
    whole: torch.Tensor = spread.redistribute(placements=[Replicate()]).to_local(
        grad_placements=[Partial()])
    return whole


def left(summand: torch.Tensor, mesh: DeviceMesh, dimension: int | None) -> torch.Tensor:
    """Returns the sum of what the ranks of `mesh` have, or a rank's share of it along
    `dimension`."""
    spread = DTensor.from_local(summand, mesh, [Partial()], run_check=False)
    made: torch.Tensor = spread.redistribute(placements=[_layout(dimension)]).to_local()
    return made


def _layout(dimension: int | None) -> Placement:
    return Replicate() if dimension is None else Shard(dimension)


Swap = Callable[[torch.Tensor], torch.Tensor]


@contextlib.contextmanager
def swapped(places: Sequence[tuple[nn.Module, str, Swap]]) -> Iterator[None]:
    """Puts what `Swap` makes of a parameter in its place, for modules and names of their own
    parameters, until the end of the block. Gradients go to the parameters."""
    before = [module._parameters[name] for module, name, _ in places]
    made = [swap(parameter) if parameter is not None else None
            for parameter, (_, _, swap) in zip(before, places)]
    try:
        for (module, name, _), value in zip(places, made):
            module._parameters[name] = value  # type: ignore[assignment]
        yield
    finally:
        for (module, name, _), parameter in zip(places, before):
            module._parameters[name] = parameter
