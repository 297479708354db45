"""Counts collectives where PyTorch dispatches them."""

from __future__ import annotations

import collections
from typing import Any

import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from parplan import traffic
from parplan.torch import spans

# The names of operations, by what they begin with; the longer ones come first.
_KINDS = (
    ("reduce_scatter", traffic.REDUCE_SCATTER), ("_reduce_scatter", traffic.REDUCE_SCATTER),
    ("allreduce", traffic.ALL_REDUCE), ("all_reduce", traffic.ALL_REDUCE),
    ("allgather", traffic.ALL_GATHER), ("_allgather", traffic.ALL_GATHER),
    ("all_gather", traffic.ALL_GATHER), ("alltoall", traffic.ALL_TO_ALL),
    ("all_to_all", traffic.ALL_TO_ALL), ("shard_dim_alltoall", traffic.ALL_TO_ALL),
    # No plan has one, so that each is seen as not priced.
    ("broadcast", "broadcast"),
    ("send", traffic.SEND), ("isend", traffic.SEND), ("recv", traffic.RECEIVE),
    ("irecv", traffic.RECEIVE))
_NAMESPACES = ("c10d", "_c10d_functional", "_dtensor")
_IGNORED = ("wait_tensor",)

# A call: its kind, and the ranks of the job that take part.
Call = tuple[str, tuple[int, ...]]


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call,unused-ignore]
    """Counts the calls of each kind and group while it is entered. `late` has those behind the
    last backward pass, where gradients are brought together; `calls` has them too."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.calls: collections.Counter[Call] = collections.Counter()
        self.late: collections.Counter[Call] = collections.Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        options = kwargs or {}
        if function.namespace in _NAMESPACES:
            self._count(function, args, options)
        return function(*args, **options)

    def _count(self, function: Any, args: Any, options: dict[str, Any]) -> None:
        name = function._schema.name.partition("::")[2]
        if name in _IGNORED:
            return
        kind = next((kind for start, kind in _KINDS if name.startswith(start)), name)
        given = {argument.name: value for argument, value in zip(function._schema.arguments, args)}
        given.update(options)
        group = _group_of(given)
        ranks = tuple(sorted(dist.get_process_group_ranks(group)))
        peer = given.get("dst", given.get("src"))
        if kind in (traffic.SEND, traffic.RECEIVE) and isinstance(peer, int):
            # The message is of two ranks, whichever group it goes through.
            other = dist.get_process_group_ranks(group)[peer]
            ranks = tuple(sorted((dist.get_rank(), other)))
        call = (kind, ranks)
        self.calls[call] += 1
        if spans.is_within("gradients"):
            self.late[call] += 1


def _group_of(given: dict[str, Any]) -> Any:
    if "process_group" in given:
        group = given["process_group"]
        if isinstance(group, dist.ProcessGroup):
            return group
        return dist.ProcessGroup.unbox(group)
    found = given.get("group_name", given.get("group"))
    if isinstance(found, str):
        c10d: Any = dist.distributed_c10d
        return c10d._resolve_process_group(found)
    return found
