"""Moves activations from the layout of one layer to that of the next, and gradients back.

Every rank that holds a row of activations holds the whole gradient of that row, so both directions
only move rows, and no factor depends on how many ranks share a layer.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from parplan.program import ActivationBlock, ActivationLayout, Reshard, make_reshard


class Move(nn.Module):
    """The movement between two layouts on the same ranks."""

    def __init__(self, source: ActivationLayout, target: ActivationLayout, rank: int,
                 group: dist.ProcessGroup | None) -> None:
        super().__init__()
        self._forward = _Direction(source, target, rank, group)
        self._backward = _Direction(target, source, rank, group)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Takes `[samples, tokens, ...]` of the first layout and returns that of the second."""
        moved: torch.Tensor = _Moved.apply(rows, self._forward, self._backward)
        return moved


class _Moved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, forward: _Direction,
                backward: _Direction) -> torch.Tensor:
        ctx.direction = backward
        return forward.run(rows)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.direction.run(gradient), None, None


class _Direction:
    """One rank's part of a movement in one direction."""

    def __init__(self, source: ActivationLayout, target: ActivationLayout, rank: int,
                 group: dist.ProcessGroup | None) -> None:
        self._source, self._target, self._rank, self._group = source, target, rank, group
        self._program: Reshard = make_reshard(source, target, rank)

    def run(self, rows: torch.Tensor) -> torch.Tensor:
        rest = rows.shape[2:]
        made = rows.new_empty((self._target.samples_per_rank, self._target.tokens_per_sample)
                              + rest)
        for block in self._program.copies:
            _block(made, self._target, self._rank, block).copy_(
                _block(rows, self._source, self._rank, block))
        ranks = list(self._source.ranks())
        sent = {peer: [_block(rows, self._source, self._rank, move.block).reshape(-1)
                       for move in self._program.sends if move.peer == peer] for peer in ranks}
        wanted = {peer: [_block(made, self._target, self._rank, move.block)
                         for move in self._program.receives if move.peer == peer]
                  for peer in ranks}
        if self._group is None:
            return made
        sizes_out = [sum(piece.numel() for piece in sent[peer]) for peer in ranks]
        sizes_in = [sum(place.numel() for place in wanted[peer]) for peer in ranks]
        pieces = [piece for peer in ranks for piece in sent[peer]]
        outgoing = torch.cat(pieces) if pieces else rows.new_empty(0)
        incoming = rows.new_empty(sum(sizes_in))
        dist.all_to_all_single(incoming, outgoing, sizes_in, sizes_out, group=self._group)
        passed = 0
        for peer in ranks:
            for place in wanted[peer]:
                place.copy_(incoming[passed:passed + place.numel()].view(place.shape))
                passed += place.numel()
        return made


def _block(rows: torch.Tensor, layout: ActivationLayout, rank: int,
           block: ActivationBlock) -> torch.Tensor:
    """Returns the view of a block of the rows that a rank holds. A block lies within one interval
    of the rank's tokens."""
    first_sample = layout.samples_of(rank).begin
    passed = 0
    for interval in layout.tokens_of(rank):
        if interval.begin <= block.tokens.begin < interval.end:
            begin = passed + block.tokens.begin - interval.begin
            return rows[block.samples.begin - first_sample:block.samples.end - first_sample,
                        begin:begin + block.tokens.size]
        passed += interval.size
    raise AssertionError("a block is part of its layout")
