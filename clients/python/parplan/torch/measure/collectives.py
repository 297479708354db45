"""Times of collectives between processes of this machine, by the backend that they train with."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from parplan.torch.measure.devices import Device
from parplan.torch.measure.steady import Bench, Effort, Spread, spread_of

_PATIENCE = datetime.timedelta(minutes=5)
_WARM_UPS = 2
_ROUND = 15  # Repetitions between two looks at how well the median is known.
_ROUNDS = 4
# Those that steps of plans have. No plan has broadcasts (check/counting.py would see one), and planners
# price none, though a profile of the executor's agent may have their times.
COLLECTIVES = ("COLLECTIVE_ALL_REDUCE", "COLLECTIVE_ALL_GATHER", "COLLECTIVE_REDUCE_SCATTER",
               "COLLECTIVE_ALL_TO_ALL", "COLLECTIVE_SEND_RECEIVE")


@dataclasses.dataclass(frozen=True)
class CollectiveTime:
    """One collective among groups of `participants` ranks `stride` apart."""
    collective: str
    participants: int
    stride: int
    size: int
    # All groups at once, as in training.
    spread: Spread
    # The group of rank 0 while the others do nothing; None if there is one group.
    alone: Spread | None


class Prices:
    """What planners take messages to cost that have the sizes between those measured: straight
    lines that never fall, in proportion above the last point (planner/cost/size_curve.h)."""

    def __init__(self, times: Sequence[CollectiveTime]) -> None:
        self._points: dict[tuple[str, int], list[tuple[int, float]]] = {}
        for one in sorted(times, key=lambda one: one.size):
            if one.stride != 1:
                continue
            points = self._points.setdefault((one.collective, one.participants), [])
            points.append((one.size, max(one.spread.median, points[-1][1] if points else 0.0)))

    def seconds(self, collective: str, participants: int, size: int) -> float:
        """Returns the time of a collective of neighbouring ranks. Raises KeyError for one that was
        not measured."""
        points = self._points[collective, participants]
        first, last = points[0], points[-1]
        if size >= last[0]:
            return last[1] * size / last[0]
        if size <= first[0] and len(points) == 1:
            return first[1] * size / first[0]
        place = next(place for place in range(1, len(points)) if size <= points[place][0])
        (low, fast), (high, slow) = points[place - 1:place + 1]
        line = fast + (slow - fast) * (size - low) / (high - low)
        return max(line, fast * size / low) if size < low else line


def shapes_of(ranks: int) -> list[tuple[int, int]]:
    """Returns participants and strides of groups that divide the ranks evenly."""
    return [(participants, stride) for participants in range(2, ranks + 1)
            for stride in range(1, ranks) if ranks % (participants * stride) == 0]


def measure_collectives(bench: Bench, sizes: Sequence[int],
                        begin: Callable[[str], None] = lambda _: None) -> list[CollectiveTime]:
    """Times every collective at every size in bytes: at most 60 repetitions, fewer if the median is
    known before. A repetition takes as long as its slowest rank. Collective over the job. `begin`
    is told of each shape."""
    rank, ranks = bench.job.rank, bench.job.count
    made = []
    for participants, stride in shapes_of(ranks):
        begin(f"collectives of {participants} ranks, {stride} apart")
        groups = [[block + offset + step * stride for step in range(participants)]
                  for block in range(0, ranks, participants * stride) for offset in range(stride)]
        # Every process makes all groups, in the same order.
        handles = [dist.new_group(members, timeout=_PATIENCE) for members in groups]
        own = next(index for index, members in enumerate(groups) if rank in members)
        for collective in COLLECTIVES:
            if collective == "COLLECTIVE_SEND_RECEIVE" and participants != 2:
                continue
            for size in sizes:
                work = _operation(collective, groups[own], handles[own], size, bench.device)
                together = _time(work, bench)
                alone = None
                if len(groups) > 1:
                    alone = _time(work if own == 0 else None, bench)
                made.append(CollectiveTime(collective, participants, stride, size, together,
                                           alone))
    return made


def _operation(collective: str, members: Sequence[int], group: Any, size: int,
               device: Device) -> Callable[[], object]:
    count = len(members)
    whole = torch.ones(max(size // 4 // count, 1) * count, device=device.place)
    part, result = whole[:whole.numel() // count].clone(), torch.empty_like(whole)
    if collective == "COLLECTIVE_ALL_REDUCE":
        result.zero_()
        return lambda: dist.all_reduce(result, group=group)
    if collective == "COLLECTIVE_ALL_GATHER":
        return lambda: dist.all_gather_into_tensor(result, part, group=group)
    if collective == "COLLECTIVE_REDUCE_SCATTER":
        return lambda: dist.reduce_scatter_tensor(part, whole, group=group)
    if collective == "COLLECTIVE_ALL_TO_ALL":
        return lambda: dist.all_to_all_single(result, whole, group=group)
    sends = dist.get_rank() == members[0]
    return (lambda: dist.send(whole, members[1], group=group)) if sends else (
        lambda: dist.recv(whole, members[0], group=group))


def _time(work: Callable[[], object] | None, bench: Bench) -> Spread:
    """Returns the times of the slowest rank that has `work`."""
    effort: Effort = bench.effort
    samples: list[float] = []
    for _ in range(_WARM_UPS):
        if work is not None:
            work()
    for _ in range(_ROUNDS):
        seconds = []
        for _ in range(_ROUND):
            bench.device.synchronize()
            bench.job.barrier()
            seconds.append(0.0 if work is None else bench.device.time(work))
        # All ranks see the same times, so all stop together.
        samples.extend(bench.job.largest(seconds))
        if spread_of(samples).uncertainty <= effort.target:
            break
    return spread_of(samples)
