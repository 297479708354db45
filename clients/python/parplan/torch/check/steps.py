"""The collectives of a step of the whole plan, counted without its devices.

A rank runs with tensors that have sizes and no contents, in a job of as many ranks as the plan has
whose collectives do nothing. Ranks of one place of the pipeline do the same, and so do places with
the same layers, so one of each runs, in a process of its own.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import pathlib
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from parplan import traffic
from parplan.envelope import VerifiedPlan
from parplan.errors import Error
from parplan.plan import Plan
from parplan.torch import experts
from parplan.torch.check.fake_collectives import know_collectives
from parplan.torch.check.models import Source
from parplan.torch.check.numerics import start_processes
from parplan.torch.precision import parameter_type
from parplan.torch.run import apply
from parplan.wire import messages


@dataclasses.dataclass(frozen=True)
class Row:
    """Calls of one kind in one group of ranks in a step of one rank: those that the cost model
    prices for the runtime `torch`, and those that were counted. `not_priced` of the latter are such
    as the definition of a layer does not show (`Traffic.unpriced`); without them the two must be
    equal. `purposes` share the group."""
    rank: int
    kind: str
    ranks: str
    purposes: tuple[str, ...]
    priced: int
    counted: int
    not_priced: int

    @property
    def is_equal(self) -> bool:
        return self.counted - self.not_priced == self.priced


@dataclasses.dataclass(frozen=True)
class Counted:
    """The rows of the ranks that ran, which stand for all, and the sentences that say which calls
    are not priced. `fault` says why a rank has no result; `left_out` says why none was asked
    for."""
    rank_count: int
    ranks: tuple[int, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    fault: str = ""
    left_out: str = ""

    @property
    def is_equal(self) -> bool:
        return not self.fault and all(row.is_equal for row in self.rows)

    @property
    def calls(self) -> int:
        return sum(row.counted for row in self.rows)


@dataclasses.dataclass(frozen=True)
class Job:
    """The data with which a process runs a rank of a verified plan."""
    payload: bytes
    model: bytes
    topology: bytes
    source: Source
    tensor_plan: dict[str, str] | None

    @classmethod
    def of(cls, plan: Plan, topology: Any, source: Source,
           tensor_plan: dict[str, str] | None) -> Job:
        """Returns the job of a plan, made for the `ClusterTopology`."""
        return cls(plan.payload.SerializeToString(), plan.model.SerializeToString(),
                   topology.SerializeToString(), source, tensor_plan)

    def plan(self) -> Plan:
        """Returns the plan once more."""
        payload = messages.PlanPayload.FromString(self.payload)
        return Plan(VerifiedPlan(self.payload, payload, ""),
                    messages.ModelSpec.FromString(self.model),
                    messages.ClusterTopology.FromString(self.topology))


@dataclasses.dataclass(frozen=True)
class _Seen:
    """The counts of a rank: calls, and those of them behind the last backward pass."""
    calls: collections.Counter[Any] = dataclasses.field(default_factory=collections.Counter)
    late: collections.Counter[Any] = dataclasses.field(default_factory=collections.Counter)
    fault: str = ""
    left_out: str = ""
    refusal: Error | None = None


def count_step(plan: Plan, topology: Any, source: Source,
               tensor_plan: dict[str, str] | None = None,
               begin: Callable[[str], None] = lambda _: None) -> Counted:
    """Counts the collectives of the second step of `plan`, made for the `ClusterTopology`.
    `begin` is told of each rank that starts. Raises the errors of `parplan.torch.apply` for a plan
    that it refuses."""
    job = Job.of(plan, topology, source, tensor_plan)
    ranks = ranks_that_differ(plan)
    found: list[_Seen] = []
    at_once = max(1, min(len(os.sched_getaffinity(0)), len(ranks)))
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(ranks), at_once):
            some = ranks[start:start + at_once]
            begin(f"collectives of rank {', '.join(map(str, some))}")
            start_processes(_run, (tuple(some), folder, job), len(some))
            found += [_read(pathlib.Path(folder, f"seen{rank}")) for rank in some]
    refusal = next((one.refusal for one in found if one.refusal is not None), None)
    if refusal is not None:
        raise refusal
    faults = [f"rank {rank}: {one.fault}" for rank, one in zip(ranks, found) if one.fault]
    if faults:
        return Counted(plan.device_count, tuple(ranks), (), (), faults[0])
    left_out = next((one.left_out for one in found if one.left_out), "")
    if left_out:
        return Counted(plan.device_count, (), (), (), left_out=left_out)
    rows = [row for rank, seen in zip(ranks, found) for row in rows_of(plan, rank, seen)]
    return Counted(plan.device_count, tuple(ranks), tuple(rows), _notes(plan, rows))


def dtype_of(plan: Plan) -> torch.dtype:
    """Returns the type of the parameters of a plan's model. Raises SpecInvalid for a precision that
    this release does not know."""
    return parameter_type(plan.model.precision)


def ranks_that_differ(plan: Plan) -> list[int]:
    """Returns the first rank of each place of the pipeline that has other layers than those before
    it. The first and the last place always count."""
    degree, per_place = plan.pipeline_parallel_degree, plan.stages[0].rank_count
    seen: set[Any] = set()
    made = []
    for place in range(degree):
        key: list[Any] = [place == 0, place + 1 == degree]
        for index in range(place, len(plan.stages), degree):
            # The next stage decides how activations leave this one.
            behind = plan.stages[index + 1].layers[0].strategy if index + 1 < len(
                plan.stages) else None
            key.append((tuple((layer.layer_definition_id, layer.strategy)
                              for layer in plan.stages[index].layers), behind))
        if tuple(key) not in seen:
            seen.add(tuple(key))
            made.append(place * per_place)
    return made


def rows_of(plan: Plan, rank: int, seen: Any) -> list[Row]:
    """Returns what `seen` (with `calls` and `late`) counted beside what is priced for `rank`."""
    # Those behind the last backward pass are compared alone.
    priced: dict[bool, collections.Counter[Any]] = {False: collections.Counter(),
                                                    True: collections.Counter()}
    unpriced: dict[bool, collections.Counter[Any]] = {False: collections.Counter(),
                                                      True: collections.Counter()}
    purposes: dict[Any, list[str]] = collections.defaultdict(list)
    maybe: dict[Any, list[str]] = collections.defaultdict(list)
    for one in traffic.traffic_of(plan, rank):
        for sums, counts, whose in ((priced, one.priced, purposes),
                                    (unpriced, one.unpriced, maybe)):
            for kind, count in counts.items():
                sums[one.is_late][kind, one.ranks] += count
                whose[kind, one.ranks].append(one.purpose)
    rows = []
    for key in dict.fromkeys([*priced[False], *priced[True], *seen.calls]):
        kind, ranks = key
        more = 0
        for is_late, counted in ((True, seen.late[key]),
                                 (False, seen.calls[key] - seen.late[key])):
            more += min(max(counted - priced[is_late][key], 0), unpriced[is_late][key])
        names = dict.fromkeys(purposes[key] + (maybe[key] if more else []))
        rows.append(Row(rank, kind, traffic.ranks_text(ranks), tuple(names) or ("unexpected",),
                        priced[False][key] + priced[True][key], seen.calls[key], more))
    return rows


def _notes(plan: Plan, rows: list[Row]) -> tuple[str, ...]:
    """Returns the sentences about calls that were counted and are not priced."""
    found = {(row.rank, row.kind, row.ranks) for row in rows if row.not_priced}
    return tuple(dict.fromkeys(
        one.note for rank in dict.fromkeys(row.rank for row in rows)
        for one in traffic.traffic_of(plan, rank) for kind in one.unpriced
        if (rank, kind, traffic.ranks_text(one.ranks)) in found))


def _run(number: int, ranks: tuple[int, ...], folder: str, job: Job) -> None:
    rank = ranks[number]
    place = pathlib.Path(folder, f"seen{rank}")
    torch.set_num_threads(1)
    try:
        seen = _count(rank, job)
    except Error as error:
        place.write_bytes(pickle.dumps(_Seen(fault=str(error), refusal=error)))
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = str(error).strip().splitlines() or [""]
        place.write_bytes(pickle.dumps(_Seen(
            fault=f"{type(error).__name__} in {pathlib.Path(where.filename).name}: {line[0]}")))
        raise
    place.write_bytes(pickle.dumps(seen))


def _count(rank: int, job: Job) -> _Seen:
    plan = job.plan()
    begin_fake_job(plan.device_count, rank)
    return count_here(plan, job.source, job.tensor_plan)


def begin_fake_job(rank_count: int, rank: int) -> None:
    """Makes this process one rank of a job whose collectives do nothing."""
    # Importing it makes the backend known.
    from torch.testing._internal.distributed.fake_pg import FakeStore
    store: Any = FakeStore()
    dist.init_process_group("fake", store=store, rank=rank, world_size=rank_count)
    know_collectives()


def count_here(plan: Plan, source: Source, tensor_plan: dict[str, str] | None) -> _Seen:
    """Counts the second step of this process's rank in a job as `begin_fake_job` makes it."""
    from parplan.torch.check.counting import Counter
    source.load_libraries()
    with without_contents(), without_choices():
        model = source.whole(plan.model, dtype_of(plan))
        layers = source.layers_in(model, plan)
        for layer in layers:
            found = experts.experts_of(layer)
            if found is None:
                continue
            if not experts.is_stacked(found, next(found.parameters()).shape[0]):
                return _Seen(left_out="tokens without contents choose no experts, and those of "
                             "this model are modules of their own")
            vars(found)["forward"] = _AnyExperts(found)
        run = apply(plan, model, source.loss_function(), layers=layers, tensor_plan=tensor_plan,
                    device="cpu", compile=False)
        inputs, targets = batch_without_contents(source, plan)
        # The first step may also set up what later ones use.
        run.step(inputs, targets)
        counter = Counter()
        with counter:
            run.step(inputs, targets)
    return _Seen(counter.calls, counter.late)


class _AnyExperts:
    """Takes the place of the call of stacked experts: its result and gradients depend on the same
    tensors, and not on what tokens chose."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __call__(self, tokens: torch.Tensor, numbers: torch.Tensor,
                 weights: torch.Tensor) -> torch.Tensor:
        scale = torch.stack([one.sum() for one in self._module.parameters(recurse=False)]).sum()
        return tokens * scale.to(tokens.dtype) * weights.sum(-1, keepdim=True).to(tokens.dtype)


@contextlib.contextmanager
def without_choices() -> Iterator[None]:
    """Within it equally many tokens go to the ranks that share experts, whatever they choose."""
    before = experts.rows_for, experts.numbers_of

    def rows_for(ranks: torch.Tensor, count: int) -> torch.Tensor:
        return ranks.new_empty(count)

    def numbers_of(sizes: torch.Tensor, rows: torch.Tensor) -> list[int]:
        count = sizes.numel()
        return [rows.numel() // count + (one < rows.numel() % count) for one in range(count)]

    module: Any = experts
    module.rows_for, module.numbers_of = rows_for, numbers_of
    try:
        yield
    finally:
        module.rows_for, module.numbers_of = before


def batch_without_contents(source: Source, plan: Plan) -> list[torch.Tensor]:
    """Returns inputs and targets that have the sizes of a global batch. Numbers with a point have
    the type of the model's parameters."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    with unset_fake_temporarily():  # type: ignore[no-untyped-call,unused-ignore]
        sample = source.batch(plan, 0, 1)
    dtypes = [dtype_of(plan) if one.is_floating_point() else one.dtype for one in sample]
    return [torch.empty((plan.global_batch_size, *one.shape[1:]), dtype=dtype)
            for one, dtype in zip(sample, dtypes)]


@contextlib.contextmanager
def without_contents() -> Iterator[None]:
    """Within it new tensors have sizes and no contents, but for those that device meshes read their
    ranks from; models of transformers draw no values, which some read; and modules stay on their
    device, where they take no memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
    make_mesh, move = DeviceMesh.__init__, nn.Module.to

    def make(self: DeviceMesh, *args: Any, **kwargs: Any) -> None:
        with unset_fake_temporarily():  # type: ignore[no-untyped-call,unused-ignore]
            make_mesh(self, *args, **kwargs)

    def stay(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        return self

    mesh: Any = DeviceMesh
    module: Any = nn.Module
    models: Any = getattr(sys.modules.get("transformers"), "PreTrainedModel", None)
    draw = getattr(models, "initialize_weights", None)
    mesh.__init__, module.to = make, stay
    if draw is not None:
        models.initialize_weights = lambda *_, **__: None
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            yield
    finally:
        mesh.__init__, module.to = make_mesh, move
        if draw is not None:
            models.initialize_weights = draw


def _read(path: pathlib.Path) -> _Seen:
    if not path.exists():
        return _Seen(fault="ended without a result")
    found: _Seen = pickle.loads(path.read_bytes())
    return found
