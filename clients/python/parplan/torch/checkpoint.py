"""Checkpoints by torch.distributed.checkpoint that load under any plan of the same model.

A tensor is stored under its name in the model, as a whole, whichever ranks had its parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load as load_state
from torch.distributed.checkpoint.state_dict_saver import save as save_state

_PARAMETER = "parameters."
_STATE = "optimizer."
_Named = Iterable[tuple[str, nn.Parameter]]


def save(named: _Named, optimizers: Iterable[torch.optim.Optimizer],
         folder: str | os.PathLike[str]) -> None:
    """Stores parameters and the tensors of the optimizer's states. Every rank calls this."""
    state: dict[str, Any] = {}
    states = _states_of(optimizers)
    for name, parameter in named:
        state[_PARAMETER + name] = parameter.detach()
        for key, value in states.get(id(parameter), {}).items():
            if isinstance(value, torch.Tensor):
                state[f"{_STATE}{name}.{key}"] = value
    save_state(state, checkpoint_id=str(folder))


def load(named: _Named, optimizers: Iterable[torch.optim.Optimizer],
         folder: str | os.PathLike[str]) -> None:
    """Loads what `save` stored, under this plan or another. Every rank calls this. Raises the
    errors of torch.distributed.checkpoint if a parameter is missing or has another shape."""
    stored = FileSystemReader(str(folder)).read_metadata().state_dict_metadata
    state: dict[str, Any] = {}
    owner = {id(parameter): one for one in optimizers for group in one.param_groups
             for parameter in group["params"]}
    for name, parameter in named:
        state[_PARAMETER + name] = parameter.detach()
        optimizer = owner.get(id(parameter))
        prefix = f"{_STATE}{name}."
        if optimizer is None:
            continue
        for key, found in stored.items():
            rest = key.removeprefix(prefix)
            if key.startswith(prefix) and "." not in rest:
                value = _like(parameter, found)
                optimizer.state[parameter][rest] = value
                state[key] = value
    load_state(state, checkpoint_id=str(folder))


def _states_of(optimizers: Iterable[torch.optim.Optimizer]) -> dict[int, dict[str, Any]]:
    return {id(parameter): state for one in optimizers for parameter, state in one.state.items()}


def _like(parameter: nn.Parameter, stored: Any) -> torch.Tensor:
    """Returns an empty tensor for a stored one: spread as the parameter if it has its shape."""
    if tuple(stored.size) == tuple(parameter.shape):
        return torch.zeros_like(parameter, dtype=stored.properties.dtype, requires_grad=False)
    return torch.zeros(stored.size, dtype=stored.properties.dtype)
