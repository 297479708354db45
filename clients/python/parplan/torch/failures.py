"""Steps that fail: what the ranks of a job tell each other, and what they can do afterwards.

A rank whose step fails would leave the others waiting for its messages until the backend's time limit.
So it writes its error to the store of the job, which every process group has, and breaks its connections
to other ranks (connections.py). A rank that stops waiting for that reason looks in the store for the
error it came from, raises RankFailed that names it, and breaks its own. A healthy step asks the store
nothing and starts no thread.

Every rank that failed writes a record, then waits a moment for those of the others:

    "error"    an error of its own
    "lost"     an error of a backend, as one sees that waited for another rank

If all ranks have errors of their own, of one place in their messages, nothing is left in their groups,
and they can be used again. Else the job has to begin again. Ranks agree on that by the first value that
one of them stores (`compare_set`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch.distributed as dist

from parplan.errors import Error
from parplan.torch.connections import (Ends, break_connections, connections, rank_of_error)
from parplan.torch.ranks import rank_count

# How long a rank waits for the errors of the others before it breaks connections, and in all.
_MOMENT_SECONDS = 0.5
_PATIENCE_SECONDS = 4.0
_PAUSE_SECONDS = 0.02
_LONGEST_TEXT = 1000
# Errors of a backend or of the store, in the texts of which no type of their own is left.
_BACKEND = re.compile(r"gloo|nccl|c10d|TCPStore|Connection (closed|reset|refused)|Broken pipe|"
                      r"process ?group", re.IGNORECASE)
_AGAIN = ("start the job again, or end and begin its process group on every rank "
          "(torch.distributed.destroy_process_group, init_process_group); then apply the plan and "
          "load the last checkpoint")


class RankFailed(Error):
    """Another rank failed, and this one waited for it. `rank` is that one, `step` the step that it was
    in, from 0 on, or None if it ended without a word, and `error` what it said of its error."""

    def __init__(self, rank: int, step: int | None, error: str) -> None:
        where = "" if step is None else f" in step {step}"
        super().__init__(f"rank {rank} failed{where}: {error}", code="ABORTED",
                         metadata={"rank": str(rank),
                                   **({} if step is None else {"step": str(step)})})
        self.rank, self.step, self.error = rank, step, error


class RunFailed(Error):
    """A step failed before, and what is asked for would not be exact, or would wait for ever."""

    def __init__(self, failure: str, what: str) -> None:
        super().__init__(f"{failure}; {what}", code="FAILED_PRECONDITION")


@dataclasses.dataclass(frozen=True)
class Failure:
    """How a step ended on this rank."""
    # The number of the step in its run, from 0 on.
    step: int
    error: BaseException
    # Whether it had sent messages, or could have.
    has_begun: bool
    # Messages sent in each group by a name that is the same on all of its ranks; None if they are not
    # counted, as those between two ranks.
    messages: Mapping[str, int] | None

    def record(self) -> dict[str, Any]:
        """Returns what other ranks are told."""
        return {"kind": "lost" if is_of_backend(self.error) else "error", "step": self.step,
                "text": text_of(self.error), "has_begun": self.has_begun,
                "messages": None if self.messages is None else dict(self.messages)}


def text_of(error: BaseException) -> str:
    """Returns the type and the text of an error, no longer than a store takes easily."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]


def is_of_backend(error: BaseException) -> bool:
    """Returns whether an error is one that ranks see that waited for another."""
    if isinstance(error, (RankFailed, dist.DistError)):
        return True
    return (isinstance(error, RuntimeError) and not isinstance(error, Error)
            and _BACKEND.search(str(error)) is not None)


class Failures:
    """The failed steps of the runs of a job. Used by the thread of the runs."""

    def __init__(self, number: int) -> None:
        """`number` is that of the job in this process."""
        self._rank, self._count = dist.get_rank(), dist.get_world_size()
        c10d: Any = dist.distributed_c10d
        self._store: Any = c10d.PrefixStore(f"parplan.failures/{number}",
                                            c10d._get_default_store())
        # The failures after which the groups were used on.
        self._survived = 0
        # The first failure after which they are not.
        self._failure = ""

    def check(self) -> None:
        """Raises RunFailed if the groups of the job are not used any more."""
        if self._failure:
            raise RunFailed(self._failure, _AGAIN)

    def announce(self, device_type: str) -> None:
        """Tells the other ranks the connections of this one, if gloo brings messages between devices
        of this type. Called when its groups are made."""
        if backend_of(device_type) == "gloo":
            self._store.set(f"ends/{self._rank}", json.dumps(connections()))

    def settle(self, failure: Failure) -> tuple[bool, Error | None]:
        """Tells the other ranks of a failed step, and waits a moment for theirs. Returns whether the
        groups can be used on, and the error to raise instead of this rank's own, if another rank is
        the reason. Raises nothing."""
        own = failure.record()
        records: dict[int, dict[str, Any]] = {}
        begin = time.monotonic()
        is_whole = False
        ends = self._read_ends()
        try:
            # The reason may be gone with its rank and the store, once it knows that all have heard.
            self._read(records)
            self._write(own)
            self._wait(records, begin + _MOMENT_SECONDS, lambda: own["kind"] == "lost")
            verdict = "whole" if self._is_whole(records) else "broken"
            verdict = self._store.compare_set(self._key("verdict"), "", verdict).decode()
            is_whole = verdict == "whole"
            if is_whole:
                self._survived += 1
                return True, None
            self._break(ends)
            if isinstance(failure.error, Exception):
                self._wait(records, begin + _PATIENCE_SECONDS, lambda: False)
        except Exception:  # The store may be gone with the rank that has it.
            with contextlib.suppress(Exception):
                self._break(ends)
        reason = None
        if own["kind"] == "lost":
            reason = self._reason(records, str(failure.error), ends)
        self._failure = str(reason) if reason is not None else (
            f"rank {self._rank} failed in step {failure.step}: {own['text']}")
        return False, reason

    def tell(self, error: BaseException) -> None:
        """Tells the other ranks of an error outside of a step, which may end this one, and waits for
        nothing."""
        with contextlib.suppress(Exception):
            self._store.set(f"told/{self._rank}", text_of(error))

    def _key(self, name: str) -> str:
        return f"{self._survived}/{name}"

    def _write(self, record: dict[str, Any]) -> None:
        order = self._store.add(self._key("count"), 1)
        self._store.set(self._key(f"rank/{self._rank}"), json.dumps({**record, "order": order}))

    def _read(self, records: dict[int, dict[str, Any]]) -> None:
        for rank in range(self._count):
            key = self._key(f"rank/{rank}")
            if rank not in records and self._store.check([key]):
                records[rank] = json.loads(self._store.get(key))

    def _wait(self, records: dict[int, dict[str, Any]], end: float,
              has_enough: Callable[[], bool]) -> None:
        """Reads records until all are there, or the time has come."""
        while True:
            self._read(records)
            if len(records) == self._count or has_enough() or time.monotonic() >= end:
                return
            time.sleep(_PAUSE_SECONDS)

    def _is_whole(self, records: dict[int, dict[str, Any]]) -> bool:
        """Returns whether no message is left in the groups."""
        if len(records) < self._count or any(one["kind"] != "error" for one in records.values()):
            return False
        if not any(one["has_begun"] for one in records.values()):
            return True
        sent: dict[str, int] = {}
        for one in records.values():
            if one["messages"] is None:
                return False
            for group, number in one["messages"].items():
                if sent.setdefault(group, number) != number:
                    return False
        return True

    def _read_ends(self) -> dict[int, list[Ends]]:
        found: dict[int, list[Ends]] = {}
        with contextlib.suppress(Exception):
            for rank in range(self._count):
                if rank != self._rank and self._store.check([f"ends/{rank}"]):
                    found[rank] = [(own, other)
                                   for own, other in json.loads(self._store.get(f"ends/{rank}"))]
        return found

    def _break(self, ends: Mapping[int, list[Ends]]) -> None:
        store: Any = dist.distributed_c10d._get_default_store()
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        port = getattr(store, "port", None)
        break_connections([one for some in ends.values() for one in some],
                          [] if port is None else [port])

    def _reason(self, records: Mapping[int, dict[str, Any]], message: str,
                ends: Mapping[int, list[Ends]]) -> Error | None:
        """Returns the error of the rank on whose account this one stopped waiting, or None if all
        ranks only lost each other."""
        told = [(one["order"], rank) for rank, one in records.items() if one["kind"] == "error"]
        if told:
            rank = min(told)[1]
            return RankFailed(rank, records[rank]["step"], records[rank]["text"])
        silent = [rank for rank in range(self._count) if rank not in records and rank != self._rank]
        named = rank_of_error(message, ends)
        if named in silent:
            silent = [named]
        if not silent:
            return None
        with contextlib.suppress(Exception):
            if self._store.check([f"told/{silent[0]}"]):
                return RankFailed(silent[0], None, self._store.get(f"told/{silent[0]}").decode())
        return RankFailed(silent[0], None, "it ended without a word, so it may have been killed, by "
                          "the system for want of memory for instance; its own log and the system's "
                          "have more")


def backend_of(device_type: str) -> str:
    """Returns the backend that brings the job's messages between devices of a type; empty for none.
    `dist.get_backend` knows it only if the job named one backend for all: behind
    `init_process_group()` it says "undefined"."""
    backends = dict(part.split(":", 1) for part in dist.get_backend_config().split(",")
                    if ":" in part)
    return backends.get(device_type, "")


_failures: Failures | None = None
_world: Any = None
_job_count = 0


def failures_of_job() -> Failures | None:
    """Returns what the ranks of the job know of failures; None in a job of one rank, and where
    processes stand for ranks that are not there."""
    global _failures, _world, _job_count
    if rank_count() == 1 or dist.get_backend() == "fake":
        return None
    if _world is not dist.group.WORLD:
        _world, _job_count = dist.group.WORLD, _job_count + 1
        _failures = Failures(_job_count)
    return _failures
