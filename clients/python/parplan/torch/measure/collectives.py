"""Times of gloo's collectives between processes of this machine."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from parplan.torch.measure.steady import Spread, spread_of

_PATIENCE = datetime.timedelta(seconds=120)
_WARM_UPS = 2
_ROUND = 15  # Repetitions between two looks at how well the median is known.
COLLECTIVES = ("COLLECTIVE_ALL_REDUCE", "COLLECTIVE_ALL_GATHER", "COLLECTIVE_REDUCE_SCATTER",
               "COLLECTIVE_ALL_TO_ALL", "COLLECTIVE_SEND_RECEIVE")


@dataclasses.dataclass(frozen=True)
class CollectiveTime:
    """One collective among groups of `participants` ranks `stride` apart, all at once."""
    collective: str
    participants: int
    stride: int
    size: int
    spread: Spread


def measure_collectives(ranks: int, sizes: Sequence[int], target: float,
                        rounds: int) -> list[CollectiveTime]:
    """Starts `ranks` processes and times every collective at every size in bytes: at most `rounds`
    times 15 repetitions, fewer if the median is known to `target` before. A repetition takes as
    long as its slowest rank."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(  # type: ignore[attr-defined,no-untyped-call,unused-ignore]
            _rank, args=(ranks, tuple(sizes), target, rounds, folder), nprocs=ranks)
        made: list[CollectiveTime] = pickle.loads(pathlib.Path(folder, "times").read_bytes())
        return made


def shapes_of(ranks: int) -> list[tuple[int, int]]:
    """Returns participants and strides of groups that divide the ranks evenly."""
    return [(participants, stride) for participants in range(2, ranks + 1)
            for stride in range(1, ranks) if ranks % (participants * stride) == 0]


def _rank(rank: int, ranks: int, sizes: Sequence[int], target: float, rounds: int,
          folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                            world_size=ranks, timeout=_PATIENCE)
    made = []
    for participants, stride in shapes_of(ranks):
        groups = [[block + offset + step * stride for step in range(participants)]
                  for block in range(0, ranks, participants * stride) for offset in range(stride)]
        # Every process makes all groups, in the same order.
        handles = [dist.new_group(members, timeout=_PATIENCE) for members in groups]
        own = next(index for index, members in enumerate(groups) if rank in members)
        for collective in COLLECTIVES:
            if collective == "COLLECTIVE_SEND_RECEIVE" and participants != 2:
                continue
            for size in sizes:
                work = _operation(collective, groups[own], handles[own], size)
                made.append(CollectiveTime(collective, participants, stride, size,
                                           _time(work, target, rounds)))
    if rank == 0:
        pathlib.Path(folder, "times").write_bytes(pickle.dumps(made))
    dist.barrier()
    dist.destroy_process_group()


def _operation(collective: str, members: Sequence[int], group: Any,
               size: int) -> Callable[[], object]:
    count = len(members)
    whole = torch.ones(max(size // 4 // count, 1) * count)
    part, result = torch.ones(whole.numel() // count), torch.empty_like(whole)
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


def _time(work: Callable[[], object], target: float, rounds: int) -> Spread:
    samples: list[float] = []
    for _ in range(_WARM_UPS):
        work()
    for _ in range(rounds):
        seconds = torch.zeros(_ROUND, dtype=torch.double)
        for repetition in range(_ROUND):
            dist.barrier()
            begin = time.perf_counter()
            work()
            seconds[repetition] = time.perf_counter() - begin
        # All ranks see the same times, so all stop together.
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        samples.extend(seconds.tolist())
        if spread_of(samples).uncertainty <= target:
            break
    return spread_of(samples)
