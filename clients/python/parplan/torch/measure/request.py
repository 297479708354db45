"""The request of `parplan-torch profile`, and its results before they are a profile."""

from __future__ import annotations

import dataclasses
from typing import Any

from parplan.torch.measure.splits import Split
from parplan.torch.measure.steady import Effort

EAGER, COMPILED = "torch", "torch-compile"
RUNTIMES = (EAGER, COMPILED)


@dataclasses.dataclass(frozen=True)
class Request:
    """What to measure. `ranks` processes measure at once, one on each device; below 2 collectives
    and overlap are left out. Each of `tensor_parallel_degrees` divides them. `policies` of
    recomputation are timed beside layers that recompute nothing."""
    device_kind: str
    devices_per_node: int
    micro_batch_sizes: tuple[int, ...]
    ranks: int
    message_sizes: tuple[int, ...]
    effort: Effort
    runtimes: tuple[str, ...] = (EAGER,)
    tensor_parallel_degrees: tuple[int, ...] = (1,)
    sequence_parallel: bool = False
    policies: tuple[str, ...] = ()
    device_type: str = "cpu"
    threads: int | None = None

    @property
    def splits(self) -> list[Split]:
        """Ways to share layers. Those with sequence parallelism come before those without, since a
        profile has one time for both and plans use the first."""
        return [Split(degree, shares_tokens)
                for degree in sorted({1, *self.tensor_parallel_degrees})
                for shares_tokens in ((True, False) if self.sequence_parallel else (False,))
                if degree > 1 or not shares_tokens]


@dataclasses.dataclass
class Measured:
    """Measurements of one runtime, in rows as the contract's JSON has them."""
    timings: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    memories: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    # Results that a Profile message has no field for. Times are in seconds, sizes in bytes.
    recomputations: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    layer_collectives: list[dict[str, Any]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class MeasuredJob:
    """Measurements of a job: of each runtime, and those that do not depend on it."""
    by_runtime: dict[str, Measured]
    optimizers: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    collectives: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    # Times of one group while the others do nothing, in the same rows.
    collectives_alone: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    overlap_slowdown: float | None = None
    context_memory_bytes: int | None = None
    communicator_memory_bytes: int | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
