"""The modules of a model, one for each layer of a plan.

A layer takes the activations of one micro-batch, `[samples, tokens, hidden]`, and returns those of
the next layer. The first takes token ids or images, the last returns what the loss function takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from parplan.errors import Error, field_error
from parplan.plan import Plan
from parplan.torch.transformers_layers import Decoder, Wrapper, transformers_layers_of

__all__ = ["Decoder", "Wrapper", "check_count", "find_layers", "layers_of", "refused"]


def find_layers(model: nn.Module, plan: Plan) -> list[nn.Module]:
    """Returns the layers of a model (`layers_of`), as many as the plan has. Raises SpecInvalid."""
    layers = layers_of(model)
    check_count(layers, plan)
    return layers


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Returns the layers of a model: the children of an `nn.Sequential`, or those of a model of
    `transformers` of one of the forms in transformers_layers.py. Raises SpecInvalid if the model is
    neither."""
    if isinstance(model, nn.Sequential):
        return list(model.children())
    found = transformers_layers_of(model)
    if found is None:
        raise field_error("SPEC_INVALID", "model",
                          f"{type(model).__name__} is no nn.Sequential and no model of "
                          "transformers of a known form (causal language models, GPT-2, BERT for "
                          "masked words, ViT for images); give its layers as `layers`")
    return found


def check_count(layers: Sequence[nn.Module], plan: Plan) -> None:
    """Raises SpecInvalid if there are not as many layers as in the plan."""
    if len(layers) != len(plan.layers):
        raise field_error("SPEC_INVALID", "layers",
                          f"the model has {len(layers)} layers, the plan {len(plan.layers)}; in both "
                          "the embedding and the head are layers, as planctl import makes the model "
                          "file")


def refused(layer: int, why: str) -> Error:
    """Returns the error for a layer that cannot be run exactly."""
    return field_error("SPEC_INVALID", f"layer {layer}", why)
