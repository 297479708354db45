"""Devices: processors from files of a folder, GPUs by modules that stand for CUDA and NVML."""

import os
import types

import pytest
import torch

from parplan.torch.measure.context import ContextMemory, context_after_work
from parplan.torch.measure.devices import ClockLog, Clocks, Gpu, Processor
from parplan.torch.measure.job import Job


class FakeCuda:
    """Counts milliseconds: `work` of a test moves `now` on."""

    def __init__(self):
        self.now, self.waits = 0.0, 0
        self.free, self.total, self.reserved, self.allocated = 60, 100, 10, 7
        cuda = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = cuda.now

            def synchronize(self):
                cuda.waits += 1

            def elapsed_time(self, other):
                return other.at - self.at

        self.Event = Event

    def synchronize(self, index):
        assert index == 1
        self.waits += 1

    def mem_get_info(self, index):
        return self.free, self.total

    def memory_reserved(self, index):
        return self.reserved

    def memory_allocated(self, index):
        return self.allocated

    def get_device_properties(self, index):
        return types.SimpleNamespace(uuid="12-34")


class FakeNvml:
    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def __init__(self):
        self.reasons, self.processes, self.is_broken = 0, [], False

    def nvmlInit(self):
        if self.is_broken:
            raise self.NVMLError

    def nvmlDeviceGetHandleByUUID(self, uuid):
        assert uuid == "GPU-12-34"
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, kind):
        assert (handle, kind) == ("handle", self.NVML_CLOCK_SM)
        return 1755

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self.processes


@pytest.fixture
def cuda():
    return FakeCuda()


@pytest.fixture
def nvml():
    return FakeNvml()


def test_gpu_times_are_those_between_events(cuda, nvml):
    gpu = Gpu(1, cuda, nvml)

    def work():
        cuda.now += 250

    assert gpu.time(work) == 0.25
    # Earlier work has ended before the first event, and this work before it is read.
    assert cuda.waits == 2
    assert gpu.place == torch.device("cuda", 1)


def test_gpu_memory_beside_tensors(cuda, nvml):
    gpu = Gpu(1, cuda, nvml)
    # NVML does not know this process: all that is taken, less what the allocator has.
    assert gpu.held_bytes() == 100 - 60 - 10
    nvml.processes = [types.SimpleNamespace(pid=os.getpid(), usedGpuMemory=25),
                      types.SimpleNamespace(pid=-1, usedGpuMemory=50)]
    assert gpu.held_bytes() == 25 - 10
    assert gpu.allocated_bytes() == 7


def test_gpu_clock_and_what_slows_it_down(cuda, nvml):
    gpu = Gpu(1, cuda, nvml)
    # Idle, and a clock that somebody set.
    nvml.reasons = 0x1 | 0x2
    assert gpu.clocks() == Clocks(1755)
    nvml.reasons = 0x4 | 0x40
    assert gpu.clocks() == Clocks(1755, ("power limit", "temperature (hardware)"))


def test_context_of_a_gpu_grows_with_the_kernels_that_were_loaded(cuda, nvml):
    gpu = Gpu(1, cuda, nvml)
    first = ContextMemory(context=20, communicators=3, communicator_count=2)
    # 30 are held now, 3 of them by the two communicators.
    assert context_after_work(first, gpu, Job()) == ContextMemory(27, 3, 2)
    assert context_after_work(ContextMemory(40, 3, 2), gpu, Job()) == ContextMemory(40, 3, 2)
    assert first.communicator == 2 and ContextMemory(20).communicator is None
    assert context_after_work(None, gpu, Job()) is None
    # The heap of a process on processors has its tensors too.
    assert context_after_work(first, Processor(), Job()) == first


def test_gpu_without_nvml_has_no_clock(cuda, nvml):
    nvml.is_broken = True
    gpu = Gpu(1, cuda, nvml)
    assert gpu.clocks() == Clocks(None) and gpu.held_bytes() == 30
    assert ClockLog(gpu).notes() == []


def test_clock_log_has_the_range(cuda, nvml):
    gpu = Gpu(1, cuda, nvml)
    log = ClockLog(gpu)
    log.read()
    nvml.nvmlDeviceGetClockInfo = lambda *_: 1980
    nvml.reasons = 0x4
    log.read()
    assert log.notes() == ["the clock was between 1755 and 1980 MHz in 2 readings under load",
                           "the device was throttled: power limit"]


def test_processor_reads_its_own_cores(tmp_path):
    own = sorted(os.sched_getaffinity(0))
    other = max(own) + 1
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/cpuinfo").write_text("\n".join(
        f"processor\t: {core}\ncpu MHz\t\t: {rate}\n"
        for core, rate in [*((core, 2500.0) for core in own), (other, 800.0)]))
    (tmp_path / "proc/self/smaps_rollup").write_text(
        "00400000-7ffd rollup\nRss:     900 kB\nAnonymous:     300 kB\n")
    counter = tmp_path / "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count"
    counter.parent.mkdir(parents=True)
    counter.write_text("3\n")
    device = Processor(str(tmp_path))
    assert device.clocks() == Clocks(2500.0)
    assert device.held_bytes() == 300 * 1024
    counter.write_text("4\n")
    assert device.clocks().throttled_by == ("temperature",)


def test_processor_says_nothing_where_the_system_does_not(tmp_path):
    device = Processor(str(tmp_path))
    assert device.clocks() == Clocks(None) and device.held_bytes() is None
