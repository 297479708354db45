"""Reports the steps of a job to a server or sidecar while it runs, without ever delaying it.

Each rank measures its steps in windows: the median time of a step and the highest memory. At the
end of a window rank 0 gets those of all ranks, and a thread of it brings them to the server. Windows
that the server refuses for a while, or does not get, are kept and sent again. A server that stays
away costs windows, never steps; the logger `parplan.torch.report` warns of it.

A step is timed from `Run.step` to its end, on a GPU by its events, without what happens between
steps. Memory is what PyTorch has allocated on a GPU; on a processor it is the largest resident set
of the process so far, libraries and data included.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import random
import resource
import statistics
import threading
import time
import uuid
from typing import Any

import torch

from parplan.client import Client
from parplan.errors import Error, UploadTooLarge
from parplan.plan import Plan
from parplan.torch.ranks import gather, this_rank

# Limits of executor/report/execution_reporter.h: beyond the first, the oldest windows are lost.
_MAX_WINDOWS = 4096
_BATCH_WINDOWS = 256
_FIRST_PAUSE_SECONDS = 0.2
_LAST_PAUSE_SECONDS = 30.0
_CALL_SECONDS = 5.0
_CLOSE_SECONDS = 20.0
_MAX_REASON_LENGTH = 1024
# Longest delay of a server that is waited for. Quotas name ten minutes (quota_keeper.h); a longer
# one would let the queue fill while the server may have room again.
_LONGEST_DELAY_SECONDS = 900.0
# Codes of a server that may be back later. A token may be replaced late, and the server may read
# the keys late that sign tokens already.
_PASSING = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL", "UNKNOWN",
            "UNAUTHENTICATED", "RESOURCE_EXHAUSTED"}
_LOGGER = logging.getLogger(__name__)


def _is_passing(error: Error) -> bool:
    """Returns whether the same call may succeed later. A quota refills and a full queue empties; an
    execution that is full stays so."""
    return error.code in _PASSING and not isinstance(error, UploadTooLarge)


@dataclasses.dataclass
class ReportSummary:
    """Result of a report. `execution` is empty if the server never opened one. Every window counts
    once: in `delivered_count` if the server took it, else in `lost_count` (too many waited, the
    server refused it for good, or did not get it in time). `trouble` is the last error, or None;
    `is_closed` says whether the server knows how the job ended."""
    execution: str = ""
    delivered_count: int = 0
    lost_count: int = 0
    trouble: Error | None = None
    is_closed: bool = False


class Reporter:
    """Brings windows to a server on a thread of its own. Any thread may call it.

    A call that fails for a while (`_is_passing`) is made again, after a pause that doubles, and not
    before the delay that the server names in its `RetryInfo`; its windows are kept, up to
    `_MAX_WINDOWS`, beyond which the oldest are lost with a warning. Windows that are
    INVALID_ARGUMENT are lost, and the report goes on. Any other error ends it. The end of the job
    ends a pause: the server is asked once more at once, then in the time that is left."""

    def __init__(self, client: Client, plan: str) -> None:
        """`plan` is `clusters/{cluster}/plans/{plan}`."""
        self._client = client
        self._plan = plan
        self._request_id = str(uuid.uuid4())
        # By this the server judges whether the plan had expired, however late it is reached.
        self._start_time = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._changed = threading.Condition()
        # Guarded by the condition. Windows of a call under way are not in the queue.
        self._queue: collections.deque[dict[str, Any]] = collections.deque()
        self._failure: str | None = None
        self._end = float("inf")
        self._has_ended = self._has_warned = False
        self._summary = ReportSummary()
        self._thread = threading.Thread(target=self._work, name="parplan-report", daemon=True)
        self._thread.start()

    def add(self, windows: list[dict[str, Any]]) -> None:
        """Hands over windows and returns at once."""
        with self._changed:
            if self._has_ended:
                self._summary.lost_count += len(windows)
                return
            self._queue.extend(windows)
            is_first_loss = self._drop_oldest()
            self._changed.notify()
        self._warn_of_loss(is_first_loss)

    def finish(self, failure: str) -> ReportSummary:
        """Delivers the windows that wait, then how the job ended, within 20 s and the time of one
        call. Called once."""
        with self._changed:
            self._failure = failure
            self._end = time.monotonic() + _CLOSE_SECONDS
            self._changed.notify()
        self._thread.join()
        summary = self._summary
        summary.lost_count += len(self._queue)
        if summary.lost_count:
            _LOGGER.warning("%d of %d windows of steps were not delivered: %s", summary.lost_count,
                            summary.lost_count + summary.delivered_count,
                            summary.trouble or "too many waited")
        return summary

    def _drop_oldest(self) -> bool:
        """Drops windows beyond the limit, with the condition held. Returns whether these are the
        first."""
        excess = max(len(self._queue) - _MAX_WINDOWS, 0)
        for _ in range(excess):
            self._queue.popleft()
        self._summary.lost_count += excess
        is_first = excess > 0 and not self._has_warned
        self._has_warned = self._has_warned or is_first
        return is_first

    def _warn_of_loss(self, is_first_loss: bool) -> None:
        if is_first_loss:
            _LOGGER.warning("more than %d windows of steps wait for the server, and the oldest are "
                            "lost from now on; it last said: %s", _MAX_WINDOWS,
                            self._summary.trouble or "nothing yet")

    def _work(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._failure is not None
                                       or not self._summary.execution)
                if time.monotonic() >= self._end:
                    return
            try:
                if self._work_once():
                    return
                pause = _FIRST_PAUSE_SECONDS
            except Error as error:
                self._summary.trouble = error
                if not _is_passing(error):
                    self._give_up(error)
                    return
                # Jobs do not return at the same time.
                seconds = max(pause * random.uniform(0.5, 1.5),
                              self._delay(error) * random.uniform(1.0, 1.2))
                pause = min(2 * pause, _LAST_PAUSE_SECONDS)
                if not self._pause(seconds):
                    return

    @staticmethod
    def _delay(error: Error) -> float:
        return min(error.retry_seconds or 0.0, _LONGEST_DELAY_SECONDS)

    def _pause(self, seconds: float) -> bool:
        """Waits until the time has passed or the job ends. Returns whether there is time for another
        call after it."""
        with self._changed:
            if time.monotonic() + seconds >= self._end:
                return False
            was_finishing = self._failure is not None
            self._changed.wait_for(
                lambda: (self._failure is not None) != was_finishing, seconds)
            return True

    def _give_up(self, error: Error) -> None:
        with self._changed:
            self._has_ended = True
            self._summary.lost_count += len(self._queue)
            self._queue.clear()
        _LOGGER.warning("steps are not reported any more: %s", error)

    def _work_once(self) -> bool:
        """Does one thing. Returns whether nothing is left to do."""
        summary = self._summary
        if not summary.execution:
            made = self._call("CreateExecution", {"parent": self._plan,
                                                  "request_id": self._request_id,
                                                  "start_time": self._start_time})
            summary.execution = str(made.name)
            return False
        with self._changed:
            windows = [self._queue.popleft()
                       for _ in range(min(len(self._queue), _BATCH_WINDOWS))]
            failure = self._failure
        if windows:
            self._send(windows)
            return False
        if failure is None:
            return False
        if failure:
            self._call("FailExecution", {"name": summary.execution,
                                         "reason": failure[:_MAX_REASON_LENGTH]})
        else:
            self._call("CompleteExecution", {"name": summary.execution})
        summary.is_closed = True
        return True

    def _call(self, method: str, request: dict[str, Any]) -> Any:
        return self._client.call("ExecutionService", method, request, timeout=_CALL_SECONDS,
                                 is_idempotent=True)

    def _send(self, windows: list[dict[str, Any]]) -> None:
        try:
            self._client.report_windows(self._summary.execution, windows, timeout=_CALL_SECONDS)
        except Error as error:
            if error.code != "INVALID_ARGUMENT":
                with self._changed:
                    # A window that the server has already counts as a duplicate there.
                    self._queue.extendleft(reversed(windows))
                    is_first_loss = self._drop_oldest()
                self._warn_of_loss(is_first_loss)
                raise
            # The server will never take them; it may take others.
            with self._changed:
                self._summary.trouble = error
                self._summary.lost_count += len(windows)
            _LOGGER.warning("the server refused %d windows of steps for good: %s", len(windows),
                            error)
            return
        with self._changed:
            self._summary.delivered_count += len(windows)


class Windows:
    """Measures the steps of a rank. Used by the thread of its Run."""

    def __init__(self, plan: Plan, device: torch.device, report_to: str | Client | None,
                 step_count: int) -> None:
        """Every rank gives a `report_to`, or none does."""
        self._is_on = report_to is not None
        self._device = device
        self._step_count = step_count
        self._first_step = self._next_step = 0
        self._spans: list[tuple[Any, Any]] = []
        self._begin: Any = None
        self._reporter: Reporter | None = None
        self._owned: Client | None = None
        if report_to is not None and this_rank() == 0:
            client = report_to
            if isinstance(client, str):
                client = self._owned = Client(client, timeout=_CALL_SECONDS)
            self._reporter = Reporter(client, plan.name)

    def begin_step(self) -> None:
        if self._is_on:
            self._begin = self._now()

    def end_step(self) -> None:
        """Called by all ranks for every step. Gathers the window that the step completes."""
        if not self._is_on:
            return
        self._spans.append((self._begin, self._now()))
        self._next_step += 1
        if len(self._spans) == self._step_count:
            self._gather()

    def close(self, failure: str) -> ReportSummary | None:
        """Reports the last window, which has fewer steps, unless the job failed, and how the job
        ended. Returns the summary of rank 0, None elsewhere. Later calls do nothing."""
        if not self._is_on:
            return None
        if self._spans and not failure:
            self._gather()
        self._is_on = False
        if self._reporter is None:
            return None
        summary = self._reporter.finish(failure)
        if self._owned is not None:
            self._owned.close()
        return summary

    def _now(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        make: Any = torch.cuda.Event
        event = make(enable_timing=True)
        event.record()
        return event

    def _gather(self) -> None:
        median = statistics.median(self._seconds(*span) for span in self._spans)
        own = torch.tensor([median, float(self._peak())], dtype=torch.float64,
                           device=self._device)
        found = gather(own)
        if self._reporter is not None:
            self._reporter.add([{
                "rank": rank, "first_step": self._first_step, "step_count": len(self._spans),
                "median_step_duration": f"{max(one[0].item(), 1e-9):.9f}s",
                "peak_memory_bytes": int(one[1].item())} for rank, one in enumerate(found)])
        self._first_step = self._next_step
        self._spans = []

    def _seconds(self, begin: Any, end: Any) -> float:
        if self._device.type != "cuda":
            return float(end - begin)
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000.0

    def _peak(self) -> int:
        if self._device.type != "cuda":
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        peak = int(torch.cuda.max_memory_allocated(self._device))
        torch.cuda.reset_peak_memory_stats(self._device)
        return peak
