"""Layers of 16 bits as jobs train them: with parameters of 32 bits that each pass makes copies of.

The copies, and the gradients that go back to 32 bits, move many bytes: on a GPU they can take as
long as the products of a micro-batch with few tokens. `precision="bf16"` of `apply` does so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from parplan.torch.precision import Cast

# Layers with parameters of these types are trained so.
COPIED = (torch.bfloat16,)


class Copied(nn.Module):
    """A layer that computes with copies of its parameters."""

    def __init__(self, layer: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = layer
        self._cast = Cast(layer, dtype)

    def forward(self, hidden: torch.Tensor) -> Any:
        return self._cast(hidden)


def type_of(layer: nn.Module) -> torch.dtype | None:
    """Returns the type of a layer's parameters, or None if it has none with fractions."""
    return next((one.dtype for one in layer.parameters() if one.is_floating_point()), None)


@contextlib.contextmanager
def with_masters(layers: Sequence[nn.Module]) -> Iterator[list[nn.Module]]:
    """Gives layers of a type of COPIED parameters of 32 bits within the block, and yields them as
    modules that compute with copies. Other layers are yielded as they are."""
    dtypes = [type_of(layer) for layer in layers]
    before: list[tuple[nn.Module, str, nn.Parameter]] = [
        (part, name, parameter) for layer, dtype in zip(layers, dtypes) if dtype in COPIED
        for part in layer.modules() for name, parameter in part._parameters.items()
        if parameter is not None and parameter.is_floating_point()]
    masters: dict[int, nn.Parameter] = {}
    for part, name, parameter in before:
        if id(parameter) not in masters:
            masters[id(parameter)] = nn.Parameter(parameter.detach().float(),
                                                  requires_grad=parameter.requires_grad)
        part._parameters[name] = masters[id(parameter)]
    try:
        yield [Copied(layer, dtype) if dtype in COPIED and dtype is not None else layer
               for layer, dtype in zip(layers, dtypes)]
    finally:
        for part, name, parameter in before:
            # Memory of gradients is needed by what is measured next.
            parameter.grad = None
            part._parameters[name] = parameter
