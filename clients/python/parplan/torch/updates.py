"""Updates of a rank's parameters: the optimizer, its schedule, and the clipping of gradients.

The optimizer gets this rank's parts as plain tensors. One that treats elements one by one does to
them what it does to whole parameters; any other is refused.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate

from parplan.errors import SpecInvalid, field_error
from parplan.torch.parts import local_of
from parplan.torch.ranks import add_up

MakeOptimizer = Callable[..., torch.optim.Optimizer]
MakeSchedule = Callable[[torch.optim.Optimizer], Any]

# Not in this list are those that look at a parameter as a whole (LBFGS, Adafactor, Muon), and
# SparseAdam, which takes gradients of another form.
_ELEMENTWISE = tuple(getattr(torch.optim, name) for name in (
    "SGD", "ASGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop",
    "Rprop"))
# An optimizer of another package says by an attribute of this name that it is one of them.
_PROMISE = "treats_elements_one_by_one"
# The end of the key of a state that is a number and no tensor.
_NUMBER = "#number"
# Within the stored state of a schedule: options of the optimizer's groups; and what a value is that
# JSON has no form for.
_OPTIONS, _KIND = "parplan.options", "parplan.kind"


class Updates:
    """The parts of a rank's parameters as their optimizer has them."""

    def __init__(self, named: Iterable[tuple[str, nn.Parameter]], make: MakeOptimizer | None,
                 make_schedule: MakeSchedule | None,
                 device: torch.device | None = None) -> None:
        """Raises SpecInvalid naming an optimizer that does not treat elements one by one, and for
        a schedule without one. A rank without parameters, such as one whose layers have none, makes
        both for a matrix of one number and forgets them: it raises what other ranks do."""
        self._named = [(name, parameter) for name, parameter in named if parameter.requires_grad]
        self._parts = [nn.Parameter(local_of(parameter.detach())) if isinstance(parameter, DTensor)
                       else parameter for _, parameter in self._named]
        self.optimizer: torch.optim.Optimizer | None = None
        self.schedule: Any = None
        # The options of the optimizer's groups before there was a schedule.
        self._before: list[dict[str, Any]] = []
        # The states that it has before its first step, such as Adagrad's sums.
        self._first_states: dict[torch.Tensor, set[str]] = {}
        if make is None:
            if make_schedule is not None:
                raise field_error("SPEC_INVALID", "schedule", "needs an optimizer")
            return
        _check_makes("optimizer", make, torch.optim.Optimizer,
                     "functools.partial(torch.optim.AdamW, lr=1e-4)")
        if make_schedule is not None:
            _check_makes("schedule", make_schedule, torch.optim.lr_scheduler.LRScheduler,
                         "lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, "
                         "1000)")
        optimizer = make(list(self._parts) or [nn.Parameter(torch.zeros(1, 1, device=device))])
        _check(optimizer)
        before = _options(optimizer)
        made = None if make_schedule is None else make_schedule(optimizer)
        if self._parts:
            self.optimizer, self.schedule, self._before = optimizer, made, before
            self._first_states = {part: set(optimizer.state.get(part, {})) for part in self._parts}

    def step(self, loss: torch.Tensor) -> None:
        """Updates parameters and the learning rate. `loss` is for a schedule that looks at it."""
        if self.optimizer is None:
            return
        with torch.no_grad():
            for (_, parameter), part in zip(self._named, self._parts):
                if part is not parameter:
                    # FSDP may have put a parameter to other memory.
                    part.data = local_of(parameter)
                    part.grad = None if parameter.grad is None else local_of(parameter.grad)
        self.optimizer.step()
        for (_, parameter), part in zip(self._named, self._parts):
            if part is not parameter:
                part.grad = None
        if isinstance(self.schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
            self.schedule.step(loss.item())
        elif self.schedule is not None:
            self.schedule.step()

    def states(self) -> dict[str, torch.Tensor]:
        """Returns the optimizer's states by `name.key`: tensors, which lie as their parameter does
        as it is spread, and numbers of optimizers of other packages, as tensors. Raises SpecInvalid
        naming the optimizer for a state of another type."""
        found: dict[str, torch.Tensor] = {}
        if self.optimizer is None:
            return found
        for (name, parameter), part in zip(self._named, self._parts):
            for key, value in self.optimizer.state.get(part, {}).items():
                if isinstance(value, torch.Tensor):
                    found[f"{name}.{key}"] = _spread_as(parameter, part, value)
                elif isinstance(value, (bool, int, float)):
                    found[f"{name}.{key}{_NUMBER}"] = torch.tensor(
                        value, dtype=torch.float64 if isinstance(value, float) else None)
                elif value is not None:
                    raise field_error("SPEC_INVALID", "optimizer",
                                      f"{type(self.optimizer).__name__} has the state {key}, of the "
                                      f"type {type(value).__name__}; stored are tensors and numbers")
        return found

    def why_unstored(self) -> tuple[str, str] | None:
        """Returns the field and the message of what `states` or `schedule_text` raises, or None.
        Raises nothing: what schedules and optimizers of other packages raise is a message too."""
        for field, read in (("optimizer", self.states), ("schedule", self.schedule_text)):
            try:
                read()
            except SpecInvalid as error:
                return error.metadata["field"], error.metadata["rule"]
            except Exception as error:  # pylint: disable=broad-except
                return field, f"does not say its state ({type(error).__name__}: {error})"
        return None

    def kind(self) -> str:
        """Returns the name of the optimizer's class, which says what its states are; empty on a rank
        without parameters."""
        return "" if self.optimizer is None else type(self.optimizer).__name__

    def make_states(self, stored: Callable[[str], dict[str, tuple[Sequence[int], torch.dtype]]]
                    ) -> dict[str, torch.Tensor]:
        """Makes states, as `states` returns them, for what `stored` has of a parameter: the whole
        shape and type by key. `take_numbers` comes after they got their values. States that steps
        made and that are not stored are dropped: a step before the first one made none."""
        found: dict[str, torch.Tensor] = {}
        if self.optimizer is None:
            return found
        # Counts of steps are where the optimizer's own would be. ASGD has its numbers beside the
        # parameter always.
        on_device = {id(part) for group in self.optimizer.param_groups for part in group["params"]
                     if group.get("capturable") or group.get("fused")
                     or isinstance(self.optimizer, torch.optim.ASGD)}
        for (name, parameter), part in zip(self._named, self._parts):
            before = self.optimizer.state.get(part, {})
            for key in set(before) - self._first_states[part]:
                del before[key]
            for key, (shape, dtype) in stored(name).items():
                if tuple(shape) == tuple(parameter.shape):
                    made = torch.zeros_like(part, dtype=dtype, requires_grad=False)
                else:
                    is_there = id(part) in on_device and not key.endswith(_NUMBER)
                    made = torch.zeros(tuple(shape), dtype=dtype,
                                       device=part.device if is_there else None)
                if not key.endswith(_NUMBER):
                    self.optimizer.state[part][key] = made
                found[f"{name}.{key}"] = _spread_as(parameter, part, made)
        return found

    def take_numbers(self, loaded: Mapping[str, torch.Tensor]) -> None:
        """Takes the numbers of states that `make_states` made and that have their values."""
        if self.optimizer is None:
            return
        parts = {name: part for (name, _), part in zip(self._named, self._parts)}
        for place, value in loaded.items():
            name, _, key = place.rpartition(".")
            if key.endswith(_NUMBER):
                self.optimizer.state[parts[name]][key.removesuffix(_NUMBER)] = value.item()

    def schedule_text(self) -> str:
        """Returns the state of the schedule as JSON, with the options of the optimizer that it has
        changed: the learning rate, and momentum or betas if it cycles them. Empty without a
        schedule. Raises SpecInvalid if it has values that are not stored."""
        if self.schedule is None or self.optimizer is None:
            return ""
        missing = object()
        changed = [{name: value for name, value in group.items()
                    if before.get(name, missing) != value}
                   for before, group in zip(self._before, _options(self.optimizer))]
        try:
            return json.dumps(_to_json({**self.schedule.state_dict(), _OPTIONS: changed}))
        except TypeError as error:
            raise field_error("SPEC_INVALID", "schedule", f"its state is not stored: {error}"
                              ) from None

    def load_schedule(self, text: str) -> None:
        """Takes the state that `schedule_text` gave, and the options of that time."""
        if self.schedule is None or self.optimizer is None or not text:
            return
        state = _from_json(json.loads(text))
        changed = state.pop(_OPTIONS, [])
        self.schedule.load_state_dict(state)
        for group, rate in zip(self.optimizer.param_groups, state.get("_last_lr", [])):
            group["lr"] = rate
        for group, options in zip(self.optimizer.param_groups, changed):
            group.update(options)


def _options(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Returns the options of each group of parameters."""
    return [{name: value for name, value in group.items() if name != "params"}
            for group in optimizer.param_groups]


def _to_json(value: Any) -> Any:
    """Returns a value of which JSON keeps everything: it has no tuples, and no numbers as keys,
    such as the milestones of MultiStepLR."""
    if isinstance(value, tuple):
        return {_KIND: "tuple", "values": [_to_json(one) for one in value]}
    if isinstance(value, list):
        return [_to_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    if not isinstance(value, collections.Counter) and all(isinstance(key, str) for key in value):
        return {key: _to_json(one) for key, one in value.items()}
    kind = "counter" if isinstance(value, collections.Counter) else "dict"
    return {_KIND: kind, "values": [[_to_json(key), _to_json(one)] for key, one in value.items()]}


def _from_json(value: Any) -> Any:
    """Returns what `_to_json` was called with."""
    if isinstance(value, list):
        return [_from_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_KIND)
    if kind is None:
        return {key: _from_json(one) for key, one in value.items()}
    values = _from_json(value["values"])
    if kind == "tuple":
        return tuple(values)
    made = dict(values)
    return collections.Counter(made) if kind == "counter" else made


def _check_makes(name: str, make: Any, kind: type, example: str) -> None:
    """Raises SpecInvalid for one that is made already: it has other tensors than this rank's
    parts."""
    if isinstance(make, kind) or not callable(make):
        raise field_error("SPEC_INVALID", name, f"must be a function that makes one, such as "
                          f"{example}, not {type(make).__name__}: `apply` calls it with this rank's "
                          "parts of the model")


def _check(optimizer: torch.optim.Optimizer) -> None:
    kind = type(optimizer)
    if not isinstance(optimizer, _ELEMENTWISE) and not getattr(kind, _PROMISE, False):
        raise field_error(
            "SPEC_INVALID", "optimizer", f"{kind.__name__} is not known to treat the elements of a "
            "parameter one by one, and ranks only have parts; known are "
            f"{', '.join(one.__name__ for one in _ELEMENTWISE)}, and classes with an attribute "
            f"{_PROMISE}")


def _spread_as(parameter: Any, part: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    if not isinstance(parameter, DTensor) or value.shape != part.shape:
        return value
    return DTensor.from_local(value, parameter.device_mesh, parameter.placements, run_check=False,
                              shape=parameter.shape, stride=parameter.stride())


@torch.no_grad()
def clip(parameters: Iterable[nn.Parameter], copies_of: Callable[[nn.Parameter], int],
         largest: float, device: torch.device) -> None:
    """Scales all gradients of the job down so that their norm over the model is at most `largest`.
    Every rank calls this. `copies_of` returns the number of ranks that have a parameter or a part
    of it."""
    by_copies: dict[int, list[torch.Tensor]] = {}
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None:
            continue
        copies = copies_of(parameter)
        if isinstance(gradient, DTensor):
            for size, placement in zip(gradient.device_mesh.shape, gradient.placements):
                # Matrices that are split twice have a placement that is no Shard.
                if not isinstance(placement, Replicate):
                    copies //= size
        by_copies.setdefault(copies, []).append(local_of(gradient))
    total = torch.zeros((), device=device, dtype=torch.float32)
    for copies, gradients in by_copies.items():
        norms = torch._foreach_norm([one.float() for one in gradients])
        total += torch.stack(list(norms)).square().sum() / copies
    add_up(total)
    scale = (largest / (total.sqrt() + 1e-6)).clamp(max=1.0)
    for gradients in by_copies.values():
        torch._foreach_mul_(gradients, scale)
