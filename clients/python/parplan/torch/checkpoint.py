"""Checkpoints by torch.distributed.checkpoint that load under any plan of the same model.

A tensor is stored under its name in the model, as a whole, whichever ranks had its parts. One that
tensor parallelism cuts into pieces of their own is stored with a dimension for the pieces, because
a rank's part of it would else be no box.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load as load_state
from torch.distributed.checkpoint.state_dict_saver import save as save_state

from parplan.errors import Error, field_error
from parplan.torch.parts import Cut, in_pieces
from parplan.torch.ranks import gather_objects, rank_count
from parplan.torch.updates import Updates

# A job of one rank is what it assumes.
warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")

_PARAMETER = "parameters."
_STATE = "optimizer."
_SCHEDULE = "schedule"
_KIND = "optimizer_kind"
_Named = Iterable[tuple[str, nn.Parameter]]


def save(named: _Named, updates: Updates, pieces: Mapping[str, Cut],
         folder: str | os.PathLike[str]) -> None:
    """Stores parameters, the states of the optimizer (tensors and numbers) and of the schedule.
    `pieces` has the parameters that have some, by name. Every rank calls this. Raises SpecInvalid
    on every rank, naming the optimizer or the schedule, if a rank has a state that is not stored;
    nothing is written then."""
    refusal = refusal_of_any(updates)
    if refusal is not None:
        raise refusal
    state: dict[str, Any] = {}
    for name, parameter in named:
        state[_PARAMETER + name] = in_pieces(parameter.detach(), pieces.get(name))
    for name, value in updates.states().items():
        state[_STATE + name] = in_pieces(value, pieces.get(name.rpartition(".")[0]))
    for key, text in ((_SCHEDULE, updates.schedule_text()), (_KIND, updates.kind())):
        if text:
            state[key] = _bytes_of(text)
    save_state(state, checkpoint_id=str(folder), **_options(save_state))


def refusal_of_any(updates: Updates, device: torch.device | None = None) -> Error | None:
    """Returns the error of the first rank whose optimizer or schedule has a state that is not
    stored, None if there is none: the same on every rank, also on those without parameters, which
    have no optimizer. Every rank calls this. `device` is that of `gather_objects`."""
    for found in gather_objects(updates.why_unstored(), device):
        if found is not None:
            return field_error("SPEC_INVALID", *found)
    return None


def load(named: _Named, updates: Updates, pieces: Mapping[str, Cut],
         folder: str | os.PathLike[str]) -> None:
    """Loads what `save` stored, under this plan or another. Every rank calls this. Raises SpecInvalid
    on every rank if the states are those of another optimizer, before it changes anything, and the
    errors of torch.distributed.checkpoint if a parameter is missing or has another shape."""
    stored = FileSystemReader(str(folder)).read_metadata().state_dict_metadata
    _check_kind(stored, updates, folder)
    state: dict[str, Any] = {}
    for name, parameter in named:
        state[_PARAMETER + name] = in_pieces(parameter.detach(), pieces.get(name))
    made = updates.make_states(_finder(stored, pieces))
    for name, value in made.items():
        state[_STATE + name] = in_pieces(value, pieces.get(name.rpartition(".")[0]))
    if updates.schedule is not None and _SCHEDULE in stored:
        state[_SCHEDULE] = torch.zeros(_size_of(stored[_SCHEDULE]), dtype=torch.uint8)
    load_state(state, checkpoint_id=str(folder), **_options(load_state))
    updates.take_numbers(made)
    if _SCHEDULE in state:
        updates.load_schedule(bytes(state[_SCHEDULE].tolist()).decode())


def _check_kind(stored: Mapping[str, Any], updates: Updates,
                folder: str | os.PathLike[str]) -> None:
    """Raises SpecInvalid on every rank if the optimizer of one could not go on from the stored
    states. Checkpoints of earlier releases do not say whose they are."""
    if _KIND not in stored or not any(key.startswith(_STATE) for key in stored):
        return
    found = torch.zeros(_size_of(stored[_KIND]), dtype=torch.uint8)
    load_state({_KIND: found}, checkpoint_id=str(folder), **_options(load_state))
    theirs = bytes(found.tolist()).decode()
    for ours in gather_objects(updates.kind()):
        # The two have the same states.
        if ours and ours != theirs and {ours, theirs} != {"Adam", "AdamW"}:
            raise field_error("SPEC_INVALID", "optimizer", f"the checkpoint has states of {theirs}, "
                              f"which {ours} does not go on from; apply the plan with {theirs}, or "
                              "begin with the parameters alone, of a checkpoint before the first step")


def _bytes_of(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def _options(call: Callable[..., Any]) -> dict[str, Any]:
    """Returns the options of a call of torch.distributed.checkpoint: one rank asks no other. PyTorch
    2.6 finds that out by the process group alone."""
    is_alone = rank_count() == 1 and "no_dist" in inspect.signature(call).parameters
    return {"no_dist": True} if is_alone else {}


def _size_of(found: Any) -> Sequence[int]:
    return tuple(found.size)


def _finder(stored: Mapping[str, Any], pieces: Mapping[str, Cut]
            ) -> Callable[[str], dict[str, tuple[Sequence[int], torch.dtype]]]:
    """Returns a function from the name of a parameter to the whole shapes and types of its states.
    """
    by_name: dict[str, dict[str, tuple[Sequence[int], torch.dtype]]] = {}
    for key, found in stored.items():
        if not key.startswith(_STATE):
            continue
        name, _, rest = key.removeprefix(_STATE).rpartition(".")
        shape = list(_size_of(found))
        cut = pieces.get(name)
        if cut is not None and len(shape) > cut.dimension + 1:
            shape[cut.dimension:cut.dimension + 2] = [shape[cut.dimension]
                                                      * shape[cut.dimension + 1]]
        by_name.setdefault(name, {})[rest] = (shape, found.properties.dtype)
    return lambda name: by_name.get(name, {})
