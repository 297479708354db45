"""Attention of a layer whose ranks share the tokens of each sample, or that computes it again.

A layer calls `torch.nn.functional.scaled_dot_product_attention`; while it runs, that call is taken
over. With Ulysses ranks exchange tokens for heads and back; with rings keys and values go round
(ring.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from parplan.program import ActivationLayout
from parplan.strategy import ContextKind, Recompute, Strategy
from parplan.torch.layers import refused
from parplan.torch.ring import Ring, ring_attention

_attend = nn.functional.scaled_dot_product_attention


def tokens_of(strategy: Strategy, first_rank: int, rank: int, token_count: int) -> torch.Tensor:
    """Returns the numbers of the tokens that a rank attends from, in the order it holds them."""
    whole = dataclasses.replace(strategy, sequence_parallel=False)
    layout = ActivationLayout(first_rank, whole, whole.data_parallel_degree, token_count)
    return torch.cat([torch.arange(part.begin, part.end) for part in layout.tokens_of(rank)])


class Attention:
    """How the attention of one layer is computed on this rank."""

    def __init__(self, index: int, kind: ContextKind, level: Recompute,
                 group: dist.ProcessGroup | None, is_transformer: bool) -> None:
        """`group` has the ranks that share the tokens of a sample in a way of `kind`, or is
        None."""
        self._index = index
        self._group = group
        self._ring = Ring.of(group) if group is not None and kind == ContextKind.RING else None
        self._recomputes = level == Recompute.SELECTIVE
        self._is_needed = is_transformer and (group is not None or self._recomputes)
        self._calls = 0

    def run(self, module: Callable[[torch.Tensor], Any], hidden: torch.Tensor) -> Any:
        """Runs a layer. Raises SpecInvalid naming the layer if it computes attention in another
        way."""
        if not self._is_needed:
            return module(hidden)
        before = self._calls
        with _TakenOver(self):
            answer = module(hidden)
        if self._calls == before:
            raise refused(self._index, "its attention does not go through "
                          "torch.nn.functional.scaled_dot_product_attention; call that in it, or "
                          "plan it without context parallelism and selective recomputation")
        return answer

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
               attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
               is_causal: bool = False, **options: Any) -> torch.Tensor:
        """Attends from the tokens of this rank to all tokens. Arguments are those of
        scaled_dot_product_attention: `[samples, heads, tokens, size]`."""
        self._calls += 1
        if self._group is None:
            return self._kernel(query, key, value, attn_mask, dropout_p, is_causal, options)
        if attn_mask is not None:
            raise refused(self._index, "ranks that share tokens take no mask of attention; call it "
                          "without one (is_causal=True), or plan the layer without context "
                          "parallelism")
        if dropout_p > 0:
            raise refused(self._index, f"it drops {dropout_p:g} of attention, and ranks that share "
                          "tokens cannot drop the same of it yet; set its dropout to 0")
        self._check_heads(query, key, value)
        if self._ring is not None:
            return self._call(ring_attention, query, key, value, self._ring, is_causal,
                              options.get("scale"))
        parts = [_swapped(one, self._group, 1, 2) for one in (query, key, value)]
        mixed = self._kernel(parts[0], parts[1], parts[2], None, dropout_p, is_causal, options)
        return _swapped(mixed, self._group, 2, 1)

    def _kernel(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                mask: torch.Tensor | None, dropout_p: float, is_causal: bool,
                options: dict[str, Any]) -> torch.Tensor:
        return self._call(_attend, query, key, value, mask, dropout_p, is_causal, **options)

    def _check_heads(self, *parts: torch.Tensor) -> None:
        assert self._group is not None
        for rows in parts if self._ring is None else ():
            if rows.shape[1] % self._group.size():
                raise refused(self._index, f"attention gets {rows.shape[1]} heads, which "
                              f"{self._group.size()} ranks cannot share; plan the layer with "
                              "rings instead of Ulysses, or with a degree that divides them")

    def _call(self, function: Callable[..., Any], *args: Any, **options: Any) -> torch.Tensor:
        """Calls a function, which the backward pass computes again if the layer does that with
        attention."""
        if not self._recomputes:
            made: torch.Tensor = function(*args, **options)
            return made
        made = checkpoint(function, *args, use_reentrant=False, **options)
        return made


class _TakenOver(TorchFunctionMode):
    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self._attention = attention

    def __torch_function__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        call = self._attention.attend if function is _attend else function
        return call(*args, **(kwargs or {}))


def _swapped(rows: torch.Tensor, group: dist.ProcessGroup, split: int,
             joined: int) -> torch.Tensor:
    """Gives each rank its part of dimension `split`, and all ranks' parts of dimension `joined`."""
    made: torch.Tensor = _Swapped.apply(rows, group, split, joined)
    return made


class _Swapped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, group: dist.ProcessGroup, split: int,
                joined: int) -> torch.Tensor:
        ctx.arguments = group, joined, split
        outgoing = torch.stack(rows.chunk(group.size(), split))
        incoming = torch.empty_like(outgoing)
        dist.all_to_all_single(incoming, outgoing, group=group)
        return torch.cat(list(incoming), joined)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return _Swapped.forward(_Ignored(), gradient.contiguous(), *ctx.arguments), None, None, None


class _Ignored:
    """Takes what a forward pass would keep for its backward pass."""
    arguments: Any = None
