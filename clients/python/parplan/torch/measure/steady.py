"""Medians of times that are known to a few percent."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

from parplan.torch.measure.devices import ClockLog, Device
from parplan.torch.measure.job import Job

# Two-sided, of the normal distribution that the ranks of order statistics approach: 95 %.
_QUANTILE = 1.96
_FEWEST = 9
_WARM_UPS = 2


@dataclasses.dataclass(frozen=True)
class Spread:
    """Repetitions of one time, in seconds."""
    median: float
    p90: float
    count: int
    # Half the width of the 95 % confidence interval of the median, in parts of the median.
    uncertainty: float


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long to repeat: until the median is known to `target`, at most `seconds`; after a load of
    `warm_up_seconds` that is not counted."""
    target: float = 0.02
    seconds: float = 5.0
    warm_up_seconds: float = 0.0


def spread_of(samples: Sequence[float]) -> Spread:
    """Returns median, 90th percentile and how well the median is known. The interval is between
    order statistics, so it assumes nothing about the distribution; it is infinite below nine
    samples."""
    ordered = sorted(samples)
    count = len(ordered)
    median = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    p90 = max(ordered[min(count - 1, math.ceil(0.9 * count) - 1)], median)
    reach = _QUANTILE * math.sqrt(count) / 2
    low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach) - 1
    if count < _FEWEST or low < 0 or high >= count or median <= 0:
        return Spread(median, p90, count, math.inf)
    return Spread(median, p90, count, (ordered[high] - ordered[low]) / 2 / median)


def measure(sample: Callable[[], Sequence[float]], effort: Effort,
            clock: Callable[[], float] = time.monotonic,
            agree: Callable[[bool], bool] = bool) -> list[Spread]:
    """Repeats `sample`, which returns one or several times, until the medians of all are known or
    the effort is spent. The first two repetitions, and those within the warm-up, are not counted.
    `agree` says whether all ranks are done, and lets them begin a repetition together."""
    begin = clock()
    for _ in range(_WARM_UPS):
        sample()
    while effort.warm_up_seconds > 0 and not agree(clock() - begin >= effort.warm_up_seconds):
        sample()
    end = clock() + effort.seconds
    rows = [list(sample())]
    while True:
        spreads = [spread_of(column) for column in zip(*rows)]
        now = clock()
        # Fewer than nine tell nothing about the median, however long they take, unless ten times
        # the effort is spent.
        is_spent = now > end and (len(rows) >= _FEWEST or now > end + 10 * effort.seconds)
        if agree(is_spent or all(one.uncertainty <= effort.target for one in spreads)):
            return spreads
        rows.append(list(sample()))


class Bench:
    """One rank that measures: its job, its device and how long it repeats."""

    def __init__(self, device: Device, effort: Effort, job: Job = Job()) -> None:
        self.device, self.job = device, job
        self.effort = dataclasses.replace(effort, warm_up_seconds=device.warm_up_seconds)
        self.clock_log = ClockLog(device)

    def measure(self, sample: Callable[[], Sequence[float]], count: int = 1) -> list[Spread]:
        """Repeats `sample`, which does `count` things in turns, on all ranks at once, which is how
        they train. Returns the times of the rank that is slowest, by its median."""
        effort = dataclasses.replace(self.effort, seconds=count * self.effort.seconds)
        own = measure(sample, effort, agree=self.job.agree)
        self.clock_log.read()
        rows = self.job.gather([value for one in own for value in dataclasses.astuple(one)])
        return [slowest([_spread(row[4 * place:4 * place + 4]) for row in rows])
                for place in range(len(own))]


def slowest(spreads: Sequence[Spread]) -> Spread:
    """Returns the one with the largest median."""
    return max(spreads, key=lambda one: one.median)


def _spread(values: Sequence[float]) -> Spread:
    median, p90, count, uncertainty = values
    return Spread(median, p90, int(count), uncertainty)
