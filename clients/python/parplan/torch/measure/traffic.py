"""Collectives that a layer asks for, counted as the library itself issues them."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from parplan.torch.measure.models import LayerKind
from parplan.torch.measure.passes import Pass

# Names of operators, and of collectives as in the contract, longest first where one begins another.
_COLLECTIVES = {"all_reduce": "COLLECTIVE_ALL_REDUCE",
                "all_gather_into_tensor": "COLLECTIVE_ALL_GATHER",
                "reduce_scatter_tensor": "COLLECTIVE_REDUCE_SCATTER",
                "all_to_all_single": "COLLECTIVE_ALL_TO_ALL",
                "broadcast": "COLLECTIVE_BROADCAST"}
_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional")


@dataclasses.dataclass(frozen=True)
class Message:
    """A collective with its size as nccl-tests counts it: the whole buffer."""
    collective: str
    size: int


class Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call,unused-ignore]
    """Records the functional collectives that are issued while it is entered, those of backward
    passes included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.messages: list[Message] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        if any(kind is DTensor for kind in types):
            # DTensor calls the operators of its parts, with this mode again.
            return NotImplemented
        made = function(*args, **(kwargs or {}))
        if function.namespace in _NAMESPACES:
            name = function._schema.name.partition("::")[2]
            collective = next((kind for start, kind in _COLLECTIVES.items()
                               if name.startswith(start)), None)
            if collective is not None:
                tensors = [one for one in torch.utils._pytree.tree_leaves((args[0], made))
                           if isinstance(one, torch.Tensor)]
                self.messages.append(Message(collective, max(map(_size, tensors))))
        return made


def _size(tensor: torch.Tensor) -> int:
    return math.prod(tensor.shape) * tensor.element_size()


def traffic_of(layers: Sequence[nn.Module], kind: LayerKind, samples: int, place: torch.device,
               computes_loss: bool) -> tuple[list[Message], list[Message]]:
    """Returns the collectives of one layer's forward and of its backward pass, those of the first
    of `layers`, with its output as the next layer gets it."""
    one = Pass(layers[:1], kind, samples, place, computes_loss)
    with Traffic() as forward:
        one.forward()
    with Traffic() as backward:
        one.backward()
    return forward.messages, backward.messages


def summed(messages: Sequence[Message]) -> dict[str, tuple[int, int]]:
    """Returns number and bytes of messages by collective."""
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for one in messages:
        counts[one.collective][0] += 1
        counts[one.collective][1] += one.size
    return {name: (count, size) for name, (count, size) in counts.items()}
