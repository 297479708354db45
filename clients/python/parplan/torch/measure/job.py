"""Processes of this machine that measure together."""

from __future__ import annotations

import dataclasses
import datetime
import os
import pathlib
import pickle
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing

from parplan.errors import Error, make_error
from parplan.torch.heap import keep_freed_memory
from parplan.torch.processes import start_ranks

# Any, because the type stubs of torch.multiprocessing declare only a part of the module.
_processes: Any = torch.multiprocessing
# Longer than one measurement of a layer, after which ranks meet.
_PATIENCE = datetime.timedelta(minutes=30)


@dataclasses.dataclass(frozen=True)
class Job:
    """One rank of the job. Its methods but for `is_first` are collective: all ranks call them in
    one order. With one rank nothing is sent."""
    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def agree(self, is_done: bool) -> bool:
        """Returns whether it is true on all ranks, which begin what follows together."""
        if self.count == 1:
            return is_done
        flag = torch.tensor(int(is_done))
        dist.all_reduce(flag, op=dist.ReduceOp.MIN)
        return bool(flag.item())

    def barrier(self) -> None:
        """Waits for all ranks."""
        self.agree(True)

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Returns the values of every rank, each of which gives as many."""
        if self.count == 1:
            return [list(values)]
        own = torch.tensor(values, dtype=torch.double)
        parts = [torch.empty_like(own) for _ in range(self.count)]
        dist.all_gather(parts, own)
        return [part.tolist() for part in parts]

    def largest(self, values: Sequence[float]) -> list[float]:
        """Returns the largest of each value over the ranks."""
        return [max(column) for column in zip(*self.gather(values))]


def run_job(count: int, work: Callable[..., Any], argument: Any, *, device_type: str = "cpu",
            threads: int | None = None) -> Any:
    """Starts `count` processes that call `work(job, argument)`, a function of a module. Returns the
    answer of rank 0. `threads` is the number of threads of each, by default OMP_NUM_THREADS or 1 as
    torchrun has it, and all cores for a process alone. On GPUs a rank has the GPU of its number.
    Raises the first Error of a rank."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            start_ranks(_begin, (count, device_type, threads, folder, work, argument), count,
                        forks=device_type == "cpu")
        except (_processes.ProcessRaisedException, _processes.ProcessExitedException):
            for path in sorted(pathlib.Path(folder).glob("error*")):
                message, code, reason, metadata = pickle.loads(path.read_bytes())
                raise make_error(code, reason, message, metadata) from None
            raise
        return pickle.loads(pathlib.Path(folder, "answer").read_bytes())


def _begin(rank: int, count: int, device_type: str, threads: int | None, folder: str,
           work: Callable[..., Any], argument: Any) -> None:
    if threads is None and count > 1:
        threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    if threads is not None:
        torch.set_num_threads(threads)
    if device_type == "cuda":
        torch.cuda.set_device(rank)
    else:
        keep_freed_memory()
    # A rank alone on a GPU has a group too: programs that train make one, and it takes memory.
    has_group = count > 1 or (device_type == "cuda" and dist.is_nccl_available())
    try:
        if has_group:
            # Control messages are on the CPU, also where NCCL does the work.
            backend = "cpu:gloo,cuda:nccl" if device_type == "cuda" else "gloo"
            dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank,
                                    world_size=count, timeout=_PATIENCE)
        answer = work(Job(rank, count), argument)
    except Error as error:
        pathlib.Path(folder, f"error{rank}").write_bytes(
            pickle.dumps((error.message, error.code, error.reason, error.metadata)))
        raise
    if rank == 0:
        pathlib.Path(folder, "answer").write_bytes(pickle.dumps(answer))
    if has_group:
        dist.barrier()
        dist.destroy_process_group()
