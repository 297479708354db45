"""The strategy of a layer: how it is spread over the ranks of its stage."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence


class Sharding(enum.IntEnum):
    """ZeRO's levels: state that is split over the gradient group instead of replicated."""
    NONE = 1
    OPTIMIZER = 2
    GRADIENTS = 3
    PARAMETERS = 4


class Recompute(enum.IntEnum):
    """The part of a layer's forward pass that is repeated before its backward pass."""
    NONE = 1
    FULL = 2
    SELECTIVE = 3
    MODULES = 4


class RecomputeModule(enum.IntEnum):
    """The parts of a layer that Megatron-LM recomputes by name, each from its own input."""
    CORE_ATTENTION = 1
    EXPERT_ACTIVATION = 2
    NORMS = 3
    LATENT_UP_PROJECTION = 4
    FEED_FORWARD = 5
    EXPERTS = 6
    SHARED_EXPERTS = 7


@dataclasses.dataclass(frozen=True)
class RecomputePolicy:
    """The parts that layers with `Recompute.SELECTIVE` compute again. With the option `attention` it
    is attention; with `op` everything is but the results of `saved_operators` (`aten.mm.default`),
    of which each product whose number `recomputed_product_interval` divides is computed again all
    the same."""
    selective_ac_option: str = "attention"
    saved_operators: tuple[str, ...] = ()
    recomputed_product_interval: int = 0

    def __str__(self) -> str:
        if self.selective_ac_option != "op":
            return f"{self.selective_ac_option} is computed again"
        every = (f", of products each number that {self.recomputed_product_interval} divides again"
                 if self.recomputed_product_interval else "")
        return f"op: all but {', '.join(self.saved_operators) or 'nothing'}{every}"


class ContextKind(enum.IntEnum):
    """The way in which ranks that share the tokens of a sample attend to each other's tokens."""
    RING = 1
    ULYSSES = 2
    ALL_GATHER = 3


class Schedule(enum.IntEnum):
    """The order in which a stage works on micro-batches."""
    ONE_FORWARD_ONE_BACKWARD = 1
    GPIPE = 2
    INTERLEAVED = 3
    # 1F1B whose backward passes have two parts (ZB-H1).
    ZERO_BUBBLE = 4


@dataclasses.dataclass(frozen=True)
class Place:
    """The coordinates of a rank among those of its stage."""
    tensor: int
    context: int
    data: int


@dataclasses.dataclass(frozen=True)
class Strategy:
    """The strategy of one layer. The product of the three degrees is the number of ranks of the
    stage; `expert_parallel_degree` divides data times context parallelism. `recompute_modules` are
    those of `Recompute.MODULES`, ascending. `expert_tensor_parallel_degree` is 0 if experts have
    that of the rest of their layer. `context_exchange_degree` ranks of a ring exchange tokens for
    heads. `sharding_degree` is 0 if all ranks with the same parameters share the states; else it is
    the size of groups of neighbours among them, each of which has all states."""
    tensor_parallel_degree: int = 1
    data_parallel_degree: int = 1
    tensor_innermost: bool = True
    sharding: Sharding = Sharding.NONE
    recompute: Recompute = Recompute.NONE
    sequence_parallel: bool = False
    context_parallel_degree: int = 1
    expert_parallel_degree: int = 1
    context_kind: ContextKind = ContextKind.RING
    recompute_modules: tuple[RecomputeModule, ...] = ()
    expert_tensor_parallel_degree: int = 0
    context_exchange_degree: int = 1
    sharding_degree: int = 0

    @property
    def rank_count(self) -> int:
        return (self.tensor_parallel_degree * self.context_parallel_degree
                * self.data_parallel_degree)

    @property
    def tensor_stride(self) -> int:
        """Distance in rank numbers between neighbours of a tensor-parallel group."""
        if self.tensor_innermost:
            return 1
        return self.data_parallel_degree * self.context_parallel_degree

    @property
    def context_stride(self) -> int:
        """The same distance for a context-parallel group, the axis in the middle."""
        return self.tensor_parallel_degree if self.tensor_innermost else self.data_parallel_degree

    @property
    def data_stride(self) -> int:
        """The same distance for a data-parallel group."""
        if self.tensor_innermost:
            return self.tensor_parallel_degree * self.context_parallel_degree
        return 1

    @property
    def gradient_degree(self) -> int:
        """Number of ranks with the same part of the parameters."""
        return self.data_parallel_degree * self.context_parallel_degree

    @property
    def shard_count(self) -> int:
        """Number of those that share the states, if any do."""
        return self.sharding_degree or self.gradient_degree

    def shard_groups(self, ranks: Sequence[int]) -> list[Sequence[int]]:
        """Returns the groups of `ranks`, those with the same part of the parameters, that share the
        states; neighbours are in one."""
        ordered = sorted(ranks)
        return [ordered[first:first + self.shard_count]
                for first in range(0, len(ordered), self.shard_count)]

    def place_of(self, rank_in_stage: int) -> Place:
        """Returns the coordinates of a rank from 0 to rank_count - 1."""
        return Place(rank_in_stage // self.tensor_stride % self.tensor_parallel_degree,
                     rank_in_stage // self.context_stride % self.context_parallel_degree,
                     rank_in_stage // self.data_stride % self.data_parallel_degree)

    def rank_of(self, place: Place) -> int:
        """Returns the rank in the stage at coordinates."""
        return (place.tensor * self.tensor_stride + place.context * self.context_stride
                + place.data * self.data_stride)
