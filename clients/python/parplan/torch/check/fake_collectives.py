"""Collectives of tensors without contents, for releases of PyTorch that have none (before
torch.distributed._meta_registrations, for instance 2.6)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

# Operations of c10d that return their first argument beside the work, and those that return the
# work alone.
_WITH_RESULT = ("broadcast_", "allreduce_", "allgather_", "_allgather_base_", "reduce_scatter_",
                "_reduce_scatter_base_", "scatter_", "alltoall_")
_WITHOUT_RESULT = ("allreduce_coalesced_", "allgather_coalesced_",
                   "allgather_into_tensor_coalesced_", "reduce_scatter_tensor_coalesced_",
                   "reduce_", "gather_", "alltoall_base_", "barrier", "send", "recv_",
                   "recv_any_source_")
# Registrations live as long as this.
_libraries: list[Any] = []


def know_collectives() -> None:
    """Makes the operations known to tensors without contents, where this release does not. Called
    once there is a process group, of a backend whose collectives do nothing."""
    if _libraries or _has_one("allreduce_"):
        return
    make_library: Any = torch.library.Library
    library = make_library("c10d", "IMPL")
    _libraries.append(library)
    work = _work()
    for names, make in ((_WITH_RESULT, lambda first: (first, work)),
                        (_WITHOUT_RESULT, lambda first: work)):
        for name in names:
            if hasattr(torch.ops.c10d, name) and not _has_one(name):
                library.impl(name, _Result(make), "Meta")


class _Result:
    """Takes the place of an operation: what it returns depends on its first argument alone."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, first: Any, *_: Any) -> Any:
        return self._make(first)


def _has_one(name: str) -> bool:
    known: Any = torch._C
    found: bool = known._dispatch_has_kernel_for_dispatch_key(f"c10d::{name}", "Meta")
    return found


def _work() -> Any:
    """Returns what operations return for callers to wait for; it is done."""
    group: Any = dist.distributed_c10d._get_default_group()
    return torch.ops.c10d.barrier(torch.zeros(1), group.boxed(), [], -1)
