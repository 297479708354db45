"""The model of a plan, whole or small, made anew in every process."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from parplan.errors import field_error
from parplan.plan import Plan
from parplan.torch import inputs as made_inputs
from parplan.torch.check.shrink import Widths
from parplan.torch.layers import check_count, find_layers, layers_of
from parplan.torch.measure.captures import modules_by_name
from parplan.torch.measure.models import build_from, callable_of, read_configuration
from parplan.torch.stacked_experts import stack_experts

# Fields of a configuration of transformers, and the width that each takes.
_FIELDS = {
    "hidden_size": "hidden", "intermediate_size": "feed_forward", "vocab_size": "vocabulary",
    "num_attention_heads": "heads", "num_key_value_heads": "key_value_heads",
    "head_dim": "head_size", "moe_intermediate_size": "feed_forward",
    "shared_expert_intermediate_size": "feed_forward"}
# Numbers of tokens of the vocabulary, which a small one may lack.
_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id")


@dataclasses.dataclass(frozen=True)
class Source:
    """A way to make a model: `hf:config.json`, or `module:callable`. A callable gets the
    `ModelSpec` if it takes an argument, and makes the layers of that; else it takes none and
    always makes the whole model."""
    reference: str
    # `module:callable` for the loss of an output and its targets; empty for cross entropy.
    loss: str = ""
    # `module:callable` for inputs and targets (inputs.py); empty for random tokens, or images if a
    # configuration of transformers takes them.
    inputs: str = ""
    # Names of the layers in the order of the plan (captures.modules_by_name), each a module from
    # activations to activations; empty if `find_layers` finds them.
    layers: tuple[str, ...] = ()

    @property
    def has_own_widths(self) -> bool:
        """Whether a small model has the widths of the whole one."""
        return not self._is_configuration and not _takes_spec(callable_of(self.reference))

    @property
    def _is_configuration(self) -> bool:
        return self.reference.startswith("hf:")

    def load_libraries(self) -> None:
        """Imports what makes the model."""
        if self._is_configuration:
            read_configuration(self.reference[3:])

    def whole(self, spec: Any, dtype: torch.dtype) -> nn.Module:
        """Returns the model of a `ModelSpec` on the device of the context."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            if self._is_configuration:
                configuration = read_configuration(self.reference[3:])
                _check_tokens(configuration, spec)
                return stack_experts(build_from(configuration))
            return self._called(spec)
        finally:
            torch.set_default_dtype(before)

    def small(self, plan: Plan, kept: Sequence[int], widths: Widths | None,
              seed: int) -> tuple[nn.Module, list[nn.Module]]:
        """Returns a model of the layers `kept` for a small plan, without dropout, the same in every
        process, and its layers."""
        torch.manual_seed(seed)
        spec = plan.model
        layers: list[nn.Module] | None = None
        if self._is_configuration:
            configuration = read_configuration(self.reference[3:])
            if widths is not None:
                _narrow(configuration, widths, spec)
            model = _with_layers(stack_experts(build_from(configuration)), kept)
        else:
            model = self._called(spec)
            if self.has_own_widths:
                if self.layers:
                    # Before names change with the layers that are left out.
                    layers = _kept(self._named(model), kept)
                    _leave_out(model, layers)
                else:
                    model = _with_layers(model, kept)
        for module in model.modules():
            if isinstance(module, nn.modules.dropout._DropoutNd):
                module.p = 0.0
            if isinstance(getattr(module, "attention_dropout", None), float):
                module.attention_dropout = 0.0  # type: ignore[assignment]
        model = model.float()
        return model, layers if layers is not None else self.layers_in(model, plan)

    def layers_in(self, model: nn.Module, plan: Plan) -> list[nn.Module]:
        """Returns the layers of a model that this made for a plan. Raises SpecInvalid."""
        if not self.layers:
            return find_layers(model, plan)
        found = self._named(model)
        check_count(found, plan)
        return found

    def loss_function(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Returns the loss: that of `loss`, or the mean cross entropy of all tokens."""
        return callable_of(self.loss) if self.loss else cross_entropy

    def batch(self, plan: Plan, seed: int, sample_count: int | None = None
              ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns inputs and targets of `sample_count` samples, by default of a global batch; the
        same in every process. Raises SpecInvalid for a model whose inputs it cannot make."""
        count = plan.global_batch_size if sample_count is None else sample_count
        if self.inputs:
            return made_inputs.called(self.inputs, plan.model, count, seed)
        if self._is_configuration:
            images = made_inputs.images_of(read_configuration(self.reference[3:]))
            if images is not None:
                tokens = made_inputs.first_and_last(plan.model)[0].sequence_length
                return made_inputs.images(plan.model, images.with_tokens(tokens), count, seed)
        return made_inputs.tokens(plan.model, count, seed)

    def _named(self, model: nn.Module) -> list[nn.Module]:
        return [group[0] if len(group) == 1 else nn.Sequential(*group)
                for group in modules_by_name(model, self.layers)]

    def _called(self, spec: Any) -> nn.Module:
        make = callable_of(self.reference)
        model = make(spec) if _takes_spec(make) else make()
        if not isinstance(model, nn.Module):
            raise field_error("SPEC_INVALID", "--model", f"{self.reference} returned no nn.Module")
        return model


def cross_entropy(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the mean cross entropy of logits over all tokens."""
    return nn.functional.cross_entropy(output.flatten(0, -2).float(), targets.flatten())


def output_of(model: nn.Module, layers: Sequence[nn.Module],
              inputs: torch.Tensor) -> torch.Tensor:
    """Calls a whole model in one process: its own forward pass, not that of its layers, unless it
    has none."""
    if type(model).forward is nn.Module.forward:
        made = inputs
        for layer in layers:
            made = layer(made)
        return made
    # `input_ids` of models of tokens of transformers, `pixel_values` of those of images.
    name: Any = getattr(model, "main_input_name", None)
    answer: Any = model(inputs) if name is None else model(**{name: inputs})
    logits: torch.Tensor = answer if isinstance(answer, torch.Tensor) else answer.logits
    return logits


def _takes_spec(make: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):
        return False
    return any(one.default is one.empty and one.kind in (one.POSITIONAL_ONLY,
                                                         one.POSITIONAL_OR_KEYWORD)
               for one in parameters)


def _check_tokens(configuration: Any, spec: Any) -> None:
    """Refuses a model file whose tokens are not those of the configuration's images."""
    images = made_inputs.images_of(configuration)
    first, _ = made_inputs.first_and_last(spec)
    if images is not None and first.sequence_length != images.token_count:
        raise field_error("SPEC_INVALID", "--spec",
                          f"{first.layer_definition_id} has sequence_length "
                          f"{first.sequence_length}, and an image of the configuration becomes "
                          f"{images.token_count} tokens")


def _narrow(configuration: Any, widths: Widths, spec: Any) -> None:
    has_head_size = getattr(configuration, "head_dim", None) is not None
    for name, width in _FIELDS.items():
        if getattr(configuration, name, None) is None and not (
                name == "num_key_value_heads" and hasattr(configuration, name)):
            continue
        setattr(configuration, name, getattr(widths, width))
    if not has_head_size and widths.hidden != widths.heads * widths.head_size:
        raise field_error("SPEC_INVALID", "--spec",
                          "head_size differs from hidden_size / attention_head_count, and the "
                          "configuration has no head_dim")
    images = made_inputs.images_of(configuration)
    if images is not None:
        first, _ = made_inputs.first_and_last(spec)
        small = images.with_tokens(first.sequence_length)
        configuration.image_size = (small.height, small.width)
        configuration.num_labels = widths.vocabulary
    for name in _TOKENS:
        value = getattr(configuration, name, None)
        if isinstance(value, int) and value >= widths.vocabulary or isinstance(value, list):
            setattr(configuration, name, None)


def _with_layers(model: nn.Module, kept: Sequence[int]) -> nn.Module:
    """Returns the model with the layers `kept` of those that `layers_of` finds."""
    if isinstance(model, nn.Sequential):
        children = list(model.children())
        _check_kept(kept, len(children))
        return nn.Sequential(*(children[index] for index in kept))
    layers = layers_of(model)
    _check_kept(kept, len(layers))
    if kept[0] != 0 or kept[-1] != len(layers) - 1:
        raise field_error("SPEC_INVALID", "--model", "embedding and head cannot be left out")
    whole: Any = model
    # The layers between embedding and head are one list, whatever the model calls it.
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == len(layers) - 2:
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own,
                    nn.ModuleList(module[index - 1] for index in kept[1:-1]))
            whole.config.num_hidden_layers = len(kept) - 2
            return model
    raise field_error("SPEC_INVALID", "--model", f"{type(model).__name__} has no list of "
                      f"{len(layers) - 2} layers between embedding and head")


def _kept(layers: Sequence[nn.Module], kept: Sequence[int]) -> list[nn.Module]:
    _check_kept(kept, len(layers))
    return [layers[index] for index in kept]


def _leave_out(model: nn.Module, layers: Sequence[nn.Module]) -> None:
    """Takes modules with parameters that are in none of `layers` out of the lists and dictionaries
    of modules through which the model's own forward pass walks. Raises SpecInvalid for one that is
    in no such."""
    inside = {id(module) for layer in layers for module in layer.modules()}
    holders = [module for module in model.modules()
               if any(id(one) in inside for one in module.modules())]
    left = inside | {id(module) for module in holders}
    for holder in holders:
        for name, module in list(holder.named_children()):
            if id(module) in left or next(module.parameters(), None) is None:
                continue
            if isinstance(holder, nn.ModuleDict):
                holder.pop(name)
            elif isinstance(holder, (nn.ModuleList, nn.Sequential)):
                # Indices change with each that goes.
                del holder[next(place for place, one in enumerate(holder) if one is module)]
            else:
                raise field_error("SPEC_INVALID", "--model", f"{type(model).__name__} has {name} in "
                                  "no list of modules, so the small copy cannot leave it out; give "
                                  "a callable that takes the ModelSpec")


def _check_kept(kept: Sequence[int], count: int) -> None:
    if kept[-1] >= count:
        raise field_error("SPEC_INVALID", "--model",
                          f"has {count} layers, and the plan has layer {kept[-1]}; the plan is for "
                          "another model")
