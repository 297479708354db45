"""The modules of a model, one for each layer of a plan.

A layer takes the activations of one micro-batch, `[samples, tokens, hidden]`, and returns those of
the next layer. The first takes token ids, the last returns what the loss function takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from parplan.errors import Error, field_error
from parplan.plan import Plan


def find_layers(model: nn.Module, plan: Plan) -> list[nn.Module]:
    """Returns the layers of a model (`layers_of`), as many as the plan has. Raises SpecInvalid."""
    layers = layers_of(model)
    check_count(layers, plan)
    return layers


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Returns the layers of a model: the children of an `nn.Sequential`, or those of a causal
    language model of `transformers` with `embed_tokens`, `layers`, `norm` and `lm_head`. Raises
    SpecInvalid if the model is neither."""
    if isinstance(model, nn.Sequential):
        return list(model.children())
    if _is_causal_language_model(model):
        return _causal_language_model(model)
    raise field_error("SPEC_INVALID", "model",
                      f"{type(model).__name__} is no nn.Sequential and no causal language "
                      "model of transformers; give its layers as `layers`")


def check_count(layers: Sequence[nn.Module], plan: Plan) -> None:
    """Raises SpecInvalid if there are not as many layers as in the plan."""
    if len(layers) != len(plan.layers):
        raise field_error("SPEC_INVALID", "layers",
                          f"the model has {len(layers)} layers, the plan {len(plan.layers)}")


def refused(layer: int, why: str) -> Error:
    """Returns the error for a layer that cannot be run exactly."""
    return field_error("SPEC_INVALID", f"layer {layer}", why)


def _is_causal_language_model(model: nn.Module) -> bool:
    inner = getattr(model, "model", None)
    return (hasattr(model, "lm_head") and inner is not None
            and all(hasattr(inner, name)
                    for name in ("embed_tokens", "layers", "norm", "rotary_emb")))


def _causal_language_model(model: Any) -> list[nn.Module]:
    inner = model.model
    config = getattr(model, "config", None)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise field_error("SPEC_INVALID", "model",
                          f"layers of the types {sorted(kinds)} need masks of their own; give "
                          "layers that make them as `layers`")
    if config is not None and getattr(config, "use_cache", False):
        # A training step keeps no keys and values.
        config.use_cache = False
    return [inner.embed_tokens, *(Decoder(layer, inner.rotary_emb) for layer in inner.layers),
            _Head(inner.norm, model.lm_head)]


class Wrapper(nn.Module):
    """A module of a model with what the model gives it beside the activations."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer


class Decoder(Wrapper):
    """A decoder layer of transformers with the positions of its tokens. Its attention is causal
    without a mask."""

    def __init__(self, layer: nn.Module, rotary: nn.Module) -> None:
        super().__init__(layer)
        # Numbers of the tokens that attention of this rank attends from; set by `apply`.
        self.token_positions: torch.Tensor | None = None
        # One for all layers: a submodule would be sharded with each of them.
        self._rotary = [rotary]

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.token_positions is None:
            self.token_positions = torch.arange(hidden.shape[1], device=hidden.device)
        positions = self.token_positions.unsqueeze(0)
        answer = self.layer(hidden, attention_mask=None, position_ids=positions,
                            position_embeddings=self.rotary(hidden, positions))
        made: torch.Tensor = answer[0] if isinstance(answer, tuple) else answer
        return made

    @property
    def rotary(self) -> nn.Module:
        """The module that computes what attention needs of positions."""
        return self._rotary[0]


class _Head(nn.Module):
    """The last norm and the projection to the vocabulary."""

    def __init__(self, norm: nn.Module, projection: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.projection = projection

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.projection(self.norm(hidden))
        return logits
