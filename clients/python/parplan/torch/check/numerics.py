"""A small plan on ranks of gloo against one process: the loss and every gradient."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import math
import pathlib
import pickle
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from parplan.envelope import VerifiedPlan
from parplan.errors import Error
from parplan.plan import Plan
from parplan.torch.check.models import Source, output_of
from parplan.torch.check.shrink import Small, Widths
from parplan.torch.processes import start_ranks
from parplan.torch.run import apply
from parplan.wire import messages

# The second step begins with updated parameters, which sharded layers must gather anew.
STEPS = 2
_LEARNING_RATE = 0.1
# A gradient far below the largest one of the model is compared in parts of that: softmax takes no
# notice of a bias of keys, so its gradient is rounding alone (with 1e-4 it differed by 7e-5).
_FLOOR = 1e-3
_SEED = 1


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The largest differences from one process over all ranks and steps: of the loss relative to
    it, and of a gradient in parts of the largest value of its parameter's, with the parameter and
    the rank. `fault` says in one line why the ranks have no result, or is empty."""
    rank_count: int
    parameter_count: int
    loss: float
    gradient: float
    parameter: str
    rank: int
    fault: str = ""

    def is_equal(self, tolerance: float) -> bool:
        """Returns whether nothing differs by more than `tolerance`; NaN differs."""
        return not self.fault and self.loss <= tolerance and self.gradient <= tolerance


@dataclasses.dataclass(frozen=True)
class _Job:
    """The inputs of each rank, in a form that goes from process to process."""
    payload: bytes
    model: bytes
    topology: bytes
    kept: tuple[int, ...]
    widths: Widths | None
    source: Source
    tensor_plan: dict[str, str] | None
    patience: float


@dataclasses.dataclass(frozen=True)
class _Found:
    """The differences on one rank, or why it failed."""
    loss: float = 0.0
    gradient: float = 0.0
    parameter: str = ""
    names: frozenset[str] = frozenset()
    fault: str = ""
    refusal: Error | None = None


def compare(small: Small, source: Source, tensor_plan: dict[str, str] | None = None,
            patience: float = 300.0) -> Comparison:
    """Runs two steps of SGD under a small plan, on a process for each rank, and in this process.
    `patience` is how long a rank waits for the others, in seconds. Raises the errors of
    `parplan.torch.apply` for a plan that it refuses."""
    plan = small.plan
    job = _Job(plan.payload.SerializeToString(), plan.model.SerializeToString(),
               _topology_of(plan), small.kept, small.widths, source, tensor_plan, patience)
    with tempfile.TemporaryDirectory() as folder:
        expected = _one_process(job)
        pathlib.Path(folder, "expected").write_bytes(pickle.dumps(expected))
        start_processes(_rank, (plan.device_count, folder, job), plan.device_count)
        found = [_read(pathlib.Path(folder, f"found{rank}")) for rank in range(plan.device_count)]
    return _together(plan, found, set(expected[0][1]))


def start_processes(work: Callable[..., None], arguments: tuple[Any, ...], count: int) -> None:
    """Calls `work` with a number and `arguments` in each of `count` processes, and waits for them.
    A process that fails ends all; it says why in a file of its own."""
    torch_processes: Any = multiprocessing
    with contextlib.suppress(torch_processes.ProcessRaisedException,
                             torch_processes.ProcessExitedException):
        start_ranks(work, arguments, count)


def _topology_of(plan: Plan) -> bytes:
    made = messages.ClusterTopology(cluster=plan.payload.cluster)
    made.node_groups.add(node_group_id="check", device_kind="CPU check", node_count=1,
                         devices_per_node=plan.device_count, device_memory_bytes=1 << 40)
    made.link_tiers.add(tier_id="node", reach_device_count=plan.device_count)
    encoded: bytes = made.SerializeToString()
    return encoded


def _plan_of(job: _Job) -> Plan:
    payload = messages.PlanPayload.FromString(job.payload)
    return Plan(VerifiedPlan(job.payload, payload, ""), messages.ModelSpec.FromString(job.model),
                messages.ClusterTopology.FromString(job.topology))


def _one_process(job: _Job) -> list[tuple[float, dict[str, torch.Tensor]]]:
    """Returns loss and gradients of each step, by the model's own forward pass."""
    plan = _plan_of(job)
    model, layers = job.source.small(plan, job.kept, job.widths, _SEED)
    loss_function = job.source.loss_function()
    optimizer = torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE)
    made = []
    for step in range(STEPS):
        inputs, targets = job.source.batch(plan, step)
        optimizer.zero_grad()
        loss = loss_function(output_of(model, layers, inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
        made.append((loss.item(), {name: parameter.grad.clone()
                                   for name, parameter in model.named_parameters()
                                   if parameter.grad is not None}))
        optimizer.step()
    return made


def _rank(rank: int, count: int, folder: str, job: _Job) -> None:
    torch.set_num_threads(1)
    place = pathlib.Path(folder, f"found{rank}")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count,
        timeout=datetime.timedelta(seconds=job.patience))
    try:
        found = _differences(job, pickle.loads(pathlib.Path(folder, "expected").read_bytes()))
    except Error as error:
        place.write_bytes(pickle.dumps(_Found(fault=str(error), refusal=error)))
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = str(error).strip().splitlines() or [""]
        place.write_bytes(pickle.dumps(_Found(
            fault=f"{type(error).__name__} in {pathlib.Path(where.filename).name}: {line[0]}")))
        raise
    place.write_bytes(pickle.dumps(found))
    # A rank that leaves early would end the connections of the others.
    dist.barrier()
    dist.destroy_process_group()


def _differences(job: _Job, expected: list[tuple[float, dict[str, torch.Tensor]]]) -> _Found:
    plan = _plan_of(job)
    model, layers = job.source.small(plan, job.kept, job.widths, _SEED)
    run = apply(plan, model, job.source.loss_function(), tensor_plan=job.tensor_plan,
                layers=layers,
                optimizer=functools.partial(torch.optim.SGD, lr=_LEARNING_RATE), device="cpu",
                compile=False)
    loss, worst, parameter, names = 0.0, 0.0, "", set()
    for step, (their_loss, theirs) in enumerate(expected):
        ours = run.step(*job.source.batch(plan, step)).item()
        loss = _larger(loss, abs(ours - their_loss) / max(abs(their_loss), 1e-30))
        largest = max(float(one.abs().max()) for one in theirs.values())
        for name, one in run.named_parameters():
            if name not in theirs and one.grad is None:
                continue
            names.add(name)
            # Ranks of one mesh have the same parameters, so all of them gather.
            gradient = None if one.grad is None else run.whole(name, one.grad)
            difference = _difference(gradient, theirs.get(name), _FLOOR * largest)
            if _larger(worst, difference) is not worst:
                worst, parameter = difference, name
    return _Found(loss, worst, parameter, frozenset(names))


def _larger(worst: float, one: float) -> float:
    """Returns the larger number, NaN before any other."""
    return one if not one <= worst and not math.isnan(worst) else worst


def _difference(gradient: torch.Tensor | None, expected: torch.Tensor | None,
                floor: float) -> float:
    if gradient is None or expected is None or gradient.shape != expected.shape:
        return math.inf
    return float((gradient - expected).abs().max()) / max(float(expected.abs().max()), floor)


def _read(path: pathlib.Path) -> _Found:
    if not path.exists():
        return _Found(fault="ended without a result")
    found: _Found = pickle.loads(path.read_bytes())
    return found


def _together(plan: Plan, found: list[_Found], names: set[str]) -> Comparison:
    refusal = next((one.refusal for one in found if one.refusal is not None), None)
    if refusal is not None:
        raise refusal
    count = len(found)
    faults = [(rank, one.fault) for rank, one in enumerate(found) if one.fault]
    # Ranks that waited for a faulty one fail too; most say so.
    faults.sort(key=lambda fault: "onnection" in fault[1] or "ended without" in fault[1])
    if faults:
        rank, why = faults[0]
        return Comparison(count, len(names), math.nan, math.nan, "", rank, f"rank {rank}: {why}")
    missing = names - set().union(*(one.names for one in found))
    if missing:
        return Comparison(count, len(names), math.nan, math.inf, min(missing), 0,
                          f"no rank has a gradient of {min(missing)}")
    worst = 0
    for rank, one in enumerate(found):
        if _larger(found[worst].gradient, one.gradient) is not found[worst].gradient:
            worst = rank
    loss = functools.reduce(_larger, (one.loss for one in found), 0.0)
    return Comparison(count, len(names), loss, found[worst].gradient, found[worst].parameter, worst)
