"""Memory that a process has on a device beside its tensors."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.distributed as dist

from parplan.torch.measure.devices import Device
from parplan.torch.measure.job import Job


@dataclasses.dataclass(frozen=True)
class ContextMemory:
    """Bytes on the rank that has most."""
    # Libraries, and the context of a GPU, after first work.
    context: int
    # All groups of ranks that were made to measure them, and have sent messages.
    communicators: int = 0
    communicator_count: int = 0

    @property
    def communicator(self) -> int | None:
        """The mean of a group, rounded up; None for a rank alone on a processor."""
        if self.communicator_count == 0:
            return None
        return -(-self.communicators // self.communicator_count)


# Libraries take their workspace with the first product of some size, and gloo and NCCL their
# buffers with the first messages.
_SIDE = 256
_ELEMENTS = 1 << 20
# The first group loads the library's kernels too. Jobs of several devices have at least two: all
# ranks, and those of an axis.
_GROUPS = 2


def measure_context(device: Device, job: Job) -> ContextMemory | None:
    """Measures before there is a tensor. Collective over the job. None where the system does not
    say."""
    _first_work(device)
    before = device.held_bytes()
    after = before
    count = _GROUPS if dist.is_initialized() else 0
    if count > 0:
        buffer = torch.zeros(_ELEMENTS, device=device.place)
        # On a processor the buffer is a part of the heap, so it is there both times.
        before = device.held_bytes()
        for _ in range(count):
            group: Any = dist.new_group(list(range(job.count)))
            dist.all_reduce(buffer, group=group)
        device.synchronize()
        after = device.held_bytes()
    if before is None or after is None:
        known = [-1.0, -1.0]
    else:
        known = [float(before), float(max(after - before, 0))]
    context, communicators = job.largest(known)
    if context < 0:
        return None
    return ContextMemory(int(context), int(communicators), count)


def context_after_work(before: ContextMemory | None, device: Device, job: Job
                       ) -> ContextMemory | None:
    """Returns `before`, with the memory of the context as it is now that layers have run, if the
    device counts that beside their tensors, as GPUs do. Collective over the job."""
    if before is None or device.allocated_bytes() is None:
        return before
    device.synchronize()
    now = job.largest([float(device.held_bytes() or 0)])[0]
    return dataclasses.replace(before, context=max(before.context, int(now) - before.communicators))


def _first_work(device: Device) -> None:
    with torch.enable_grad():
        left = torch.ones(_SIDE, _SIDE, device=device.place, requires_grad=True)
        torch.autograd.backward((left @ left).sum())
    device.synchronize()
