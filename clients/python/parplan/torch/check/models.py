"""The model of a plan, whole or small, made anew in every process."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from parplan.errors import field_error
from parplan.torch.check.shrink import Widths
from parplan.torch.layers import layers_of
from parplan.torch.measure.models import build_from, callable_of, read_configuration

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

    @property
    def has_own_widths(self) -> bool:
        """Whether a small model has the widths of the whole one."""
        return not self.reference.startswith("hf:") and not _takes_spec(
            callable_of(self.reference))

    def whole(self, spec: Any, dtype: torch.dtype) -> nn.Module:
        """Returns the model of a `ModelSpec` on the device of the context."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            if self.reference.startswith("hf:"):
                return build_from(read_configuration(self.reference[3:]))
            return self._called(spec)
        finally:
            torch.set_default_dtype(before)

    def small(self, spec: Any, kept: Sequence[int], widths: Widths | None, seed: int) -> nn.Module:
        """Returns a model of the layers `kept`, without dropout, the same in every process."""
        torch.manual_seed(seed)
        if self.reference.startswith("hf:"):
            configuration = read_configuration(self.reference[3:])
            if widths is not None:
                _narrow(configuration, widths)
            model = _with_layers(build_from(configuration), kept)
        else:
            model = self._called(spec)
            if self.has_own_widths:
                model = _with_layers(model, kept)
        for module in model.modules():
            if isinstance(module, nn.modules.dropout._DropoutNd):
                module.p = 0.0
            if isinstance(getattr(module, "attention_dropout", None), float):
                module.attention_dropout = 0.0  # type: ignore[assignment]
        return model.float()

    def loss_function(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Returns the loss: that of `loss`, or the mean cross entropy of all tokens."""
        return callable_of(self.loss) if self.loss else cross_entropy

    def _called(self, spec: Any) -> nn.Module:
        make = callable_of(self.reference)
        model = make(spec) if _takes_spec(make) else make()
        if not isinstance(model, nn.Module):
            raise field_error("SPEC_INVALID", "--model", f"{self.reference} returned no nn.Module")
        return model


def cross_entropy(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the mean cross entropy of logits over all tokens."""
    return nn.functional.cross_entropy(output.flatten(0, -2).float(), targets.flatten())


def output_of(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Calls a whole model in one process: its own forward pass, not that of its layers."""
    if isinstance(model, nn.Sequential):
        made: torch.Tensor = model(inputs)
        return made
    logits: torch.Tensor = model(input_ids=inputs).logits
    return logits


def _takes_spec(make: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):
        return False
    return any(one.default is one.empty and one.kind in (one.POSITIONAL_ONLY,
                                                         one.POSITIONAL_OR_KEYWORD)
               for one in parameters)


def _narrow(configuration: Any, widths: Widths) -> None:
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


def _check_kept(kept: Sequence[int], count: int) -> None:
    if kept[-1] >= count:
        raise field_error("SPEC_INVALID", "--model",
                          f"has {count} layers, and the plan has layer {kept[-1]}; the plan is for "
                          "another model")
