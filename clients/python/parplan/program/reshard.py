"""The movement of activations from the layout of one layer to that of the next, within a stage or
from one stage to the next.

Every rank takes a row of the new layout from itself if it has it, else from another rank that does.
Nothing is added up, since all holders of a row hold the same values.
"""

from __future__ import annotations

import dataclasses

from parplan.program.activation_layout import ActivationBlock, ActivationLayout


@dataclasses.dataclass(frozen=True)
class Transfer:
    """A block sent to or received from another rank of the job."""
    peer: int
    block: ActivationBlock


@dataclasses.dataclass(frozen=True)
class Reshard:
    """The part of one rank in the movement. Blocks from one rank to another have the same order in
    the lists of both; `copies` are blocks that the rank already has."""
    sends: tuple[Transfer, ...] = ()
    receives: tuple[Transfer, ...] = ()
    copies: tuple[ActivationBlock, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.sends or self.receives or self.copies)


def make_reshard(source: ActivationLayout, target: ActivationLayout, rank: int) -> Reshard:
    """Returns the part of `rank`, which may be in one or both layouts. Both are of the same samples
    and tokens. O(ranks) time."""
    sends, receives, copies = [], [], []
    if rank in target.ranks():
        for other in source.ranks():
            holders = source.holders_like(other)
            # Each set of equal holders counts once.
            if holders[0] != other:
                continue
            giver = _giver_of(holders, rank)
            for block in _needed(source, other, target, rank):
                if giver == rank:
                    copies.append(block)
                else:
                    receives.append(Transfer(giver, block))
    if rank in source.ranks():
        holders = source.holders_like(rank)
        for other in target.ranks():
            if other == rank or _giver_of(holders, other) != rank:
                continue
            sends += [Transfer(other, block) for block in _needed(source, rank, target, other)]
    return Reshard(tuple(sends), tuple(receives), tuple(copies))


def _giver_of(holders: tuple[int, ...], to_rank: int) -> int:
    """Returns the rank that gives `to_rank` what all holders have: itself if it is one of them,
    else one chosen so that receivers are spread over holders."""
    return to_rank if to_rank in holders else holders[to_rank % len(holders)]


def _needed(source: ActivationLayout, from_rank: int, target: ActivationLayout,
            to_rank: int) -> list[ActivationBlock]:
    samples = source.samples_of(from_rank).intersection(target.samples_of(to_rank))
    if samples.is_empty:
        return []
    blocks = []
    for wanted in target.tokens_of(to_rank):
        for held in source.tokens_of(from_rank):
            tokens = wanted.intersection(held)
            if not tokens.is_empty:
                blocks.append(ActivationBlock(samples, tokens))
    return blocks
