"""Layers through torch.compile, as training with fixed sizes runs them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from torch import nn

# Names of the limit on compiled variants of one function, in newer and older releases.
_LIMITS = ("recompile_limit", "cache_size_limit")
# Beside the variants of sizes: forward passes while hooks on saved tensors are entered.
_OTHER_VARIANTS = 8


def compile_layers(layers: Sequence[nn.Module], size_count: int, forgets: bool = True) -> None:
    """Compiles layers in place, so that they remain modules, when they are called. Every one of
    `size_count` sizes of a micro-batch gets code of its own, as if it was the only one. With
    `forgets` what was compiled before is dropped. A layer with more variants than sizes raises an
    error when it is called, where torch would go on without compiling; so does then every other
    function that the process compiles."""
    dynamo: Any = importlib.import_module("torch._dynamo")
    if forgets:
        dynamo.reset()
    for name in _LIMITS:
        if hasattr(dynamo.config, name):
            limit = max(getattr(dynamo.config, name), size_count + _OTHER_VARIANTS)
            setattr(dynamo.config, name, limit)
    if hasattr(dynamo.config, "fail_on_recompile_limit_hit"):
        dynamo.config.fail_on_recompile_limit_hit = True
    for one in layers:
        one.compile(dynamic=False)
