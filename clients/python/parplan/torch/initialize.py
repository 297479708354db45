"""Values for models on the meta device, one layer at a time.

Each layer draws from a seed of its own, so a rank that has a few layers gives them the values that
one process gives to the whole model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from parplan.torch.layers import Decoder, refused
from parplan.torch.stacked_experts import StackedExperts

_SEEDS_PER_LAYER = 1_000_003


def initialize(model: nn.Module, layers: Sequence[nn.Module], seed: int,
               device: torch.device | str = "cpu") -> None:
    """Gives values to every layer of a model on the meta device, in one process: those that `apply`
    gives with the same seed. Errors as for `initialize_layer`."""
    place_positions(layers, torch.device(device))
    shared = [[(layers[index], name) for index, name in one] for one in _shared(layers)]
    for index, layer in enumerate(layers):
        initialize_layer(model, layer, index, seed, torch.device(device))
    for places in shared:
        module, name = places[0]
        for other, other_name in places[1:]:
            put_parameter(other, other_name, module.get_parameter(name))


def _shared(layers: Sequence[nn.Module]) -> list[list[tuple[int, str]]]:
    """Returns the layers and names of each parameter that has several."""
    found: dict[int, list[tuple[int, str]]] = {}
    for index, layer in enumerate(layers):
        for name, parameter in layer.named_parameters(remove_duplicate=False):
            found.setdefault(id(parameter), []).append((index, name))
    return [places for places in found.values() if len(places) > 1]


def put_parameter(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Replaces the parameter called `name` by `parameter`."""
    place, _, own = name.rpartition(".")
    module.get_submodule(place)._parameters[own] = parameter


def check_initializes(model: nn.Module, layer: nn.Module, index: int) -> bool:
    """Returns whether a layer is on the meta device, and so gets values. Raises SpecInvalid naming
    the layer for a module with parameters that nothing gives values to, for buffers, whose values
    are lost on the meta device, and for a layer of which only a part is there."""
    tensors = [*layer.parameters(), *layer.buffers()]
    if not any(tensor.is_meta for tensor in tensors):
        return False
    if not all(tensor.is_meta for tensor in tensors):
        raise refused(index, "a part of it is on the meta device and a part is not")
    if next(layer.buffers(), None) is not None:
        raise refused(index, "it has buffers, which have no values on the meta device; build the "
                      "model with values")
    for module in layer.modules():
        if (next(module.parameters(recurse=False), None) is not None
                and getattr(model, "_init_weights", None) is None
                and not callable(getattr(module, "reset_parameters", None))):
            raise refused(index, f"{type(module).__name__} has no reset_parameters; build the "
                          "model with values")
    return True


def initialize_layer(model: nn.Module, layer: nn.Module, index: int, seed: int,
                     device: torch.device) -> None:
    """Gives values to a layer if it is on the meta device: by the model's `_init_weights` if it is
    one of transformers, else by `reset_parameters` of each module. Errors as for
    `check_initializes`."""
    if not check_initializes(model, layer, index):
        return
    layer.to_empty(device=device)
    initializer: Any = getattr(model, "_init_weights", None)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed * _SEEDS_PER_LAYER + index)
        for module in layer.modules():
            if next(module.parameters(recurse=False), None) is None:
                continue
            if isinstance(module, StackedExperts):
                # The model does not know them.
                module.reset_parameters()
            elif initializer is not None:
                initializer(module)
            else:
                reset: Any = module.reset_parameters
                reset()


def place_positions(layers: Sequence[nn.Module], device: torch.device) -> None:
    """Puts what the decoders of a model share to a device, and computes it anew if it is on the
    meta device."""
    for layer in layers:
        if not isinstance(layer, Decoder) or layer.rotations is None:
            continue
        rotary: Any = layer.rotations.module
        if any(buffer.is_meta for buffer in rotary.buffers()):
            # The model refers to it too, so the module stays and gets new contents.
            vars(rotary).update(vars(type(rotary)(rotary.config)))
        rotary.to(device)
