"""Updates of a rank's parameters: the optimizer, its schedule, and the clipping of gradients.

The optimizer gets this rank's parts as plain tensors. One that treats elements one by one does to
them what it does to whole parameters; any other is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate

from parplan.errors import field_error
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


class Updates:
    """The parts of a rank's parameters as their optimizer has them."""

    def __init__(self, named: Iterable[tuple[str, nn.Parameter]], make: MakeOptimizer | None,
                 make_schedule: MakeSchedule | None) -> None:
        """Raises SpecInvalid naming an optimizer that does not treat elements one by one, and for
        a schedule without one."""
        self._named = [(name, parameter) for name, parameter in named if parameter.requires_grad]
        self._parts = [nn.Parameter(local_of(parameter.detach())) if isinstance(parameter, DTensor)
                       else parameter for _, parameter in self._named]
        self.optimizer: torch.optim.Optimizer | None = None
        self.schedule: Any = None
        if make is not None and self._parts:
            self.optimizer = make(list(self._parts))
            _check(self.optimizer)
            if make_schedule is not None:
                self.schedule = make_schedule(self.optimizer)
        elif make is None and make_schedule is not None:
            raise field_error("SPEC_INVALID", "schedule", "needs an optimizer")

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
        """Returns the tensors of the optimizer's states by `name.key`: those that lie as their
        parameter does as it is spread."""
        found: dict[str, torch.Tensor] = {}
        if self.optimizer is None:
            return found
        for (name, parameter), part in zip(self._named, self._parts):
            for key, value in self.optimizer.state.get(part, {}).items():
                if isinstance(value, torch.Tensor):
                    found[f"{name}.{key}"] = _spread_as(parameter, part, value)
        return found

    def make_states(self, stored: Callable[[str], dict[str, tuple[Sequence[int], torch.dtype]]]
                    ) -> dict[str, torch.Tensor]:
        """Makes states, as `states` returns them, for what `stored` has of a parameter: the whole
        shape and type by key."""
        if self.optimizer is None:
            return {}
        for (name, parameter), part in zip(self._named, self._parts):
            for key, (shape, dtype) in stored(name).items():
                is_like = tuple(shape) == tuple(parameter.shape)
                self.optimizer.state[part][key] = (
                    torch.zeros_like(part, dtype=dtype, requires_grad=False) if is_like
                    else torch.zeros(tuple(shape), dtype=dtype))
        return self.states()

    def schedule_text(self) -> str:
        """Returns the state of the schedule as JSON; empty without one. Raises SpecInvalid if it
        has values that JSON does not."""
        if self.schedule is None:
            return ""
        try:
            return json.dumps(self.schedule.state_dict())
        except TypeError as error:
            raise field_error("SPEC_INVALID", "schedule", f"its state is not stored: {error}"
                              ) from None

    def load_schedule(self, text: str) -> None:
        """Takes the state that `schedule_text` gave, and the learning rates of that time."""
        if self.schedule is None or self.optimizer is None or not text:
            return
        state = json.loads(text)
        self.schedule.load_state_dict(state)
        for group, rate in zip(self.optimizer.param_groups, state.get("_last_lr", [])):
            group["lr"] = rate


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
