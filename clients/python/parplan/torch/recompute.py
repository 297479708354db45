"""Recomputation of a layer, or of the core of its attention, in the backward pass."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import (CheckpointPolicy, checkpoint,
                                    create_selective_checkpoint_contexts)

from parplan.strategy import Recompute

# Scores, softmax, dropout and their product with the values, in one kernel.
_ATTENTION = frozenset(
    getattr(torch.ops.aten, name).default
    for name in ("_scaled_dot_product_flash_attention_for_cpu",
                 "_scaled_dot_product_flash_attention",
                 "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
    if hasattr(torch.ops.aten, name))


def run(module: nn.Module, level: Recompute, hidden: torch.Tensor) -> Any:
    """Runs a layer under a level of recomputation."""
    if level == Recompute.NONE:
        return module(hidden)
    if level == Recompute.FULL:
        return checkpoint(module, hidden, use_reentrant=False)
    contexts = functools.partial(create_selective_checkpoint_contexts, _policy)
    return checkpoint(module, hidden, use_reentrant=False, context_fn=contexts)


def _policy(_: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    if operation in _ATTENTION:
        return CheckpointPolicy.MUST_RECOMPUTE
    return CheckpointPolicy.MUST_SAVE
