"""The part of a micro-batch's activations that each rank of a stage holds between layers."""

from __future__ import annotations

import dataclasses

from parplan.strategy import ContextKind, Place, Strategy


@dataclasses.dataclass(frozen=True)
class Interval:
    """The integers in [begin, end)."""
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def is_empty(self) -> bool:
        return self.end <= self.begin

    def intersection(self, other: Interval) -> Interval:
        return Interval(max(self.begin, other.begin), min(self.end, other.end))


@dataclasses.dataclass(frozen=True)
class ActivationBlock:
    """A block of rows: every token of `tokens` of every sample of `samples`, both counted within
    the micro-batch."""
    samples: Interval
    tokens: Interval


@dataclasses.dataclass(frozen=True)
class ActivationLayout:
    """The layout of the activations that go into a layer and come out of it. Data-parallel ranks
    share the samples, in order. Context-parallel ranks share the tokens: in order with all-to-alls,
    and with rings one piece from either end each. With sequence parallelism tensor-parallel ranks
    share the rest, in order; without it each holds all of it."""
    first_rank: int
    strategy: Strategy
    sample_count: int
    token_count: int

    def ranks(self) -> range:
        return range(self.first_rank, self.first_rank + self.strategy.rank_count)

    def place_of(self, rank: int) -> Place:
        return self.strategy.place_of(rank - self.first_rank)

    @property
    def splits_by_tensor(self) -> bool:
        return self.strategy.sequence_parallel and self.strategy.tensor_parallel_degree > 1

    @property
    def samples_per_rank(self) -> int:
        return self.sample_count // self.strategy.data_parallel_degree

    @property
    def tokens_per_sample(self) -> int:
        """Number of tokens of a sample that each rank holds."""
        share = self.token_count // self.strategy.context_parallel_degree
        return share // self.strategy.tensor_parallel_degree if self.splits_by_tensor else share

    def samples_of(self, rank: int) -> Interval:
        share = self.samples_per_rank
        begin = self.place_of(rank).data * share
        return Interval(begin, begin + share)

    def tokens_of(self, rank: int) -> tuple[Interval, ...]:
        """Returns the tokens of `rank`: one or two intervals, in order."""
        place = self.place_of(rank)
        degree = self.strategy.context_parallel_degree
        if degree > 1 and self.strategy.context_kind == ContextKind.RING:
            piece = self.token_count // (2 * degree)
            last = 2 * degree - 1 - place.context
            tokens = [Interval(place.context * piece, (place.context + 1) * piece),
                      Interval(last * piece, (last + 1) * piece)]
            # The two pieces in the middle of the sequence are adjacent.
            if tokens[0].end == tokens[1].begin:
                tokens = [Interval(tokens[0].begin, tokens[1].end)]
        else:
            share = self.token_count // degree
            tokens = [Interval(place.context * share, (place.context + 1) * share)]
        if not self.splits_by_tensor:
            return tuple(tokens)
        # The part of this tensor-parallel rank, counted along the tokens above.
        share = self.tokens_per_sample
        wanted = Interval(place.tensor * share, (place.tensor + 1) * share)
        parts = []
        passed = 0
        for interval in tokens:
            part = wanted.intersection(Interval(passed, passed + interval.size))
            if not part.is_empty:
                shift = interval.begin - passed
                parts.append(Interval(part.begin + shift, part.end + shift))
            passed += interval.size
        return tuple(parts)

    def holders_like(self, rank: int) -> tuple[int, ...]:
        """Returns all ranks with the same rows as `rank`, itself included, in order."""
        if self.splits_by_tensor:
            return (rank,)
        place = self.place_of(rank)
        return tuple(sorted(
            self.first_rank + self.strategy.rank_of(dataclasses.replace(place, tensor=tensor))
            for tensor in range(self.strategy.tensor_parallel_degree)))

    def is_same_as(self, other: ActivationLayout) -> bool:
        """Returns whether every rank holds the same rows in both layouts."""
        if (self.ranks() != other.ranks() or self.sample_count != other.sample_count
                or self.token_count != other.token_count):
            return False
        return all(self.samples_of(rank) == other.samples_of(rank)
                   and self.tokens_of(rank) == other.tokens_of(rank) for rank in self.ranks())
