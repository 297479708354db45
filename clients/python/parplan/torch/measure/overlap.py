"""How computing and communicating slow each other down."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from parplan.torch.measure.devices import Device
from parplan.torch.measure.steady import Bench

_MOST_PRODUCTS = 4096
_LONGER = 4  # All-reduces that keep the device communicating while the products run.


@dataclasses.dataclass(frozen=True)
class OverlapTimes:
    """Medians in seconds, each of the slowest rank."""
    # Products and an all-reduce, each alone. As many products as take about as long.
    compute: float
    communication: float
    # Both at once, until both have ended.
    together: float
    # The products while all-reduces run all the time.
    compute_beside: float

    @property
    def slowdown(self) -> float:
        """The k, at least 1, for which `max(a, b) + (k - 1) min(a, b)` is the time of both
        together. Planners predict with it the time of work that takes a and b alone."""
        longer = max(self.compute, self.communication)
        shorter = min(self.compute, self.communication)
        return max(1.0, 1.0 + (self.together - longer) / shorter)


def measure_overlap(bench: Bench, dtype: torch.dtype,
                    reduce: Callable[[torch.Tensor], Any] | None = None) -> OverlapTimes:
    """Measures products and an all-reduce among all ranks, at the sizes of the device. Collective
    over the job, which has at least two ranks. `reduce` starts an all-reduce and returns something
    to wait for; the default is that of the job's backend."""
    run = _Run(bench.device, dtype, reduce or _all_reduce)

    def median(work: Callable[[], float]) -> float:
        return max(bench.measure(lambda: [work()])[0].median, 1e-9)

    communication = median(lambda: run.both(1, 0))
    one = median(lambda: run.products(1))
    # Times of the slowest rank, so that all ranks compute the same number.
    count = max(1, min(_MOST_PRODUCTS, round(communication / one)))
    return OverlapTimes(median(lambda: run.products(count)), communication,
                        median(lambda: run.both(1, count)),
                        median(lambda: run.products_beside(_LONGER, count)))


class _Run:
    def __init__(self, device: Device, dtype: torch.dtype,
                 reduce: Callable[[torch.Tensor], Any]) -> None:
        self._device, self._reduce = device, reduce
        side = device.product_side
        self._left, self._right = (torch.randn(side, side, dtype=dtype, device=device.place)
                                   for _ in range(2))
        self._result = torch.empty_like(self._left)
        count = device.reduced_bytes // self._left.element_size()
        self._buffers = [torch.zeros(count, dtype=dtype, device=device.place)
                         for _ in range(_LONGER)]

    def products(self, count: int) -> float:
        return self._device.time(lambda: self._multiply(count))

    def both(self, reduce_count: int, product_count: int) -> float:
        def work() -> None:
            started = self._start(reduce_count)
            self._multiply(product_count)
            for one in started:
                one.wait()

        return self._device.time(work)

    def products_beside(self, reduce_count: int, product_count: int) -> float:
        started: list[Any] = []

        def work() -> None:
            started.extend(self._start(reduce_count))
            self._multiply(product_count)

        seconds = self._device.time(work)
        for one in started:
            one.wait()
        self._device.synchronize()
        return seconds

    def _start(self, count: int) -> list[Any]:
        return [self._reduce(self._buffers[index]) for index in range(count)]

    def _multiply(self, count: int) -> None:
        for _ in range(count):
            torch.mm(self._left, self._right, out=self._result)


def _all_reduce(buffer: torch.Tensor) -> Any:
    return dist.all_reduce(buffer, async_op=True)
