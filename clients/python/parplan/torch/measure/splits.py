"""Layers as one rank of a tensor-parallel group has them, with its messages or without.

On processors layers are timed with them, and what planners add for them is subtracted
(layer_times.py). On GPUs the group is one of torch's `fake` backend, whose collectives return at
once: a layer then does all that it does between its collectives, launches them, and has tensors of
the right shapes. So the time of a pass is its computation, nothing is subtracted, and no rank waits
for another. The values are none of the model's. Ranks that measure at once share caches and memory
as they do in training.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from parplan.errors import SpecInvalid, field_error
from parplan.strategy import Strategy
from parplan.torch.measure.job import Job
from parplan.torch.measure.models import LayerKind, Model, draw
from parplan.torch.tensor_parallel import split_layer


@dataclasses.dataclass(frozen=True)
class Split:
    """A way to share a layer: by `degree` ranks, which also share the tokens of activations between
    its blocks with `sequence_parallel`."""
    degree: int = 1
    sequence_parallel: bool = False

    @property
    def strategy(self) -> Strategy:
        return Strategy(tensor_parallel_degree=self.degree,
                        sequence_parallel=self.sequence_parallel)

    def __str__(self) -> str:
        if self.degree == 1:
            return "one rank"
        return f"{self.degree} tensor-parallel ranks" + (
            " that share tokens" if self.sequence_parallel else "")


class SplitLayers:
    """Makes layers of a model split in one way. All ranks of the job make it at the same time."""

    def __init__(self, model: Model, split: Split, job: Job, place: torch.device,
                 backend: str = "fake") -> None:
        """`backend` is that of the tensor-parallel groups, of neighbouring ranks. Raises
        SpecInvalid if the degree does not divide the ranks of the job."""
        self._model, self.split, self._place = model, split, place
        self._mesh: DeviceMesh | None = None
        if job.count % split.degree:
            raise field_error("SPEC_INVALID", "--tensor-parallel",
                              f"{split.degree} does not divide the {job.count} ranks")
        if split.degree > 1:
            self._mesh = tensor_mesh(job, split.degree, place.type, backend)

    def kind_of(self, kind: LayerKind) -> LayerKind:
        """Returns a layer as it is called. Raises SpecInvalid if its tokens cannot be shared."""
        if not self.split.sequence_parallel:
            return kind
        if kind.given.shape and kind.given.shape[0] % self.split.degree:
            raise field_error("SPEC_INVALID", "--tensor-parallel",
                              f"{kind.given.shape[0]} tokens cannot be shared by "
                              f"{self.split.degree} ranks")
        return kind.sharing_tokens(self.split.degree)

    def make(self, kind: LayerKind, count: int) -> list[nn.Module]:
        """Returns copies of a layer of the model, each split before the next is made. Raises
        SpecInvalid if the model's plan does not say how."""
        return [self._make(kind) for _ in range(count)]

    def _make(self, kind: LayerKind) -> nn.Module:
        layer, names = self._model.copy(kind, self._place)
        if self._mesh is None:
            return layer
        try:
            split_layer(kind.indices[0], layer, names, self.split.strategy,
                        self._model.tensor_plan, self._mesh)
        except SpecInvalid:
            raise
        except (RuntimeError, ValueError) as error:
            raise field_error("SPEC_INVALID", f"layer {kind.indices[0]}",
                              f"cannot be split over {self.split.degree} ranks: {error}") from None
        if hasattr(layer, "token_positions"):
            tokens = kind.given.shape[0]
            vars(layer)["token_positions"] = torch.arange(tokens, device=self._place)
        # Splitting sends values, which a group without messages does not.
        with torch.no_grad():
            draw(part for part in map(local_part, layer.parameters())
                 if part.is_floating_point())
        return layer


def tensor_mesh(job: Job, degree: int, device_type: str, backend: str) -> DeviceMesh:
    """Returns the mesh of the `degree` neighbours of this rank. Collective over the job."""
    if backend == "fake":
        # Registers the backend.
        import torch.testing._internal.distributed.fake_pg  # noqa: F401
    mine: Any = None
    for first in range(0, job.count, degree):
        members = list(range(first, first + degree))
        made = dist.new_group(members, backend=backend)
        if job.rank in members:
            mine = made
    return DeviceMesh.from_group(mine, device_type)


def local_part(tensor: Any) -> torch.Tensor:
    """Returns this rank's memory of a tensor, without a record for its gradient."""
    if isinstance(tensor, DTensor):
        tensor = tensor._local_tensor
    # A functional collective whose result was not awaited returns a wrapper of the tensor.
    inner = getattr(tensor, "elem", None)
    part: torch.Tensor = inner if isinstance(inner, torch.Tensor) else tensor
    return part


def local_count(layer: nn.Module) -> int:
    """Returns the number of parameters of a layer on this rank."""
    return sum(local_part(one).numel() for one in layer.parameters())
