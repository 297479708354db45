"""Tensor parallelism of blocks whose modules DTensor does not split: those with the matrices of
GPT-2, which are transposed and have queries, keys and values in one.

Such a block runs with its rank's parts of the matrices as plain tensors. What goes in is made whole
once, and what comes out of the last matrix is a summand, which is added up once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from parplan.torch.layers import Wrapper, refused
from parplan.torch.parts import Cut, Swap, cut_parameter, entered, left, local_of, swapped

_TOKENS = 1  # The dimension along which sequence parallelism shares activations.
_COLUMNS = {"colwise": 1, "local_colwise": 1, "packed_colwise": 2, "packed_colwise:3": 3}
_ROWS = {"rowwise", "local_rowwise"}


def is_transposed(module: nn.Module) -> bool:
    """Returns whether the matrix of a module is `[inputs, outputs]`: Conv1D of transformers."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def local_blocks(layer: nn.Module) -> list[nn.Module]:
    """Returns the modules of a layer that this file is for."""
    return [module for module in layer.modules()
            if any(is_transposed(child) for child in module.children())]


def check_block(index: int, layer: nn.Module, block: nn.Module, styles: Mapping[int, str],
                degree: int) -> list[nn.Module]:
    """Returns the modules of a block that have parameters. Raises SpecInvalid naming the layer if
    `degree` ranks cannot split the block; `styles` as for `split_block`. Needs no ranks."""
    if block is (layer.layer if isinstance(layer, Wrapper) else layer):
        raise refused(index, "Conv1D outside of a block that only gives its input to matrices is "
                      "not split")
    given = [module for module in block.modules()
             if next(module.parameters(recurse=False), None) is not None]
    found = {styles.get(id(module), "nothing") for module in given}
    if not found <= {*_COLUMNS, *_ROWS} or not found & _ROWS:
        raise refused(index, f"{type(block).__name__} is to be split, and the model's "
                      f"tensor-parallel plan says {', '.join(sorted(found))} for its modules; "
                      f"known are {', '.join(sorted({*_COLUMNS, *_ROWS}))}, the last one by rows")
    for module in given:
        _cuts(index, module, styles[id(module)], degree)
    return given


def split_block(index: int, layer: nn.Module, block: nn.Module, styles: Mapping[int, str],
                mesh: DeviceMesh, by_tokens: bool) -> set[nn.Parameter]:
    """Splits the matrices of a block over `mesh`. `styles` has those of its modules, by id. With
    `by_tokens` the block gets and returns its rank's share of the tokens. Returns the parameters of
    which each rank has a summand of the gradient. Raises SpecInvalid naming the layer if the block
    cannot be split."""
    given = check_block(index, layer, block, styles, mesh.size())
    places: list[tuple[nn.Module, str, Swap]] = []
    partial: set[nn.Parameter] = set()
    for module in given:
        style = styles[id(module)]
        cuts = _cuts(index, module, style, mesh.size())
        for name, parameter in list(module.named_parameters(recurse=False)):
            cut = cuts.get(name)
            if cut is not None and cut.pieces > 1 and parameter.dim() == 1:
                # Its one dimension is also that over which replicas share it, so it stays whole.
                partial.add(parameter)
                places.append((module, name, _Taken(cut, mesh)))
            elif cut is not None:
                module._parameters[name] = cut_parameter(parameter, mesh, [cut])
                places.append((module, name, local_of))
            else:
                # Every rank adds its part of the bias.
                partial.add(parameter)
                places.append((module, name, _Divided(mesh.size())))
        if style in _COLUMNS and "nf" in vars(module):
            vars(module)["nf"] //= mesh.size()
        if _COLUMNS.get(style, 1) > 1 and "split_size" in vars(block):
            # The width of each piece, by which GPT2Attention takes them apart.
            vars(block)["split_size"] //= mesh.size()
    vars(block)["forward"] = _Block(block.forward, places, mesh, _TOKENS if by_tokens else None)
    return partial


def _cuts(index: int, module: nn.Module, style: str, degree: int) -> dict[str, Cut]:
    weight: Any = getattr(module, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.dim() != 2:
        raise refused(index, f"{type(module).__name__} has no matrix that {style} could split")
    outputs, inputs = (1, 0) if is_transposed(module) else (0, 1)
    if style in _COLUMNS:
        cuts = {"weight": Cut(outputs, _COLUMNS[style]), "bias": Cut(0, _COLUMNS[style])}
    else:
        cuts = {"weight": Cut(inputs)}
    if not cuts["weight"].divides(weight.shape, degree):
        raise refused(index, f"a matrix of {type(module).__name__} cannot be shared by {degree} "
                      "ranks")
    return cuts


def pieces_of(module: nn.Module, style: str) -> dict[str, Cut]:
    """Returns the parameters of a module that a style cuts in pieces of their own."""
    if _COLUMNS.get(style, 1) == 1:
        return {}
    return {"weight": Cut(1 if is_transposed(module) else 0, _COLUMNS[style])}


class _Taken:
    """A rank's part of a bias that is whole on every rank."""

    def __init__(self, cut: Cut, mesh: DeviceMesh) -> None:
        self._cut, self._mesh = cut, mesh

    def __call__(self, bias: torch.Tensor) -> torch.Tensor:
        return self._cut.part_of(bias, self._mesh.size(), self._mesh.get_local_rank())


class _Divided:
    """A rank's part of a bias that all ranks add."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __call__(self, bias: torch.Tensor) -> torch.Tensor:
        return bias / self._count


class _Block:
    """The call of a block. Takes the place of its `forward`."""

    def __init__(self, forward: Any, places: list[tuple[nn.Module, str, Swap]], mesh: DeviceMesh,
                 dimension: int | None) -> None:
        """`dimension` is that along which ranks share the tokens, None if each has all."""
        self._forward = forward
        self._places = places
        self._mesh, self._dimension = mesh, dimension

    def __call__(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        rows = entered(hidden_states, self._mesh, self._dimension)
        with swapped(self._places):
            answer = self._forward(rows, *args, **kwargs)
        made = answer[0] if isinstance(answer, tuple) else answer
        summed = left(made, self._mesh, self._dimension)
        return (summed, *answer[1:]) if isinstance(answer, tuple) else summed
