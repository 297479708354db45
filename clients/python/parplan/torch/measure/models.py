"""A model to measure: its structure on the meta device, and one layer at a time on a device."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from parplan.errors import SpecInvalid, field_error
from parplan.torch.initialize import place_positions
from parplan.torch.layers import layers_of
from parplan.torch.inputs import images_of
from parplan.torch.measure.captures import (SAMPLES, CalledLayer, Captured, captured,
                                            layers_by_name, layers_by_structure, token_ids)
from parplan.torch.tensor_parallel import tensor_plan_of

_STANDARD_DEVIATION = 0.02  # As most models of transformers initialize theirs.


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

    def sharing_tokens(self, degree: int) -> LayerKind:
        """Returns the layer as one of `degree` ranks calls it that share the tokens of activations.
        A layer that does not return activations, such as a head, returns all of its output."""
        given = self.given.sharing_tokens(degree)
        returned = given if self.is_chainable else self.returned
        return dataclasses.replace(self, given=given, returned=returned)


class Model:
    """The layers of a model, on the meta device or with values."""

    def __init__(self, model: nn.Module, layers: list[nn.Module], inputs: Captured,
                 tensor_plan: Mapping[str, str] | None = None) -> None:
        """Calls the layers once, one after the other, with samples like `inputs`."""
        self.model = model
        self.layers = layers
        self.tensor_plan = dict(tensor_plan or {})
        self._names = {id(module): name for name, module in model.named_modules()}
        calls = _capture(layers, inputs)
        self.kinds: list[LayerKind] = []
        places: dict[Any, list[int]] = {}
        for index, layer in enumerate(layers):
            places.setdefault((_signature(layer), calls[index]), []).append(index)
        for (_, (given, returned)), indices in places.items():
            module = layers[indices[0]]
            upper = next((part.num_embeddings for part in module.modules()
                          if isinstance(part, nn.Embedding)), 2)
            self.kinds.append(LayerKind(module, tuple(indices), given, returned, upper))

    def copy(self, kind: LayerKind, device: torch.device) -> tuple[nn.Module, dict[int, str]]:
        """Returns a copy of a layer with values of its own, and the names within the model for the
        ids of its modules. Raises SpecInvalid for buffers on the meta device, which have no
        values."""
        module = copy.deepcopy(kind.module)
        names = {id(mine): self._names[id(part)]
                 for part, mine in zip(kind.module.modules(), module.modules())
                 if id(part) in self._names}
        place_positions([module], device)
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
            draw(module.parameters())
        else:
            module.to(device)
        return module, names

    def on_device(self, kind: LayerKind, device: torch.device, copies: int) -> list[nn.Module]:
        """Returns copies of a layer. Errors as for `copy`."""
        return [self.copy(kind, device)[0] for _ in range(copies)]


def draw(tensors: Iterable[torch.Tensor]) -> None:
    """Gives tensors the values of a model before training."""
    for one in tensors:
        nn.init.normal_(one, std=_STANDARD_DEVIATION)


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """What makes a model, in any process. `reference` is `hf:config.json`, a configuration of
    transformers, or `module:callable`, which is called without arguments. `layers` are patterns of
    names (`layers_by_name`); without any the layers are found, first by `layers_of`, then by
    `layers_by_structure`. The model is made on the meta device unless `with_values`. `tensor_plan`
    is a file with a plan of tensor parallelism in JSON, or `module:name` of one, or empty for the
    model's own. `inputs` is what the model is called with; None for `tokens` token ids, or for the
    images of a configuration that takes them."""
    reference: str
    tokens: int
    dtype: torch.dtype = torch.float32
    layers: tuple[str, ...] = ()
    with_values: bool = False
    tensor_plan: str = ""
    inputs: Captured | None = None

    def load(self) -> Model:
        """Makes the model. Raises SpecInvalid."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)
        try:
            with torch.device("cpu" if self.with_values else "meta"):
                model = build(self.reference)
        finally:
            torch.set_default_dtype(before)
        plan = _read_plan(self.tensor_plan) if self.tensor_plan else tensor_plan_of(model)
        inputs = self._inputs_of(model)
        return Model(model, self._layers_of(model, inputs), inputs, plan)

    def _inputs_of(self, model: nn.Module) -> Captured:
        if self.inputs is not None:
            if not self.inputs.dtype.is_floating_point:
                return self.inputs
            return dataclasses.replace(self.inputs, dtype=self.dtype)
        images = images_of(getattr(model, "config", None))
        if images is not None:
            return Captured(images.shape, self.dtype, True)
        return token_ids(self.tokens)

    def _layers_of(self, model: nn.Module, inputs: Captured) -> list[nn.Module]:
        if self.layers:
            return layers_by_name(model, self.layers, inputs)
        try:
            return layers_of(model)
        except SpecInvalid:
            found = layers_by_structure(model, inputs)
            if not found:
                raise field_error("SPEC_INVALID", "--layers",
                                  f"no layers were found in {type(model).__name__}; give the "
                                  "names of its layers, such as model.layers.*") from None
            return found


def load_model(reference: str, tokens: int, *, dtype: torch.dtype = torch.float32,
               layers: Sequence[str] = (), with_values: bool = False) -> Model:
    """Returns the model of a ModelSource with these fields. Raises SpecInvalid."""
    return ModelSource(reference, tokens, dtype, tuple(layers), with_values).load()


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
    if ":" not in reference:
        raise field_error("SPEC_INVALID", "--model",
                          "must be hf:config.json or module:callable")
    found: Callable[..., Any] = _named(reference, "--model")
    return found


def _named(reference: str, option: str) -> Any:
    module_name, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise field_error("SPEC_INVALID", option, f"{reference}: {error}") from None


def _read_plan(source: str) -> dict[str, str]:
    if ":" in source:
        plan = _named(source, "--tensor-plan")
    else:
        try:
            plan = json.loads(pathlib.Path(source).read_text())
        except (OSError, ValueError) as error:
            raise field_error("SPEC_INVALID", "--tensor-plan", f"{source}: {error}") from None
    if not isinstance(plan, Mapping) or not all(
            isinstance(part, str) for pair in plan.items() for part in pair):
        raise field_error("SPEC_INVALID", "--tensor-plan",
                          f"{source} has no names with the ways in which modules are split, such "
                          'as {"*.up": "colwise"}')
    return dict(plan)


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
    """Returns a model of transformers with random weights: one for masked words or for classes of
    images if the configuration's `architectures` says so, else a causal language model, or if
    there is none of its type a model for classes of images. Raises SpecInvalid if there is neither.
    """
    import transformers
    names = [*(getattr(configuration, "architectures", None) or [])]
    kinds = [kind for name in names for end, kind in _MODELS.items() if name.endswith(end)]
    for kind in [*kinds[:1], "AutoModelForCausalLM", "AutoModelForImageClassification"]:
        models: Any = getattr(transformers, kind)
        if type(configuration) in models._model_mapping:
            made: nn.Module = models.from_config(configuration)
            return made
    raise field_error("SPEC_INVALID", "--model",
                      f"transformers has no causal language model and no model for classes of "
                      f"images of the type {configuration.model_type}")


# By the end of the name of an architecture.
_MODELS = {"ForMaskedLM": "AutoModelForMaskedLM",
           "ForImageClassification": "AutoModelForImageClassification"}


def _capture(layers: list[nn.Module], inputs: Captured) -> list[tuple[Captured, Captured]]:
    calls = []
    device = next(iter(layers[0].parameters())).device
    first = layers[0][0] if isinstance(layers[0], nn.Sequential) else layers[0]
    if isinstance(first, CalledLayer):
        value = first.first.make(SAMPLES, device)
    else:
        value = inputs.make(SAMPLES, device, 1)
    place_positions(layers, device)
    # Tensors that a layer makes without naming a device are where its parameters are.
    with torch.no_grad(), device:
        for layer in layers:
            made = layer(value)
            calls.append((captured(value), captured(made)))
            value = made
    for layer in layers:
        for part in layer.modules():
            if isinstance(part, CalledLayer):
                part.forget()
    return calls


def _signature(layer: nn.Module) -> Any:
    return (tuple((name, type(part)) for name, part in layer.named_modules()),
            tuple((name, tuple(one.shape), one.dtype) for name, one in layer.named_parameters()))
