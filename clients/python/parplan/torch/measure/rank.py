"""The measurements of one rank, in order: context, layers, optimizer, collectives, overlap. On
processors collectives come before layers, which are timed with messages there."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import torch

from parplan.errors import field_error
from parplan.torch.command.progress import Progress
from parplan.torch.measure.collectives import (CollectiveTime, Prices, measure_collectives,
                                                shapes_of)
from parplan.torch.measure.context import context_after_work, measure_context
from parplan.torch.measure.devices import device_of
from parplan.torch.measure.durations import medians_of
from parplan.torch.measure.job import Job
from parplan.torch.measure.layer_times import LayerMeasurement
from parplan.torch.measure.masters import COPIED
from parplan.torch.measure.models import Model, ModelSource
from parplan.torch.measure.optimizers import OPTIMIZERS, measure_optimizer
from parplan.torch.measure.overlap import measure_overlap
from parplan.torch.measure.passes import LONG
from parplan.torch.measure.request import COMPILED, Measured, MeasuredJob, Request
from parplan.torch.measure.sharding import can_measure_sharding, measure_sharding
from parplan.torch.measure.splits import SplitLayers
from parplan.torch.measure.steady import Bench, Spread

# Sizes of the optimizer's step beside the largest layer: what is left of it on eight ranks.
_SHARES = (1, 8)


def layer_ids(spec: Mapping[str, Any]) -> list[str]:
    """Returns the id of the definition of each layer of a `ModelSpec` in JSON."""
    return [run["layer_definition_id"] for run in spec.get("layer_runs", [])
            for _ in range(int(run["layer_count"]))]


def measure_rank(job: Job, argument: tuple[ModelSource, Mapping[str, Any], Request]
                 ) -> MeasuredJob:
    """Measures a model, a `ModelSpec` in JSON and a request, which `check_request` has accepted.
    All ranks of the job call it and get the times of the slowest."""
    source, spec, request = argument
    device = device_of(request.device_type, job.rank)
    # Before there is a model.
    context = measure_context(device, job)
    bench = Bench(device, request.effort, job)
    model = source.load()
    ids = layer_ids(spec)
    definitions = {one["layer_definition_id"]: one for one in spec["layer_definitions"]}
    progress = Progress(
        len(request.runtimes) * len(request.splits) * len(model.kinds) + 2
        + (len(shapes_of(job.count)) if job.count > 1 else 0),
        # Other ranks show nothing.
        None if job.is_first else io.StringIO())
    made = MeasuredJob({})
    try:
        prices: Prices | None = None
        if request.device_type == "cpu":
            prices = _measure_collectives(made, bench, request, progress)
        makers = [SplitLayers(model, split, job, device.place, "fake" if prices is None else "gloo")
                  for split in request.splits]
        for runtime in request.runtimes:
            layers = LayerMeasurement(model, ids, definitions, request, bench, runtime,
                                      progress.begin, prices)
            made.by_runtime[runtime] = layers.run(makers)
            _add_runtime_notes(made.by_runtime[runtime], runtime, request,
                               sends=prices is not None)
        # A driver loads kernels when they are first called, and keeps them.
        context = context_after_work(context, device, job)
        progress.begin("optimizer")
        _measure_optimizers(made, model, spec["optimizer"], bench)
        if request.device_type != "cpu":
            # Their groups take memory of the GPU, which is no part of the context.
            _measure_collectives(made, bench, request, progress)
        if job.count > 1:
            if can_measure_sharding(request.device_type, source.dtype, model):
                progress.begin("sharded layers")
                _measure_sharding(made, bench, model, request)
            else:
                progress.begin("products beside an all-reduce")
                _measure_overlap(made, bench, source.dtype)
    finally:
        progress.end()
    if context is not None:
        made.context_memory_bytes = context.context
        made.communicator_memory_bytes = context.communicator
        if context.communicator_count > 0:
            made.notes.append(f"{context.communicator_count} groups of all ranks took "
                              f"{context.communicators} bytes, no part of context_memory_bytes")
    made.notes.append(f"{job.count} ranks measured at once, with {torch.get_num_threads()} threads "
                      "each; times are those of the slowest rank")
    made.notes.extend(bench.clock_log.notes())
    return made


def _measure_collectives(made: MeasuredJob, bench: Bench, request: Request,
                         progress: Progress) -> Prices | None:
    """Measures collectives, if asked to. Returns their prices on processors, where split layers
    are timed with their messages."""
    if bench.job.count == 1:
        return None
    times = measure_collectives(bench, request.message_sizes, progress.begin)
    _add_collectives(made, times, request)
    return Prices(times) if times and request.device_type == "cpu" else None


def _add_runtime_notes(measured: Measured, runtime: str, request: Request, sends: bool) -> None:
    if any(degree > 1 for degree in request.tensor_parallel_degrees):
        measured.notes.append(
            "times of layers on tensor-parallel ranks are those with messages, less what the "
            "messages take alone" if sends else
            "layers on tensor-parallel ranks were timed with groups that send no messages, so "
            "their times are without collectives")
    if runtime == COMPILED and "selective" in request.policies:
        measured.notes.append("recomputation selective was left out: it is measured without "
                              "torch.compile alone")


def _measure_optimizers(made: MeasuredJob, model: Model, optimizer: str, bench: Bench) -> None:
    dtype = next(iter(model.layers[0].parameters())).dtype
    if dtype in COPIED:
        # It updates the parameters of 32 bits.
        dtype = torch.float32
    largest = max(kind.parameter_count for kind in model.kinds)
    for count in dict.fromkeys(max(largest // share, 1) for share in _SHARES):
        spread = measure_optimizer(optimizer, count, dtype, bench)
        made.optimizers.append({"optimizer": optimizer, "parameter_count": str(count),
                                **medians_of(spread)})


def _add_collectives(made: MeasuredJob, times: list[CollectiveTime], request: Request) -> None:
    def row(one: CollectiveTime, spread: Spread) -> dict[str, Any]:
        return {"collective": one.collective, "participant_count": one.participants,
                "rank_stride": one.stride, "message_size_bytes": str(one.size),
                **medians_of(spread)}

    made.collectives.extend(row(one, one.spread) for one in times)
    made.collectives_alone.extend(row(one, one.alone) for one in times if one.alone is not None)
    late = [one for one in times if one.spread.uncertainty > request.effort.target]
    if late:
        worst = max(one.spread.uncertainty for one in late)
        made.notes.append(f"{len(late)} of {len(times)} medians of collectives are not known to "
                          f"{100 * request.effort.target:.0f} %, the worst to {100 * worst:.0f} %")
    ratios = sorted(one.spread.median / one.alone.median for one in times
                    if one.alone is not None and one.alone.median > 0)
    if ratios:
        made.notes.append("with all groups of a shape at once a collective took "
                          f"{ratios[len(ratios) // 2]:.2f} times as long as alone (median of "
                          f"{len(ratios)})")


def _measure_sharding(made: MeasuredJob, bench: Bench, model: Model, request: Request) -> None:
    sizes = sorted(request.micro_batch_sizes)
    samples = sizes[len(sizes) // 2]
    times = measure_sharding(bench, model, samples)
    made.overlap_slowdown = times.slowdown
    made.notes.append(
        f"{LONG} layers of {samples} samples take {times.whole:.3g} s in both passes, "
        f"{times.sharded:.3g} s with sharded parameters, whose messages alone take "
        f"{times.messages:.3g} s; overlap_slowdown is 1 and what sharding adds over its messages, "
        "since on processors they run beside nothing")


def _measure_overlap(made: MeasuredJob, bench: Bench, dtype: torch.dtype) -> None:
    times = measure_overlap(bench, dtype)
    made.overlap_slowdown = times.slowdown
    device = bench.device
    made.notes.append(
        f"beside all-reduces of {device.reduced_bytes >> 20} MiB, products of "
        f"{device.product_side} x {device.product_side} took "
        f"{times.compute_beside / times.compute:.2f} times as long as alone; one all-reduce takes "
        f"{times.communication:.3g} s, the products {times.compute:.3g} s, both together "
        f"{times.together:.3g} s")


def check_request(model: Model, spec: Mapping[str, Any], request: Request) -> None:
    """Raises SpecInvalid for what cannot be measured, before anything is."""
    ids = layer_ids(spec)
    if len(ids) != len(model.layers):
        raise field_error("SPEC_INVALID", "--spec", f"has {len(ids)} layers, and the model has "
                          f"{len(model.layers)}; give a file of the same layers in order")
    # A definition has one time, so its layers must be equal.
    seen: dict[str, int] = {}
    for place, kind in enumerate(model.kinds):
        for index in kind.indices:
            if seen.setdefault(ids[index], place) != place:
                raise field_error("SPEC_INVALID", "--spec", f"layer {index} is a {ids[index]}, but "
                                  "differs from an earlier one in its modules, parameters or "
                                  "inputs; give it a definition of its own")
    optimizer = spec.get("optimizer", "")
    if optimizer not in OPTIMIZERS:
        raise field_error("SPEC_INVALID", "--spec",
                          f"optimizer {optimizer or '(none)'} is not known to this release")
    for degree in request.tensor_parallel_degrees:
        if request.ranks % degree:
            raise field_error("SPEC_INVALID", "--tensor-parallel",
                              f"{degree} does not divide the {request.ranks} ranks of --ranks")
    if request.device_type == "cuda":
        count = torch.cuda.device_count()
        if request.ranks > count:
            raise field_error("SPEC_INVALID", "--ranks",
                              f"{request.ranks} ranks need as many GPUs, and this machine has "
                              f"{count}")
