"""Inputs of a model and their targets, where a check or a measurement makes them: token ids, images
of a configuration of transformers, or what a callable returns.

A callable is called as `make(spec, sample_count, seed)` with the `ModelSpec` whose layers run. It
returns inputs and targets, tensors whose first dimension is the samples.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import torch

from parplan.errors import field_error
from parplan.wire import messages

TABLE, PATCHES = "LAYER_KIND_EMBEDDING", "LAYER_KIND_PATCH_EMBEDDING"
# A ViT puts the token of the class before those of the patches.
_TOKENS_BESIDE_PATCHES = 1


@dataclasses.dataclass(frozen=True)
class Images:
    """The images that a model takes: `channels` of `height` by `width` values, cut in patches."""
    channels: int
    height: int
    width: int
    patch_height: int
    patch_width: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one sample."""
        return self.channels, self.height, self.width

    @property
    def token_count(self) -> int:
        """Tokens that a sample becomes."""
        return (self.height // self.patch_height * (self.width // self.patch_width)
                + _TOKENS_BESIDE_PATCHES)

    def with_tokens(self, count: int) -> Images:
        """Returns images that become `count` tokens: these, or a row of patches of their size."""
        if count == self.token_count:
            return self
        return dataclasses.replace(
            self, height=self.patch_height,
            width=self.patch_width * max(count - _TOKENS_BESIDE_PATCHES, 1))


def images_of(configuration: Any) -> Images | None:
    """Returns the images of a configuration of transformers, or None if its model takes none."""
    size = getattr(configuration, "image_size", None)
    patch = getattr(configuration, "patch_size", None)
    if size is None or patch is None:
        return None
    height, width = _pair(size)
    patch_height, patch_width = _pair(patch)
    return Images(int(getattr(configuration, "num_channels", 3)), height, width, patch_height,
                  patch_width)


def _pair(size: Any) -> tuple[int, int]:
    """Returns height and width of a size that may be one number for both."""
    if isinstance(size, (list, tuple)):
        height, width = size
        return int(height), int(width)
    return int(size), int(size)


def first_and_last(spec: Any) -> tuple[Any, Any]:
    """Returns the `LayerDefinition` of the first and of the last layer of a `ModelSpec`."""
    definitions = {one.layer_definition_id: one for one in spec.layer_definitions}
    return (definitions[spec.layer_runs[0].layer_definition_id],
            definitions[spec.layer_runs[-1].layer_definition_id])


def tokens(spec: Any, sample_count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns random tokens and those that follow them. Raises SpecInvalid for a model that begins
    with no table of tokens."""
    first, _ = first_and_last(spec)
    vocabulary = min((one.vocabulary_size for one in spec.layer_definitions
                      if one.vocabulary_size), default=0)
    if vocabulary < 2 or messages.enum_name("LayerKind", first.kind) != TABLE:
        raise field_error("SPEC_INVALID", "--inputs",
                          "the first layer is no table of tokens, and the model no configuration "
                          "of transformers that takes images; give a callable that is called with "
                          "a ModelSpec, a number of samples and a seed, and returns inputs and "
                          "targets")
    generator = torch.Generator().manual_seed(seed)
    made = torch.randint(0, vocabulary, (sample_count, first.sequence_length + 1),
                         generator=generator)
    return made[:, :-1].contiguous(), made[:, 1:].contiguous()


def images(spec: Any, shape: Images, sample_count: int,
           seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns random images, and a class of each."""
    _, last = first_and_last(spec)
    if last.vocabulary_size < 2:
        raise field_error("SPEC_INVALID", "--spec", f"the head {last.layer_definition_id} has no "
                          "vocabulary_size, its number of classes")
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn((sample_count, *shape.shape), generator=generator)
    return made, torch.randint(0, last.vocabulary_size, (sample_count,), generator=generator)


def called(reference: str, spec: Any, sample_count: int,
           seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what the callable `module:name` makes. Raises SpecInvalid if it is not there, or does
    not return two tensors of as many samples."""
    module_name, _, name = reference.partition(":")
    try:
        make = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise field_error("SPEC_INVALID", "--inputs",
                          f"{reference}: {error}; must be module:callable") from None
    made: Any = make(spec, sample_count, seed)
    if not (isinstance(made, tuple) and len(made) == 2
            and all(isinstance(one, torch.Tensor) and one.dim() > 0 and len(one) == sample_count
                    for one in made)):
        raise field_error("SPEC_INVALID", "--inputs",
                          f"{reference} must return inputs and targets, two tensors whose first "
                          f"dimension is the {sample_count} samples that it was asked for")
    inputs, targets = made
    return inputs, targets
