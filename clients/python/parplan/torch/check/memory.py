"""The peak of a rank's memory in a step of the whole plan, simulated without its devices.

A rank trains with tensors that have sizes and no contents, as in steps.py, with its optimizer. What
is allocated and freed, in order, is given to the rules of the allocator of GPUs (allocator.py). The
context of a GPU and communicators come in addition, and what kernels and cuBLAS take for
themselves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from parplan.errors import Error
from parplan.plan import Plan
from parplan.torch.check import steps
from parplan.torch.check.allocator import CachingAllocator
from parplan.torch.check.models import Source
from parplan.torch.check.numerics import start_processes
from parplan.torch.run import apply
from parplan.wire import messages

# The first step makes the optimizer's states, and free blocks of both it and the second are there in
# the third. Later ones allocate the same.
_STEPS = 3
_PRECISIONS = {"PRECISION_BF16": "bf16", "PRECISION_FP32": "fp32"}
# Optimizers of one kernel, as profiles measure them (measure/optimizers.py).
_OPTIMIZERS = {"OPTIMIZER_ADAM": torch.optim.AdamW, "OPTIMIZER_SGD": torch.optim.SGD}

# A number and the bytes of what is allocated, or the negative number of what is freed, and 0.
Event = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Peaks:
    """The most bytes of a rank: of tensors, and what the allocator had from the driver, by default
    and with `expandable_segments:True`."""
    rank: int
    allocated: int
    reserved: int
    reserved_expandable: int


@dataclasses.dataclass(frozen=True)
class Simulated:
    """The peaks of the ranks that ran, which stand for all. `left_out` says why there are none."""
    peaks: tuple[Peaks, ...] = ()
    left_out: str = ""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call,unused-ignore]
    """Lists what tensors are allocated and freed while it is entered, in `events`. Memory that
    exists only within an operation is not seen."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.events: list[Event] = []
        # By identity: a weak reference to the storage, and the number of its allocation.
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._count = 0
        self._resize: Any = None

    def __enter__(self) -> Recorder:
        super().__enter__()  # type: ignore[no-untyped-call,unused-ignore]
        storage: Any = torch.UntypedStorage
        self._resize = storage.resize_

        def resize(resized: Any, size: int) -> Any:
            made = self._resize(resized, size)
            self._forget(id(resized))
            self._see(resized)
            return made

        storage.resize_ = resize
        return self

    def __exit__(self, *error: Any) -> None:
        storage: Any = torch.UntypedStorage
        storage.resize_ = self._resize
        super().__exit__(*error)  # type: ignore[no-untyped-call,unused-ignore]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor):
                self._see(one.untyped_storage())
        return made

    def _see(self, storage: Any) -> None:
        key, size = id(storage), int(storage.nbytes())
        if size == 0 or (key in self._known and self._known[key][0]() is storage):
            return
        self._count += 1
        number = self._count
        self.events.append((number, size))
        self._known[key] = (weakref.ref(storage, lambda _: self._forget(key, number)), number)

    def _forget(self, key: int, number: int | None = None) -> None:
        found = self._known.get(key)
        if found is not None and number in (None, found[1]):
            del self._known[key]
            self.events.append((-found[1], 0))


def peaks_of(events: list[Event], rank: int = 0) -> Peaks:
    """Returns what the allocator had at most, given `events` in order."""
    reserved = []
    for expands in (False, True):
        allocator = CachingAllocator(expands)
        blocks: dict[int, int] = {}
        for number, size in events:
            if number > 0:
                blocks[number] = allocator.allocate(size)
            else:
                allocator.free(blocks.pop(-number))
        reserved.append(allocator.peak_reserved)
    return Peaks(rank, _most(events), *reserved)


def _most(events: list[Event]) -> int:
    """Returns the most bytes of `events` that exist at once, rounded as the allocator does."""
    sizes: dict[int, int] = {}
    now = most = 0
    for number, size in events:
        if number > 0:
            sizes[number] = -(-size // 512) * 512
            now += sizes[number]
        else:
            now -= sizes.pop(-number)
        most = max(most, now)
    return most


def simulate_step(plan: Plan, topology: Any, source: Source,
                  tensor_plan: dict[str, str] | None = None,
                  begin: Callable[[str], None] = lambda _: None) -> Simulated:
    """Simulates the ranks of `plan` that differ, made for the `ClusterTopology`, each in a process
    of its own. `begin` is told of each that starts. Raises the errors of `parplan.torch.apply`."""
    precision = messages.enum_name("Precision", plan.model.precision)
    optimizer = messages.enum_name("Optimizer", plan.model.optimizer)
    if precision not in _PRECISIONS or optimizer not in _OPTIMIZERS:
        return Simulated(left_out=f"{precision} and {optimizer} are not trained by this release")
    job = steps.Job.of(plan, topology, source, tensor_plan)
    ranks = steps.ranks_that_differ(plan)
    at_once = max(1, min(len(os.sched_getaffinity(0)), len(ranks)))
    found: list[Peaks | Error | str] = []
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(ranks), at_once):
            some = ranks[start:start + at_once]
            begin(f"memory of rank {', '.join(map(str, some))}")
            start_processes(_run, (tuple(some), folder, job), len(some))
            found += [_read(pathlib.Path(folder, f"peaks{rank}"), rank) for rank in some]
    for one in found:
        if isinstance(one, Error):
            raise one
    left_out = next((one for one in found if isinstance(one, str)), "")
    return Simulated(tuple(one for one in found if isinstance(one, Peaks)) if not left_out else (),
                     left_out)


def _run(number: int, ranks: tuple[int, ...], folder: str, job: steps.Job) -> None:
    rank = ranks[number]
    torch.set_num_threads(1)
    made: Peaks | Error | str
    try:
        plan = job.plan()
        steps.begin_fake_job(plan.device_count, rank)
        events = allocations_here(plan, job.source, job.tensor_plan)
        made = peaks_of(events, rank) if events else (
            "tokens without contents choose no experts")
    except Error as error:
        made = error
    except Exception as error:
        made = f"rank {rank}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    pathlib.Path(folder, f"peaks{rank}").write_bytes(pickle.dumps(made))


def _read(path: pathlib.Path, rank: int) -> Peaks | Error | str:
    if not path.exists():
        return f"rank {rank} ended without a result"
    found: Peaks | Error | str = pickle.loads(path.read_bytes())
    return found


def allocations_here(plan: Plan, source: Source,
                     tensor_plan: dict[str, str] | None) -> list[Event]:
    """Returns what this process's rank allocates and frees in its first steps, in a job as
    `begin_fake_job` makes it. Parameters have 32 bits. Empty for layers with experts, whose choices
    decide it."""
    precision = _PRECISIONS[messages.enum_name("Precision", plan.model.precision)]
    kind: Any = _OPTIMIZERS[messages.enum_name("Optimizer", plan.model.optimizer)]
    if any(one.expert_count > 0 for one in plan.model.layer_definitions):
        return []
    source.load_libraries()
    recorder = Recorder()
    with steps.without_contents(), _in_32_bits(), recorder:
        model = source.whole(plan.model, torch.float32)
        run = apply(plan, model, source.loss_function(), tensor_plan=tensor_plan, device="cpu",
                    layers=source.layers_in(model, plan), compile=False,
                    optimizer=functools.partial(kind, lr=1e-3, fused=True), precision=precision)
        inputs, targets = steps.batch_without_contents(source, plan)
        for _ in range(_STEPS):
            run.step(inputs, targets)
    return recorder.events


@contextlib.contextmanager
def _in_32_bits() -> Iterator[None]:
    """Within it modules, all of 32 bits, stay as they are when they are to have 32 bits: tensors
    without contents cannot take each other's places."""
    module: Any = nn.Module
    before = module.float
    module.float = lambda self: self
    try:
        yield
    finally:
        module.float = before
