"""Medians of times that are known to a few percent."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

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
    """How long to repeat: until the median is known to `target`, at most `seconds`."""
    target: float = 0.02
    seconds: float = 5.0


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
            clock: Callable[[], float] = time.monotonic) -> list[Spread]:
    """Repeats `sample`, which returns one or several times, until the medians of all are known or
    the effort is spent. The first two repetitions are a warm-up and not counted."""
    for _ in range(_WARM_UPS):
        sample()
    end = clock() + effort.seconds
    rows = [list(sample())]
    while True:
        spreads = [spread_of(column) for column in zip(*rows)]
        if all(one.uncertainty <= effort.target for one in spreads):
            return spreads
        # Fewer than nine tell nothing about the median, however long they take, unless ten times
        # the effort is spent.
        if clock() > end and (len(rows) >= _FEWEST or clock() > end + 10 * effort.seconds):
            return spreads
        rows.append(list(sample()))


class Stopwatch:
    """Times work on a device: by CUDA's events on GPUs, by the clock on processors."""

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"

    def time(self, work: Callable[[], object]) -> float:
        """Returns the seconds that `work` takes on the device."""
        if not self._is_cuda:
            begin = time.perf_counter()
            work()
            return time.perf_counter() - begin
        event: Any = torch.cuda.Event
        first, last = (event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        first.record()
        work()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000
