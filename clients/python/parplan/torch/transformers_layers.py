"""The layers of models of transformers, as modules from activations to activations.

| form | first layer | layers | last layer |
|---|---|---|---|
| causal, rotary positions | `model.embed_tokens` | `model.layers` | `model.norm`, `lm_head` |
| GPT-2 | `transformer.wte`, `wpe` | `transformer.h` | `transformer.ln_f`, `lm_head` |
| BERT for masked words | `bert.embeddings` | `bert.encoder.layer` | `cls` |
| ViT for images | `vit.embeddings` | `vit.layers` | `vit.layernorm`, `classifier` |
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _python_dispatch

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
    rotations = Rotations(inner.rotary_emb)
    return [inner.embed_tokens, *(Decoder(layer, rotations) for layer in inner.layers),
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


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Keeps the pass around it from what is made once: under inference mode, tensors that training
    may use too; without gradients; and hidden from dispatch modes, since selective recomputation
    by operator keeps results in the order of the calls, and a second pass has no such calls."""
    without_modes: Any = _python_dispatch._disable_current_modes
    with torch.inference_mode(False), torch.no_grad(), without_modes():
        yield


class Rotations:
    """What the attention of layers needs of positions (cosines and sines). It is made once for all
    layers, micro-batches and steps with the same tokens, and kept. No module: a submodule would be
    sharded with each of its layers."""

    def __init__(self, module: nn.Module) -> None:
        """`module` computes it."""
        self.module = module
        # Numbers of tokens that differ, and what was made of each for a type of activations.
        self._positions: list[torch.Tensor] = []
        self._made: dict[tuple[int, torch.dtype], tuple[torch.Tensor, ...]] = {}

    def place_of(self, positions: torch.Tensor) -> int | None:
        """Returns a number for these numbers of tokens, the same for equal ones; None for a tensor
        without contents, of which nothing is kept."""
        if type(positions) is not torch.Tensor or positions.is_meta:
            return None
        with _apart():
            for place, one in enumerate(self._positions):
                if one.device == positions.device and torch.equal(one, positions):
                    return place
        self._positions.append(positions)
        return len(self._positions) - 1

    def of(self, hidden: torch.Tensor, positions: torch.Tensor, place: int | None) -> Any:
        """Returns it for the type of activations and their tokens, whose `place_of` is given."""
        if place is None:
            return self.module(hidden, positions.unsqueeze(0))
        key = place, hidden.dtype
        if key not in self._made:
            with _apart():
                self._made[key] = self.module(hidden, positions.unsqueeze(0))
        return self._made[key]

    @property
    def kept(self) -> list[torch.Tensor]:
        """The tensors that live as long as the layers."""
        return [one for made in self._made.values() for one in made]


class Decoder(Wrapper):
    """A decoder or encoder layer of transformers, with the positions of its tokens if it takes
    them. Its attention needs no mask."""

    def __init__(self, layer: nn.Module, rotations: Rotations | None) -> None:
        super().__init__(layer)
        # Numbers of the tokens that attention of this rank attends from; set by `apply`.
        self.token_positions: torch.Tensor | None = None
        # None if positions are added to the embedding.
        self.rotations = rotations
        # Positions whose place in `rotations` is known, and the place.
        self._placed: tuple[torch.Tensor | None, int | None] = (None, None)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.rotations is None:
            answer = self.layer(hidden, attention_mask=None)
        else:
            positions = self.token_positions
            if positions is None:
                # Training may use it too.
                with torch.inference_mode(False):
                    positions = torch.arange(hidden.shape[1], device=hidden.device)
                self.token_positions = positions
            answer = self.layer(hidden, attention_mask=None, position_ids=positions.unsqueeze(0),
                                position_embeddings=self._rotation(hidden, positions))
        made: torch.Tensor = answer[0] if isinstance(answer, tuple) else answer
        return made

    @property
    def constants(self) -> list[torch.Tensor]:
        """The tensors that live from the first pass on."""
        made = [] if self.rotations is None else self.rotations.kept
        return made if self.token_positions is None else [self.token_positions, *made]

    def _rotation(self, hidden: torch.Tensor, positions: torch.Tensor) -> Any:
        assert self.rotations is not None
        if torch.compiler.is_compiling():
            return self.rotations.of(hidden, positions, None)
        if self._placed[0] is not positions:
            self._placed = positions, self.rotations.place_of(positions)
        return self.rotations.of(hidden, positions, self._placed[1])


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
