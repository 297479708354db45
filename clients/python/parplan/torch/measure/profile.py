"""Measurements of a model as a profile of the contract."""

from __future__ import annotations

import dataclasses
import datetime
import math
from typing import Any

import torch

from parplan.errors import field_error
from parplan.torch.command.progress import Progress
from parplan.torch.measure.collectives import measure_collectives
from parplan.torch.measure.kept import measure_kept
from parplan.torch.measure.models import Model
from parplan.torch.measure.optimizers import OPTIMIZERS, measure_optimizer
from parplan.torch.measure.passes import LONG, measure_passes
from parplan.torch.measure.steady import Effort, Spread
from parplan.wire import json_file, messages

_NANOSECONDS = 10**9


@dataclasses.dataclass(frozen=True)
class Request:
    """What to measure. `ranks` below 2 leaves collectives out."""
    device_kind: str
    devices_per_node: int
    micro_batch_sizes: tuple[int, ...]
    ranks: int
    message_sizes: tuple[int, ...]
    effort: Effort
    is_compiled: bool


def layer_ids(spec: Any) -> list[str]:
    """Returns the id of the definition of each layer of a `ModelSpec`."""
    return [run.layer_definition_id for run in spec.layer_runs for _ in range(run.layer_count)]


def measure_profile(model: Model, spec: Any, request: Request, device: torch.device) -> Any:
    """Returns a `Profile` of the layers of `spec`, the project's model file, which are those of
    `model` in the same order. Raises SpecInvalid if they cannot be."""
    ids = layer_ids(spec)
    _check(model, ids)
    progress = Progress(len(model.kinds) * (len(request.micro_batch_sizes) + 1) + 2)
    definitions = {one.layer_definition_id: one for one in spec.layer_definitions}
    notes = ["kept bytes are those of the modules without torch.compile"] * request.is_compiled
    timings, memories = [], []
    try:
        for kind in model.kinds:
            # The last layer ends with the loss.
            computes_loss = len(ids) - 1 in kind.indices
            names = list(dict.fromkeys(ids[index] for index in kind.indices))
            progress.begin(f"memory of {names[0]}")
            layers = model.on_device(kind, device, LONG if kind.is_chainable else 1)
            kept = measure_kept(layers, kind, 1, device, computes_loss)
            # Beside a layer alone, MemTracker counts its output, which the next layer keeps.
            if kind.is_chainable and kept.tracked is not None and abs(
                    kept.tracked - kept.nothing_recomputed) > 0.01 * kept.nothing_recomputed:
                notes.append(f"{names[0]} keeps {kept.nothing_recomputed} bytes by saved tensors "
                             f"and {kept.tracked} by MemTracker")
            for name in names:
                memories.append({
                    "layer_definition_id": name, "tensor_parallel_degree": 1,
                    "parameter_count": str(kind.parameter_count),
                    "activation_bytes_per_sample": str(kept.nothing_recomputed),
                    "checkpoint_bytes_per_sample": str(kept.full), "origin": "ORIGIN_MEASURED"})
            if request.is_compiled:
                # In place, so that a layer remains a module.
                for one in layers:
                    one.compile()
            for samples in request.micro_batch_sizes:
                progress.begin(f"{names[0]}, {samples} samples")
                times = measure_passes(layers, kind, samples, device, computes_loss, request.effort)
                if times.note:
                    notes.append(f"{names[0]}, {samples} samples: {times.note}")
                for name in names:
                    timings.append({
                        "layer_definition_id": name, "tensor_parallel_degree": 1,
                        "micro_batch_size": samples,
                        "forward_duration": _text(times.forward.median),
                        "backward_duration": _text(times.backward.median),
                        "forward_duration_p90": _text(times.forward.p90),
                        "sample_count": times.forward.count,
                        "origin": "ORIGIN_DERIVED" if kind.is_chainable else "ORIGIN_MEASURED"})
        optimizer = messages.enum_name("Optimizer", spec.optimizer)
        count = max(kind.parameter_count for kind in model.kinds)
        progress.begin("optimizer")
        step = _step(model, optimizer, count, device, request.effort)
        progress.begin("collectives")
        collectives = _collectives(request, notes)
    finally:
        progress.end()
    made = {
        "provenance": {
            "agent": "parplan-torch", "notes": notes,
            "library_versions": [{"library": "torch", "version": torch.__version__}],
            "measure_time": datetime.datetime.now(datetime.timezone.utc).isoformat().replace(
                "+00:00", "Z")},
        "device_kind": request.device_kind, "devices_per_node": request.devices_per_node,
        "precision": messages.enum_name("Precision", spec.precision),
        "layer_definitions": [json_file.to_dict(definitions[name]) for name in dict.fromkeys(ids)],
        "layer_timings": timings, "layer_memories": memories, "collective_timings": collectives,
        "optimizer_timings": [{"optimizer": optimizer, "parameter_count": str(count),
                               **_medians(step)}],
        "runtime_id": "torch-compile" if request.is_compiled else "torch"}
    return json_file.from_dict(made, "Profile", "profile")


def _check(model: Model, ids: list[str]) -> None:
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


def _step(model: Model, optimizer: str, count: int, device: torch.device, effort: Effort) -> Spread:
    if optimizer not in OPTIMIZERS:
        raise field_error("SPEC_INVALID", "--spec", f"{optimizer} is not known to this release")
    dtype = next(iter(model.layers[0].parameters())).dtype
    return measure_optimizer(optimizer, count, dtype, device, effort)


def _collectives(request: Request, notes: list[str]) -> list[dict[str, Any]]:
    if request.ranks < 2:
        return []
    times = measure_collectives(request.ranks, request.message_sizes, request.effort.target, 4)
    late = [one for one in times if one.spread.uncertainty > request.effort.target]
    if late:
        worst = max(one.spread.uncertainty for one in late)
        notes.append(f"{len(late)} of {len(times)} medians of collectives are not known to "
                     f"{100 * request.effort.target:.0f} %, the worst to {100 * worst:.0f} %")
    return [{"collective": one.collective, "participant_count": one.participants,
             "rank_stride": one.stride, "message_size_bytes": str(one.size),
             **_medians(one.spread)} for one in times]


def _medians(spread: Spread) -> dict[str, Any]:
    return {"median_duration": _text(spread.median), "p90_duration": _text(spread.p90),
            "sample_count": spread.count, "origin": "ORIGIN_MEASURED"}


def _text(seconds: float) -> str:
    """Returns a duration in JSON, at least a nanosecond."""
    nanoseconds = max(1, math.ceil(seconds * _NANOSECONDS))
    return f"{nanoseconds // _NANOSECONDS}.{nanoseconds % _NANOSECONDS:09d}s"
