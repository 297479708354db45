"""Policies of recomputation, by the names that torchtitan gives them."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from parplan.strategy import ContextKind, Recompute
from parplan.torch.attention import Attention
from parplan.torch.measure.models import LayerKind
from parplan.torch.recompute import OPERATORS, contexts_of
from parplan.torch.stage import Layer

# `selective` is what a plan calls so and parplan.torch.apply runs: attention alone is computed
# again. `selective-op` is torchtitan's mode `selective` with the option `op`.
POLICIES = ("none", "selective", "selective-op", "full")


def with_policy(layer: nn.Module, policy: str, kind: LayerKind) -> nn.Module:
    """Returns a layer that computes again what `policy` says before its backward pass."""
    if policy == "none":
        return layer
    if policy == "selective-op":
        return OperatorCheckpoint(layer)
    level = Recompute.FULL if policy == "full" else Recompute.SELECTIVE
    attention = Attention(kind.indices[0], ContextKind.RING, level, None, True)
    return Layer(layer, level, attention, dtype=None)


_contexts = contexts_of(OPERATORS)


def _operator_contexts() -> Any:
    """A function of a module, as torch.compile wants it."""
    return _contexts()


class OperatorCheckpoint(nn.Module):
    """A layer that keeps the results of fused attention, of every second product without a bias,
    and of reduce-scatters, and computes the rest again. These are torchtitan's operators
    (`_apply_op_sac`), and processors' fused attention."""

    def __init__(self, layer: nn.Module, remembers: bool = True) -> None:
        """Unless `remembers`, nothing but the layer is called, so that the module can be compiled;
        then hooks on saved tensors see all that is kept, and `kept` is empty."""
        super().__init__()
        self.layer = layer
        self._remembers = remembers
        self._caching: Any = None

    def forward(self, hidden: torch.Tensor) -> Any:
        if not self._remembers:
            return checkpoint(self.layer, hidden, use_reentrant=False,
                              context_fn=_operator_contexts)
        with warnings.catch_warnings():
            # Hooks on saved tensors are entered by measurements alone, which ask `kept`.
            warnings.simplefilter("ignore", FutureWarning)
            return checkpoint(self.layer, hidden, use_reentrant=False, context_fn=self._contexts)

    def kept(self) -> list[torch.Tensor]:
        """Returns the results kept by the last forward pass, which hooks on saved tensors do not
        see."""
        found = []
        for entries in getattr(self._caching, "storage", {}).values():
            rows = list(entries.values()) if isinstance(entries, dict) else list(entries)
            for entry in torch.utils._pytree.tree_leaves(rows):
                value = getattr(entry, "val", entry)
                if isinstance(value, torch.Tensor):
                    found.append(value)
        return found

    def _contexts(self) -> Any:
        contexts = _operator_contexts()
        self._caching = contexts[0]
        return contexts
