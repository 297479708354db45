"""Calls of a model's modules, from one run of it, and modules that can be called so again."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from parplan.errors import field_error
from parplan.torch.layers import Wrapper

# A number that no other dimension of a layer has by chance.
SAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Captured:
    """A tensor that a layer was called with: its shape after the samples, and its type."""
    shape: tuple[int, ...]
    dtype: torch.dtype
    has_samples: bool

    def make(self, samples: int, device: torch.device, upper: int = 2) -> torch.Tensor:
        """Returns a tensor like it: normal numbers, or integers below `upper`."""
        shape = (samples, *self.shape) if self.has_samples else self.shape
        if self.dtype.is_floating_point:
            return torch.randn(shape, dtype=self.dtype, device=device)
        if self.dtype == torch.bool:
            return torch.ones(shape, dtype=torch.bool, device=device)
        return torch.randint(0, upper, shape, dtype=self.dtype, device=device)

    def sharing_tokens(self, degree: int) -> Captured:
        """Returns the part of one of `degree` ranks that share the tokens of activations, which
        are tokens by elements; anything else, such as an image, is whole on every rank."""
        if not self.dtype.is_floating_point or len(self.shape) != 2:
            return self
        return dataclasses.replace(self, shape=(self.shape[0] // degree, *self.shape[1:]))


def token_ids(count: int) -> Captured:
    """Returns samples of `count` token ids, the first of the vocabulary."""
    return Captured((count,), torch.long, True)


def captured(value: torch.Tensor) -> Captured:
    """Returns what `value` is, a tensor of a call with SAMPLES samples."""
    has_samples = value.dim() > 0 and value.shape[0] == SAMPLES
    shape = tuple(value.shape[1:] if has_samples else value.shape)
    return Captured(shape, value.dtype, has_samples)


class CalledLayer(Wrapper):
    """A layer of a model that calls it with further arguments, as a module from activations to
    activations."""

    def __init__(self, layer: nn.Module, first: Captured, name: str | None,
                 others: tuple[Any, ...], options: dict[str, Any]) -> None:
        """`first` are the activations, `name` is that of their argument, None for the first one.
        `others` and `options` are the other arguments, with Captured for tensors."""
        super().__init__(layer)
        self.first = first
        self._name, self._others, self._options = name, others, options
        # The tensors beside the activations, by place and number of samples: making them takes time
        # that is not the layer's.
        self._made: dict[tuple[Any, ...], torch.Tensor] = {}

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        def given(place: tuple[Any, ...], value: Any) -> Any:
            if isinstance(value, Captured):
                key = (*place, hidden.shape[0], hidden.device)
                if key not in self._made:
                    self._made[key] = value.make(hidden.shape[0], hidden.device)
                return self._made[key]
            if isinstance(value, tuple):
                return type(value)(given((*place, index), one) for index, one in enumerate(value))
            return value

        others = given((), self._others)
        options = {name: given((name,), value) for name, value in self._options.items()}
        if self._name is None:
            made = self.layer(hidden, *others, **options)
        else:
            made = self.layer(*others, **{self._name: hidden}, **options)
        result: torch.Tensor = made[0] if isinstance(made, tuple) else made
        return result

    def forget(self) -> None:
        """Drops the tensors of earlier calls."""
        self._made.clear()


@dataclasses.dataclass
class Call:
    """A call of a module, as a layer that can be called again, and the tensors of this call."""
    layer: CalledLayer
    given: torch.Tensor
    returned: torch.Tensor | None = None


def capture_calls(model: nn.Module, modules: Sequence[nn.Module],
                  inputs: Captured) -> dict[nn.Module, Call]:
    """Runs the model once, with samples like `inputs`, where its parameters are. Returns the last
    call of each of `modules` with activations, in the order of calls."""
    calls: dict[nn.Module, Call] = {}

    def before(module: nn.Module, others: tuple[Any, ...], options: dict[str, Any]) -> None:
        def keep(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return captured(value)
            return tuple(map(keep, value)) if isinstance(value, tuple) else value

        name = None
        if not others:
            name = next((key for key, value in options.items()
                         if isinstance(value, torch.Tensor)), None)
        first = others[0] if others else options.get(name or "")
        if not isinstance(first, torch.Tensor):
            return
        rest = tuple(map(keep, others[1:]))
        layer = CalledLayer(module, captured(first), name, rest,
                            {key: keep(value) for key, value in options.items() if key != name})
        calls.pop(module, None)
        calls[module] = Call(layer, first)

    def after(module: nn.Module, _: Any, made: Any) -> None:
        made = made[0] if isinstance(made, tuple) and made else made
        if module in calls and isinstance(made, torch.Tensor):
            calls[module].returned = made

    hooks = [hook for module in modules
             for hook in (module.register_forward_pre_hook(before, with_kwargs=True),
                          module.register_forward_hook(after))]
    device = next(model.parameters()).device
    try:
        with torch.no_grad(), device:
            model(inputs.make(SAMPLES, device, 1))
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def layers_by_name(model: nn.Module, patterns: Sequence[str],
                   inputs: Captured) -> list[nn.Module]:
    """Returns the modules whose names match a pattern, in the order in which the model calls them,
    each with the arguments that the model gives it. `a.norm+head` makes one layer of modules that
    are called one after the other. Raises SpecInvalid for names that the model does not have or
    call."""
    groups = modules_by_name(model, patterns)
    names = {id(module): name for name, module in model.named_modules()}
    calls = capture_calls(model, [module for group in groups for module in group], inputs)
    for group in groups:
        for module in group:
            if module not in calls:
                raise field_error("SPEC_INVALID", "--layers",
                                  f"the model did not call {names[id(module)]} with a tensor")
    order = {module: place for place, module in enumerate(calls)}
    groups.sort(key=lambda group: order[group[0]])
    return [_joined([calls[module].layer for module in group]) for group in groups]


def modules_by_name(model: nn.Module, patterns: Sequence[str]) -> list[list[nn.Module]]:
    """Returns the modules of each layer that patterns name, in their order and for each in that of
    the model; `a.norm+head` names those of one layer. Raises SpecInvalid for names that the model
    does not have."""
    groups: list[list[nn.Module]] = []
    for pattern in patterns:
        parts = [_matching(model, part) for part in pattern.split("+")]
        if len(parts) > 1 and any(len(part) != 1 for part in parts):
            raise field_error("SPEC_INVALID", "--layers",
                              f"{pattern} joins names that are not of one module each")
        groups.extend([[one for part in parts for one in part.values()]] if len(parts) > 1
                      else [[one] for one in parts[0].values()])
    return groups


def layers_by_structure(model: nn.Module, inputs: Captured) -> list[nn.Module]:
    """Returns the longest list of modules of one class in the model, and around it the modules
    from which and to which its activations go unchanged: those before it are layers of their own,
    those behind it are one layer, the head. Empty if the model has no such list or cannot be called
    with samples like `inputs`."""
    lists = [part for part in model.modules()
             if isinstance(part, (nn.ModuleList, nn.ModuleDict)) and len(part) > 1
             and len({type(one) for one in _children(part)}) == 1]
    if not lists:
        return []
    blocks = _children(max(lists, key=len))
    inside = {id(part) for block in blocks for part in block.modules()}
    # Modules that hold the list call it, so they are no layers themselves.
    outside = [part for part in model.modules() if id(part) not in inside
               and not any(id(one) in inside for one in part.modules())]
    try:
        calls = capture_calls(model, [*blocks, *outside], inputs)
    except (TypeError, ValueError, RuntimeError, IndexError):
        return []
    if any(block not in calls for block in blocks):
        return []
    before: list[nn.Module] = []
    after: list[nn.Module] = []
    while (feeder := _caller(outside, calls, "returned",
                             (before or blocks)[0], "given")) is not None:
        before.insert(0, feeder)
    while (reader := _caller(outside, calls, "given",
                             (after or blocks)[-1], "returned")) is not None:
        after.append(reader)
    found = [*([calls[one].layer] for one in [*before, *blocks]),
             *([[calls[one].layer for one in after]] if after else [])]
    return [_joined(group) for group in found]


def _caller(modules: Sequence[nn.Module], calls: dict[nn.Module, Call], side: str,
            neighbour: nn.Module, other: str) -> nn.Module | None:
    """Returns the first module, outer before inner, one of whose tensors is the neighbour's."""
    shared = getattr(calls[neighbour], other)
    return next((one for one in modules if one in calls and one is not neighbour
                 and shared is not None and getattr(calls[one], side) is shared), None)


def _children(part: nn.Module) -> list[nn.Module]:
    return [child for child in part.children()]


def _joined(layers: list[CalledLayer]) -> nn.Module:
    return layers[0] if len(layers) == 1 else nn.Sequential(*layers)


def _matching(model: nn.Module, pattern: str) -> dict[str, nn.Module]:
    depth = pattern.count(".")
    named = {name: module for name, module in model.named_modules()
             if name and name.count(".") == depth and fnmatch.fnmatchcase(name, pattern)}
    if not named:
        raise field_error("SPEC_INVALID", "--layers", f"no module has a name like {pattern}")
    return named
