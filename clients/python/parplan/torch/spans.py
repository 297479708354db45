"""Named spans of a step, for torch.profiler and for `parplan.torch.trace`.

    0F3, 0B3     forward or backward pass of stage 0 over micro-batch 3, as torch's schedules say it
    0I3, 0W3     the two parts of a backward pass that is split: gradients of inputs, of weights
    gradients    what is left of adding up gradients behind the last backward pass
    optimizer    the optimizer's step
    step         all of it

`planctl trace` gives the predicted step the same names. Without a recorder a span costs a few
microseconds of the host.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Span:
    """A span that was measured, in microseconds since the recorder began."""
    name: str
    start: float
    duration: float


class Recorder:
    """Measures the spans of one rank while it is entered. On a GPU times are those of its stream,
    not of the host. One thread uses it."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._marks: list[tuple[str, Any, Any]] = []
        self._begin: Any = None

    def __enter__(self) -> Recorder:
        global _active
        self._marks.clear()
        self._begin = self._mark()
        _active = self
        return self

    def __exit__(self, *_: object) -> None:
        global _active
        _active = None

    @property
    def spans(self) -> list[Span]:
        """The spans that ended, in that order. Waits for the GPU."""
        if self._on_gpu:
            torch.cuda.synchronize()
        return [Span(name, self._since(self._begin, start), self._since(start, end))
                for name, start, end in self._marks]

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Measures what runs within it."""
        start = self._mark()
        try:
            yield
        finally:
            self._marks.append((name, start, self._mark()))

    def _mark(self) -> Any:
        if not self._on_gpu:
            return time.perf_counter_ns()
        make: Any = torch.cuda.Event
        event = make(enable_timing=True)
        event.record()
        return event

    def _since(self, first: Any, second: Any) -> float:
        if not self._on_gpu:
            return float(second - first) / 1e3
        return float(first.elapsed_time(second)) * 1e3


_active: Recorder | None = None
_open: list[str] = []


def is_within(name: str) -> bool:
    """Returns whether a span of that name is running in this process."""
    return name in _open


@contextlib.contextmanager
def span(name: str) -> Iterator[None]:
    """Names what runs within it for torch.profiler and for the recorder, if there is one."""
    _open.append(name)
    try:
        with torch.profiler.record_function(name):
            if _active is None:
                yield
            else:
                with _active.measure(name):
                    yield
    finally:
        _open.pop()
