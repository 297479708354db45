"""The parts of a device that a measurement needs: time, memory and clocks."""

from __future__ import annotations

import abc
import dataclasses
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import torch

from parplan.torch.heap import return_freed_memory

# Reasons of NVML that slow a busy GPU down; idleness and clocks that were asked for are none.
_THROTTLING = {0x4: "power limit", 0x8: "hardware slowdown", 0x10: "synchronized boost",
               0x20: "temperature (software)", 0x40: "temperature (hardware)",
               0x80: "power brake"}


@dataclasses.dataclass(frozen=True)
class Clocks:
    """A reading of a device's clock."""
    # None where the system does not say.
    megahertz: float | None
    throttled_by: tuple[str, ...] = ()


class Device(abc.ABC):
    """A device that layers are measured on; used by one thread."""

    # Place of tensors.
    place: torch.device
    # Load before a measurement, in seconds, so that clocks are those of training.
    warm_up_seconds: float
    # Rows of a product, and bytes of an all-reduce, that keep all of the device busy.
    product_side: int
    reduced_bytes: int

    @abc.abstractmethod
    def time(self, work: Callable[[], object]) -> float:
        """Returns the seconds that `work` takes on the device."""

    @abc.abstractmethod
    def held_bytes(self) -> int | None:
        """Returns the bytes that this process has on the device outside tensors, None if the system
        does not say."""

    @abc.abstractmethod
    def allocated_bytes(self) -> int | None:
        """Returns the bytes of all tensors, None without an allocator that counts them."""

    @abc.abstractmethod
    def clocks(self) -> Clocks:
        """Reads clock and throttling."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Waits for the device."""


class Processor(Device):
    """The processors of this machine, as far as this process may use them."""

    place = torch.device("cpu")
    warm_up_seconds = 0.0
    # The sizes of the agent's probe (profiler-agent/probe/device_probe.h).
    product_side = 384
    reduced_bytes = 8 << 20

    def __init__(self, root: str = "/") -> None:
        """`root` has the folders proc and sys."""
        self._root = pathlib.Path(root)
        self._throttled = self._throttle_count()

    def time(self, work: Callable[[], object]) -> float:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin

    def held_bytes(self) -> int | None:
        """Counts the pages that this process has written: its heap and what libraries keep for
        themselves. Their code is shared by all processes of the node."""
        return_freed_memory()
        for line in self._lines("proc/self/smaps_rollup"):
            name, _, size = line.partition(":")
            if name == "Anonymous":
                return int(size.split()[0]) * 1024
        return None

    def allocated_bytes(self) -> int | None:
        return None

    def clocks(self) -> Clocks:
        own = os.sched_getaffinity(0)
        core, rates = -1, []
        for line in self._lines("proc/cpuinfo"):
            name, _, value = line.partition(":")
            if name.strip() == "processor":
                core = int(value)
            elif name.strip() == "cpu MHz" and core in own:
                rates.append(float(value))
        count = self._throttle_count()
        return Clocks(sum(rates) / len(rates) if rates else None,
                      ("temperature",) if count > self._throttled else ())

    def synchronize(self) -> None:
        pass

    def _throttle_count(self) -> int:
        cores = (self._root / "sys/devices/system/cpu").glob(
            "cpu[0-9]*/thermal_throttle/core_throttle_count")
        return sum(int(path.read_text()) for path in cores)

    def _lines(self, name: str) -> list[str]:
        try:
            return (self._root / name).read_text().splitlines()
        except OSError:
            return []


class Gpu(Device):
    """A GPU of NVIDIA, by torch.cuda and NVML."""

    # Long enough for a GPU's power control to settle; not measured.
    warm_up_seconds = 1.0
    product_side = 8192
    reduced_bytes = 256 << 20

    def __init__(self, index: int, cuda: Any = None, nvml: Any = None) -> None:
        """`cuda` is torch.cuda by default, and `nvml` the module pynvml if it can be imported and
        knows the GPU."""
        self._cuda = torch.cuda if cuda is None else cuda
        self._index = index
        self.place = torch.device("cuda", index)
        self._nvml, self._handle = nvml, None
        if nvml is None and cuda is None:
            try:
                import pynvml
                self._nvml = pynvml
            except ImportError:
                pass
        if self._nvml is not None:
            self._handle = self._find()

    def time(self, work: Callable[[], object]) -> float:
        first, last = (self._cuda.Event(enable_timing=True) for _ in range(2))
        self._cuda.synchronize(self._index)
        first.record()
        work()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000

    def held_bytes(self) -> int | None:
        """Returns the bytes that this process holds, if NVML knows them; else all bytes in use on
        the GPU, which no other process may use then."""
        reserved = int(self._cuda.memory_reserved(self._index))
        used = self._used_by_process()
        if used is None:
            free, total = self._cuda.mem_get_info(self._index)
            used = int(total) - int(free)
        return max(used - reserved, 0)

    def allocated_bytes(self) -> int | None:
        return int(self._cuda.memory_allocated(self._index))

    def clocks(self) -> Clocks:
        if self._handle is None:
            return Clocks(None)
        nvml = self._nvml
        # The name before and since release 12 of pynvml.
        read = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or getattr(
            nvml, "nvmlDeviceGetCurrentClocksThrottleReasons")
        try:
            rate = float(nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM))
            mask = int(read(self._handle))
        except nvml.NVMLError:
            return Clocks(None)
        return Clocks(rate, tuple(name for bit, name in _THROTTLING.items() if mask & bit))

    def synchronize(self) -> None:
        self._cuda.synchronize(self._index)

    def _find(self) -> Any:
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            # CUDA_VISIBLE_DEVICES numbers GPUs anew, and NVML does not read it.
            uuid = self._cuda.get_device_properties(self._index).uuid
            return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except (nvml.NVMLError, AttributeError):
            return None

    def _used_by_process(self) -> int | None:
        if self._handle is None:
            return None
        nvml = self._nvml
        try:
            processes = nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except nvml.NVMLError:
            return None
        # In a container NVML may have the numbers of processes outside it, or no sizes.
        return next((int(one.usedGpuMemory) for one in processes
                     if one.pid == os.getpid() and one.usedGpuMemory), None)


def device_of(device_type: str, rank: int) -> Device:
    """Returns the device of a rank: `cpu` or `cuda`."""
    return Gpu(rank) if device_type == "cuda" else Processor()


class ClockLog:
    """The range of a device's clock over many readings, and what slowed it down."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._rates: list[float] = []
        self._reasons: set[str] = set()

    def read(self) -> None:
        """Reads the clock; called right after work, while the device is as it was under load."""
        clocks = self._device.clocks()
        if clocks.megahertz is not None:
            self._rates.append(clocks.megahertz)
        self._reasons.update(clocks.throttled_by)

    def notes(self) -> list[str]:
        """Returns sentences for readers of a profile."""
        made = []
        if self._rates:
            made.append(f"the clock was between {min(self._rates):.0f} and {max(self._rates):.0f} "
                        f"MHz in {len(self._rates)} readings under load")
        if self._reasons:
            made.append(f"the device was throttled: {', '.join(sorted(self._reasons))}")
        return made
