"""The layers of models of transformers, as modules from activations to activations.

| form | first layer | layers | last layer |
|---|---|---|---|
| causal, rotary positions | `model.embed_tokens` | `model.layers` | `model.norm`, `lm_head` |
| GPT-2 | `transformer.wte`, `wpe` | `transformer.h` | `transformer.ln_f`, `lm_head` |
| BERT for masked words | `bert.embeddings` | `bert.encoder.layer` | `cls` |
| ViT for images | `vit.embeddings` | `vit.layers` | `vit.layernorm`, `classifier` |
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from parplan.errors import field_error


def transformers_layers_of(model: Any) -> list[nn.Module] | None:
    """Returns the layers of a model, or None if it has none of the known forms. Raises SpecInvalid
    for a model of such a form whose loss or layers are not those that its layers compute."""
    config: Any = getattr(model, "config", None)
    for has_form, layers in ((_is_causal, _causal), (_is_gpt2, _gpt2), (_is_bert, _bert),
                             (_is_vit, _vit)):
        if not has_form(model):
            continue
        if getattr(config, "add_cross_attention", False):
            raise _refused("its layers also attend to another sequence; give layers as `layers`")
        if getattr(config, "output_router_logits", False):
            raise _refused("the loss that balances its experts is over all tokens of a step, and "
                           "not of its layers; set output_router_logits to false")
        if getattr(config, "use_cache", False):
            # A training step keeps no keys and values.
            config.use_cache = False
        return layers(model)
    return None


# Fields of configurations of models that change activations between their layers.
_FACTORS = ("embedding_multiplier", "logits_scaling", "logit_scale", "final_logit_softcapping",
            "scale_emb", "scale_embedding", "dim_model_base")
# Kinds of models that do so by no field, or that make a mask of their own.
_OTHERS = ("gemma", "doge")


def _refused(why: str) -> Exception:
    return field_error("SPEC_INVALID", "model", why)


def _has(module: Any, *names: str) -> bool:
    return module is not None and all(hasattr(module, name) for name in names)


def _is_causal(model: Any) -> bool:
    return _has(model, "lm_head") and _has(getattr(model, "model", None), "embed_tokens", "layers",
                                           "norm", "rotary_emb")


def _causal(model: Any) -> list[nn.Module]:
    inner = model.model
    config: Any = getattr(model, "config", None)
    if str(getattr(config, "model_type", "")).startswith(_OTHERS) or any(
            getattr(config, name, None) not in (None, 1, 1.0, False) for name in _FACTORS):
        raise _refused("it multiplies or bounds the output of its embedding or head outside of its "
                       "layers; give layers that do it as `layers`")
    if getattr(config, "sliding_window", None) and not getattr(config, "layer_types", None):
        raise _refused("its attention has a window, which needs a mask; set sliding_window to None "
                       "if no sample is longer")
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise _refused(f"layers of the types {sorted(kinds)} need masks of their own; give layers "
                       "that make them as `layers`")
    return [inner.embed_tokens, *(Decoder(layer, inner.rotary_emb) for layer in inner.layers),
            Head(inner.norm, model.lm_head)]


def _is_gpt2(model: Any) -> bool:
    return _has(model, "lm_head") and _has(getattr(model, "transformer", None), "wte", "wpe",
                                           "drop", "h", "ln_f")


def _gpt2(model: Any) -> list[nn.Module]:
    inner = model.transformer
    return [WordsAndPlaces(inner.wte, inner.wpe, inner.drop),
            *(Decoder(layer, None) for layer in inner.h), Head(inner.ln_f, model.lm_head)]


def _is_bert(model: Any) -> bool:
    inner = getattr(model, "bert", None)
    return (_has(model, "cls") and _has(inner, "embeddings", "encoder")
            and not _has(model.cls, "seq_relationship"))


def _bert(model: Any) -> list[nn.Module]:
    if getattr(model.config, "is_decoder", False):
        raise _refused("is_decoder needs masks; give layers that make them as `layers`")
    return [BertEmbeddings(model.bert.embeddings),
            *(Decoder(layer, None) for layer in model.bert.encoder.layer), model.cls]


def _is_vit(model: Any) -> bool:
    inner = getattr(model, "vit", None)
    return (_has(model, "classifier") and _has(inner, "embeddings", "layernorm")
            and (_has(inner, "layers") or _has(getattr(inner, "encoder", None), "layer")))


def _vit(model: Any) -> list[nn.Module]:
    inner = model.vit
    layers = inner.layers if hasattr(inner, "layers") else inner.encoder.layer
    return [ImageEmbeddings(inner.embeddings), *(Decoder(layer, None) for layer in layers),
            FirstTokenHead(inner.layernorm, model.classifier)]


class Wrapper(nn.Module):
    """A module of a model with what the model gives it beside the activations."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer


class Decoder(Wrapper):
    """A decoder or encoder layer of transformers, with the positions of its tokens if it takes
    them. Its attention needs no mask."""

    def __init__(self, layer: nn.Module, rotary: nn.Module | None) -> None:
        super().__init__(layer)
        # Numbers of the tokens that attention of this rank attends from; set by `apply`.
        self.token_positions: torch.Tensor | None = None
        # One for all layers: a submodule would be sharded with each of them.
        self._rotary = [rotary]

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.rotary is None:
            answer = self.layer(hidden, attention_mask=None)
        else:
            if self.token_positions is None:
                self.token_positions = torch.arange(hidden.shape[1], device=hidden.device)
            positions = self.token_positions.unsqueeze(0)
            answer = self.layer(hidden, attention_mask=None, position_ids=positions,
                                position_embeddings=self.rotary(hidden, positions))
        made: torch.Tensor = answer[0] if isinstance(answer, tuple) else answer
        return made

    @property
    def rotary(self) -> nn.Module | None:
        """The module that computes what attention needs of positions; None if positions are added
        to the embedding."""
        return self._rotary[0]


class WordsAndPlaces(nn.Module):
    """The sum of the tables of tokens and of positions."""

    def __init__(self, words: nn.Module, places: nn.Module, dropout: nn.Module) -> None:
        super().__init__()
        self.words, self.places, self.dropout = words, places, dropout
        self.token_positions: torch.Tensor | None = None

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = _positions(self.token_positions, tokens)
        made: torch.Tensor = self.dropout(self.words(tokens) + self.places(positions))
        return made


class BertEmbeddings(nn.Module):
    """BERT's embedding of tokens of the first kind of segment."""

    def __init__(self, embeddings: nn.Module) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.token_positions: torch.Tensor | None = None

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.embeddings(
            tokens, position_ids=_positions(self.token_positions, tokens))
        return made


class ImageEmbeddings(nn.Module):
    """ViT's embedding of images, which takes them in any type as the model does."""

    def __init__(self, embeddings: nn.Module) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        projection: Any = self.embeddings.get_submodule("patch_embeddings.projection")
        made: torch.Tensor = self.embeddings(images.to(projection.weight.dtype))
        return made


def _positions(numbers: torch.Tensor | None, tokens: torch.Tensor) -> torch.Tensor:
    if numbers is None:
        numbers = torch.arange(tokens.shape[1], device=tokens.device)
    return numbers.unsqueeze(0)


class Head(nn.Module):
    """The last norm and the projection to the vocabulary."""

    def __init__(self, norm: nn.Module, projection: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.projection = projection

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.projection(self.norm(hidden))
        return logits


class FirstTokenHead(nn.Module):
    """The last norm, and the projection of the first token to classes."""
    # Ranks that share tokens would each take a first token of their own.
    needs_all_tokens = True

    def __init__(self, norm: nn.Module, projection: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.projection = projection

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        classes: torch.Tensor = self.projection(self.norm(hidden)[:, 0])
        return classes
