"""A model to measure: its structure on the meta device, and one layer at a time on a device."""

from __future__ import annotations

import copy
import dataclasses
import fnmatch
import importlib
import json
import pathlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from parplan.errors import field_error
from parplan.torch.initialize import place_positions
from parplan.torch.layers import layers_of

_STANDARD_DEVIATION = 0.02  # As most models of transformers initialize theirs.


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


class CalledLayer(nn.Module):
    """A layer of a model that calls it with further arguments, as a module from activations to
    activations."""

    def __init__(self, layer: nn.Module, name: str | None, others: tuple[Any, ...],
                 options: dict[str, Any]) -> None:
        """`name` is that of the argument with the activations, None for the first one."""
        super().__init__()
        self.layer = layer
        self._name, self._others, self._options = name, others, options

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        def given(value: Any) -> Any:
            if isinstance(value, Captured):
                return value.make(hidden.shape[0], hidden.device)
            return type(value)(given(one) for one in value) if isinstance(value, tuple) else value

        options = {name: given(value) for name, value in self._options.items()}
        if self._name is None:
            made = self.layer(hidden, *(given(value) for value in self._others), **options)
        else:
            made = self.layer(*(given(value) for value in self._others),
                              **{self._name: hidden}, **options)
        result: torch.Tensor = made[0] if isinstance(made, tuple) else made
        return result


@dataclasses.dataclass(frozen=True)
class LayerKind:
    """Layers with equal modules: one of them, where they are, and what each is called with."""
    module: nn.Module
    indices: tuple[int, ...]
    given: Captured
    returned: Captured
    # Number of different integers that the layer takes, if it takes integers.
    upper: int

    @property
    def is_chainable(self) -> bool:
        """Whether its output can be its input."""
        return self.given == self.returned

    @property
    def parameter_count(self) -> int:
        return sum(one.numel() for one in self.module.parameters())


class Model:
    """The layers of a model on the meta device."""

    def __init__(self, model: nn.Module, layers: list[nn.Module], tokens: int) -> None:
        """Calls the layers once, one after the other, with samples of `tokens` tokens."""
        self.model = model
        self.layers = layers
        calls = _capture(layers, tokens)
        self.kinds: list[LayerKind] = []
        places: dict[Any, list[int]] = {}
        for index, layer in enumerate(layers):
            places.setdefault((_signature(layer), calls[index]), []).append(index)
        for (_, (given, returned)), indices in places.items():
            module = layers[indices[0]]
            upper = next((part.num_embeddings for part in module.modules()
                          if isinstance(part, nn.Embedding)), 2)
            self.kinds.append(LayerKind(module, tuple(indices), given, returned, upper))

    def on_device(self, kind: LayerKind, device: torch.device, copies: int) -> list[nn.Module]:
        """Returns copies of a layer with values of their own. Raises SpecInvalid for buffers on the
        meta device, which have no values."""
        made = [copy.deepcopy(kind.module) for _ in range(copies)]
        place_positions(made, device)
        for module in made:
            if getattr(module, "token_positions", None) is not None:
                # Those of the call on the meta device.
                vars(module)["token_positions"] = None
            for name, buffer in module.named_buffers():
                if buffer.is_meta:
                    raise field_error("SPEC_INVALID", "model",
                                      f"the buffer {name} has no values on the meta device; give "
                                      "--with-values")
            if any(parameter.is_meta for parameter in module.parameters()):
                module.to_empty(device=device)
                for parameter in module.parameters():
                    nn.init.normal_(parameter, std=_STANDARD_DEVIATION)
            else:
                module.to(device)
        return made


def load_model(reference: str, tokens: int, *, dtype: torch.dtype = torch.float32,
               layers: str = "", with_values: bool = False) -> Model:
    """Returns the model that `reference` names: `hf:config.json`, a configuration of transformers,
    or `module:callable`, which is called without arguments. `layers` is a pattern of names such as
    `model.layers.*`; without one the layers are found (`layers_of`). The model is made on the meta
    device unless `with_values`. Raises SpecInvalid."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cpu" if with_values else "meta"):
            model = build(reference)
    finally:
        torch.set_default_dtype(before)
    found = _by_name(model, layers, tokens) if layers else layers_of(model)
    return Model(model, found, tokens)


def build(reference: str) -> nn.Module:
    """Returns a new model on the device of the context. Raises SpecInvalid if there is none."""
    if reference.startswith("hf:"):
        return build_from(read_configuration(reference[3:]))
    made = callable_of(reference)()
    if not isinstance(made, nn.Module):
        raise field_error("SPEC_INVALID", "--model", f"{reference} returned no nn.Module")
    return made


def callable_of(reference: str) -> Callable[..., Any]:
    """Returns what `module:name` names."""
    module_name, colon, name = reference.partition(":")
    if not colon:
        raise field_error("SPEC_INVALID", "--model",
                          "must be hf:config.json or module:callable")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise field_error("SPEC_INVALID", "--model", f"{reference}: {error}") from None
    return found


def read_configuration(path: str) -> Any:
    """Returns the configuration of transformers in a file, without a cache of keys and values."""
    try:
        import transformers
    except ImportError:
        raise field_error("SPEC_INVALID", "--model",
                          "needs transformers: pip install 'parplan[transformers]'") from None
    try:
        fields = json.loads(pathlib.Path(path).read_text())
        return transformers.AutoConfig.for_model(
            **{**fields, "use_cache": False}, attn_implementation="sdpa")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise field_error("SPEC_INVALID", "--model", f"{path}: {error}") from None


def build_from(configuration: Any) -> nn.Module:
    """Returns a causal language model of transformers with random weights."""
    import transformers
    models: Any = transformers.AutoModelForCausalLM
    made: nn.Module = models.from_config(configuration)
    return made


def _captured(value: torch.Tensor, samples: int) -> Captured:
    has_samples = value.dim() > 0 and value.shape[0] == samples
    shape = tuple(value.shape[1:] if has_samples else value.shape)
    return Captured(shape, value.dtype, has_samples)


# A number that no other dimension of a layer has by chance.
_SAMPLES = 3


def _capture(layers: list[nn.Module], tokens: int) -> list[tuple[Captured, Captured]]:
    calls = []
    device = next(iter(layers[0].parameters())).device
    value = torch.zeros((_SAMPLES, tokens), dtype=torch.long, device=device)
    if isinstance(layers[0], CalledLayer):
        value = layers[0].first.make(_SAMPLES, device)  # type: ignore[union-attr,operator]
    place_positions(layers, device)
    with torch.no_grad():
        for layer in layers:
            made = layer(value)
            calls.append((_captured(value, _SAMPLES), _captured(made, _SAMPLES)))
            value = made
    return calls


def _signature(layer: nn.Module) -> Any:
    return (tuple((name, type(part)) for name, part in layer.named_modules()),
            tuple((name, tuple(one.shape), one.dtype) for name, one in layer.named_parameters()))


def _by_name(model: nn.Module, pattern: str, tokens: int) -> list[nn.Module]:
    """Returns the modules whose names match, each with the arguments that the model gives it."""
    depth = pattern.count(".")
    named = {name: module for name, module in model.named_modules()
             if name.count(".") == depth and fnmatch.fnmatchcase(name, pattern)}
    if not named:
        raise field_error("SPEC_INVALID", "--layers", f"no module has a name like {pattern}")
    seen: dict[nn.Module, CalledLayer] = {}

    def remember(module: nn.Module, others: tuple[Any, ...], options: dict[str, Any]) -> None:
        def keep(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return _captured(value, _SAMPLES)
            return tuple(map(keep, value)) if isinstance(value, tuple) else value

        name = None
        if not others:
            name = next((key for key, value in options.items()
                         if isinstance(value, torch.Tensor)), None)
        first = others[0] if name is None else options[name]
        made = CalledLayer(module, name, tuple(map(keep, others[1:] if name is None else ())),
                           {key: keep(value) for key, value in options.items() if key != name})
        made.first = keep(first)
        seen[module] = made

    hooks = [module.register_forward_pre_hook(remember, with_kwargs=True)
             for module in named.values()]
    device = next(model.parameters()).device
    with torch.no_grad():
        model(torch.zeros((_SAMPLES, tokens), dtype=torch.long, device=device))
    for hook in hooks:
        hook.remove()
    missing = [name for name, module in named.items() if module not in seen]
    if missing:
        raise field_error("SPEC_INVALID", "--layers", f"the model did not call {missing[0]}")
    return list(seen.values())
