"""The ranks of a job, and what all of them exchange. A job of one rank exchanges nothing: it needs no
process group, and if there is one makes no communicator, whose memory on a GPU is some 0.6 GB."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist


def this_rank() -> int:
    """Returns the number of this process in the job; 0 without a process group."""
    return dist.get_rank() if dist.is_initialized() else 0


def rank_count() -> int:
    """Returns the number of ranks of the job; 1 without a process group."""
    return dist.get_world_size() if dist.is_initialized() else 1


def add_up(value: torch.Tensor) -> None:
    """Adds up a tensor over all ranks, in place. Every rank calls this."""
    if rank_count() > 1:
        dist.all_reduce(value)


def gather(value: torch.Tensor) -> list[torch.Tensor]:
    """Returns the tensors of all ranks, of one shape and type. Every rank calls this."""
    count = rank_count()
    if count == 1:
        return [value]
    found = [torch.empty_like(value) for _ in range(count)]
    dist.all_gather(found, value)
    return found


def gather_objects(value: Any, device: torch.device | None = None) -> list[Any]:
    """Returns the objects of all ranks, which are pickled. Every rank calls this. `device` is the
    GPU of this rank, through which NCCL sends them; by default the current one."""
    count = rank_count()
    if count == 1:
        return [value]
    found: list[Any] = [None] * count
    is_gpu = device is not None and device.type == "cuda"
    with torch.cuda.device(device) if is_gpu else contextlib.nullcontext():
        dist.all_gather_object(found, value)  # type: ignore[no-untyped-call,unused-ignore]
    return found


def wait_for_all() -> None:
    """Returns when every rank has called it."""
    if rank_count() > 1:
        dist.barrier()
