"""Attention of a layer whose ranks share the tokens of each sample, or that computes it again.

A layer calls `torch.nn.functional.scaled_dot_product_attention`; while it runs, that call is taken
over. With Ulysses ranks exchange tokens for heads and back. With rings every rank gathers the keys
and values of all tokens and attends with its own queries; the exchange is one all-gather instead of
a ring, so it keeps the keys and values of the whole sample for as long as attention needs them.
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

_attend = nn.functional.scaled_dot_product_attention


def tokens_of(strategy: Strategy, first_rank: int, rank: int, token_count: int) -> torch.Tensor:
    """Returns the numbers of the tokens that a rank attends from, in the order it holds them."""
    whole = dataclasses.replace(strategy, sequence_parallel=False)
    layout = ActivationLayout(first_rank, whole, whole.data_parallel_degree, token_count)
    return torch.cat([torch.arange(part.begin, part.end) for part in layout.tokens_of(rank)])


class Attention:
    """How the attention of one layer is computed on this rank."""

    def __init__(self, index: int, layout: ActivationLayout, rank: int, level: Recompute,
                 group: dist.ProcessGroup | None, is_transformer: bool) -> None:
        """`group` has the ranks that share the tokens of a sample, or is None."""
        strategy = layout.strategy
        self._index = index
        self._group = group
        self._is_ring = strategy.context_kind == ContextKind.RING
        self._recomputes = level == Recompute.SELECTIVE
        self._is_needed = is_transformer and (group is not None or self._recomputes)
        self._calls = 0
        self._own = self._all = torch.empty(0, dtype=torch.long)
        if group is not None:
            def held(one: int) -> torch.Tensor:
                return tokens_of(strategy, layout.first_rank, one, layout.token_count)

            self._own = held(rank)
            ranks = sorted(dist.get_process_group_ranks(group))
            self._all = torch.cat([held(one) for one in ranks])

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
                          "torch.nn.functional.scaled_dot_product_attention")
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
            raise refused(self._index, "ranks that share tokens take no mask of attention")
        if not self._is_ring:
            parts = [_swapped(one, self._group, 1, 2) for one in (query, key, value)]
            mixed = self._kernel(parts[0], parts[1], parts[2], None, dropout_p, is_causal, options)
            return _swapped(mixed, self._group, 2, 1)
        mask = None
        if is_causal:
            mask = (self._own.unsqueeze(1) >= self._all.unsqueeze(0)).to(query.device)
        return self._kernel(query, _Gathered.apply(key, self._group),
                            _Gathered.apply(value, self._group), mask, dropout_p, False, options)

    def _kernel(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                mask: torch.Tensor | None, dropout_p: float, is_causal: bool,
                options: dict[str, Any]) -> torch.Tensor:
        if not self._recomputes:
            return _attend(query, key, value, mask, dropout_p, is_causal, **options)
        made: torch.Tensor = checkpoint(_attend, query, key, value, mask, dropout_p, is_causal,
                                        use_reentrant=False, **options)
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
    if rows.shape[split] % group.size():
        raise ValueError(f"{rows.shape[split]} heads cannot be shared by {group.size()} ranks")
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


class _Gathered(torch.autograd.Function):
    """All tokens of keys or values; their gradients come from all ranks."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        ctx.group = group
        parts = [torch.empty_like(rows, memory_format=torch.contiguous_format)
                 for _ in range(group.size())]
        dist.all_gather(parts, rows.contiguous(), group=group)
        return torch.cat(parts, 2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        # Every rank gets its tokens' gradients from each of the others, and adds them up.
        outgoing = torch.stack(gradient.chunk(ctx.group.size(), 2))
        incoming = torch.empty_like(outgoing)
        dist.all_to_all_single(incoming, outgoing, group=ctx.group)
        return incoming.sum(0), None
