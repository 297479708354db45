"""Ring attention: each rank keeps its queries, and keys and values go round.

A rank holds one piece from either end of a sample, so that all have as much to do under a causal
mask: of c ranks, rank r holds the pieces r and 2c - 1 - r of 2c. After h hops a rank has the keys
and values of the rank h places before it (Liu et al., arXiv 2310.01889; Brandon et al., arXiv
2311.09431):

    own                 each query reads its own token and those before
    of an earlier rank  all queries read its first piece, none the second
    of a later rank     the queries of the second piece read both of its pieces

Without a mask all queries read all. The next block travels while attention reads this one. In the
backward pass keys and values go round again, and the gradients of each block go with it and one
hop further, home. They are added up in 32 bits on their way, and sent so, whatever the type of the
operands. A hop is one message to the next rank and one from the rank before.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from parplan.torch.attention_blocks import Joined, attend, gradients, sum_type


# The blocks that this process passed on in each ring, by its ranks.
passed: collections.Counter[tuple[int, ...]] = collections.Counter()


@dataclasses.dataclass(frozen=True)
class Ring:
    """The ranks that share the tokens of a sample, in the order of their first pieces."""
    group: dist.ProcessGroup
    place: int
    size: int

    @staticmethod
    def of(group: dist.ProcessGroup) -> Ring:
        """Returns the ring of a group of this rank."""
        ranks = sorted(dist.get_process_group_ranks(group))
        return Ring(group, ranks.index(dist.get_rank()), len(ranks))

    def pass_on(self, block: torch.Tensor) -> Arriving:
        """Begins to send a block to the next rank, and to receive one as large from the rank
        before. The block must stay as it is until the other has arrived."""
        ranks = sorted(dist.get_process_group_ranks(self.group))
        arriving = torch.empty_like(block)
        following = ranks[(self.place + 1) % self.size]
        before = ranks[(self.place - 1) % self.size]
        passed[tuple(ranks)] += 1
        return Arriving(block, arriving, dist.batch_isend_irecv([
            dist.P2POp(dist.isend, block, following, self.group),
            dist.P2POp(dist.irecv, arriving, before, self.group)]))


class Arriving:
    """A block on its way."""

    def __init__(self, sent: torch.Tensor, block: torch.Tensor, works: list[Any]) -> None:
        self._sent, self._block, self._works = sent, block, works

    def wait(self) -> torch.Tensor:
        """Returns the block when it is there, and the other one has left."""
        for work in self._works:
            work.wait()
        return self._block


def ring_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ring: Ring,
                   is_causal: bool, scale: float | None) -> torch.Tensor:
    """Returns what the queries of this rank read in the keys and values of all ranks. Arguments are
    those of scaled_dot_product_attention, `[samples, heads, tokens, size]`; keys and values may
    have fewer heads."""
    made: torch.Tensor = _RingAttention.apply(
        query, key, value, ring, is_causal,
        query.shape[-1] ** -0.5 if scale is None else scale)
    return made


@dataclasses.dataclass(frozen=True)
class Part:
    """The part of a block that is read: by the queries from `first` on, the keys before `end`."""
    first: int
    end: int
    is_causal: bool


def part_of(ring: Ring, source: int, tokens: int, is_causal: bool) -> Part:
    """Returns what this rank reads of the block of the rank at `source`."""
    if not is_causal:
        return Part(0, tokens, False)
    if source == ring.place:
        return Part(0, tokens, True)
    return (Part(0, tokens // 2, False) if source < ring.place
            else Part(tokens // 2, tokens, False))


def _packed(key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.cat([key.reshape(-1), value.reshape(-1)])


def _unpacked(block: torch.Tensor, key: torch.Tensor,
              value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns keys and values of a block, which have the shapes of this rank's own."""
    first, second = torch.split(block, [key.numel(), value.numel()])
    return first.view(key.shape), second.view(value.shape)


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ring: Ring,
                is_causal: bool, scale: float) -> torch.Tensor:
        joined = Joined()
        keys, values, block = key, value, _packed(key, value)
        for hop in range(ring.size):
            arriving = ring.pass_on(block) if hop + 1 < ring.size else None
            part = part_of(ring, (ring.place - hop) % ring.size, key.shape[2], is_causal)
            joined.add(*attend(query[:, :, part.first:], keys[:, :, :part.end],
                               values[:, :, :part.end], part.is_causal, scale), part.first)
            if arriving is not None:
                block = arriving.wait()
                keys, values = _unpacked(block, key, value)
        result, lse = joined.whole()
        ctx.save_for_backward(query, key, value, result, lse)
        ctx.arguments = ring, is_causal, scale
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        query, key, value, result, lse = ctx.saved_tensors
        ring, is_causal, scale = ctx.arguments
        of_query: Any = None
        own: torch.Tensor | None = None
        # The gradients of the block that this rank reads, from the ranks that read it before.
        travelling: Arriving | None = None
        keys, values, block = key, value, _packed(key, value)
        for hop in range(ring.size):
            arriving = ring.pass_on(block) if hop + 1 < ring.size else None
            part = part_of(ring, (ring.place - hop) % ring.size, key.shape[2], is_causal)
            first, end = part.first, part.end
            found = gradients(gradient[:, :, first:], query[:, :, first:], keys[:, :, :end],
                              values[:, :, :end], result[:, :, first:], lse[:, :, first:],
                              part.is_causal, scale)
            if hop == 0:
                of_query = found[0].to(sum_type(query))
            else:
                of_query[:, :, first:] += found[0]
            summed = _packed(_filled(found[1], key), _filled(found[2], value)).to(sum_type(key))
            if hop == 0:
                own = summed
            else:
                if travelling is not None:
                    summed += travelling.wait()
                travelling = ring.pass_on(summed)
            if arriving is not None:
                block = arriving.wait()
                keys, values = _unpacked(block, key, value)
        assert own is not None
        if travelling is not None:
            own += travelling.wait()
        of_key, of_value = _unpacked(own.to(key.dtype), key, value)
        return of_query.to(query.dtype), of_key, of_value, None, None, None


def _filled(gradient: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Returns the gradient of all rows of a block; those that were not read have none."""
    missing = rows.shape[2] - gradient.shape[2]
    return gradient if missing == 0 else torch.nn.functional.pad(gradient, (0, 0, 0, missing))
