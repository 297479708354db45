"""How much of the processors other programs and other virtual machines had during a measurement, as
executor/device/backend/machine_use.h has it."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from collections.abc import Iterable

# Above this share a measurement counts as made on a busy machine (kBusyMachineRatio).
BUSY_RATIO = 0.05
# Counters tick every 10 ms, so shorter measurements are not judged (kShortestMachineUse).
SHORTEST_SECONDS = 1.0
# Counters that account for less of the time stand still, as in some sandboxes.
_ACCOUNTED_SHARE = 0.5
_STAT = pathlib.Path("/proc/stat")
_THREADS = pathlib.Path("/proc/self/task")


@dataclasses.dataclass(frozen=True)
class Reading:
    """The seconds so far: of the clock, of this process and its children, and of the processors
    that it may run on, busy (others' virtual machines included) and in all."""
    clock: float
    process: float
    busy: float
    total: float


def read(processors: Iterable[int] | None = None, stat: str | None = None) -> Reading | None:
    """Returns a reading, or None where the system has no counters. `stat` is the text of
    /proc/stat."""
    wanted = {f"cpu{one}" for one in processors or os.sched_getaffinity(0)}
    if stat is None:
        try:
            stat = _STAT.read_text()
        except OSError:
            return None
    tick = 1 / os.sysconf("SC_CLK_TCK")
    busy = total = 0.0
    for line in stat.splitlines():
        name, *columns = line.split()
        if name not in wanted:
            continue
        wanted.discard(name)
        user, nice, system, idle, wait, interrupts, soft, stolen = map(int, columns[:8])
        used = user + nice + system + interrupts + soft + stolen
        busy += used * tick
        total += (used + idle + wait) * tick
    if wanted:
        return None
    times = os.times()
    process = times.user + times.system + times.children_user + times.children_system
    return Reading(time.monotonic(), process, busy, total)


def share_of_others(uses: Iterable[tuple[Reading | None, Reading | None]]) -> float | None:
    """Returns the share of processor time that was not the job's. `uses` has the readings of each
    rank, before and after; ranks share their processors. None if it cannot be told."""
    own, shares = 0.0, []
    for before, after in uses:
        if before is None or after is None:
            return None
        elapsed, total = after.clock - before.clock, after.total - before.total
        if elapsed < SHORTEST_SECONDS or total < elapsed * _ACCOUNTED_SHARE:
            return None
        own += after.process - before.process
        shares.append((after.busy - before.busy, total))
    if not shares:
        return None
    # Ticks are sampled and the time of processes is not, so the difference may be below zero.
    return max(max(busy - own, 0.0) / total for busy, total in shares)


def waited() -> float:
    """Returns for how long threads of this process were ready to run while others had the
    processors, in seconds, summed over its threads; 0 where the system does not count it."""
    found = 0.0
    for thread in _THREADS.glob("*/schedstat"):
        try:
            # Nanoseconds on a processor, nanoseconds ready without one, and time slices.
            found += 1e-9 * int(thread.read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # It has ended, or nothing is counted.
    return found


def is_busy(share: float | None) -> bool:
    """Returns whether a measurement is to be marked; one that cannot be judged is not."""
    return share is not None and share > BUSY_RATIO


def mark(share: float | None) -> str:
    """Returns what a table says of the machine beside a measurement."""
    if share is None:
        return "others not known"
    return f"others {100 * share:.0f} %{' BUSY' if is_busy(share) else ''}"
