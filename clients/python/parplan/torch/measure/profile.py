"""Measurements of a model as profiles of the contract."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

import torch

from parplan.torch.measure.job import run_job
from parplan.torch.measure.models import ModelSource
from parplan.torch.measure.rank import check_request, layer_ids, measure_rank
from parplan.torch.measure.request import Measured, MeasuredJob, Request
from parplan.wire import json_file, messages


@dataclasses.dataclass(frozen=True)
class Profiles:
    """Profiles by runtime, and what was measured beside what a profile has."""
    by_runtime: Mapping[str, Any]
    details: Mapping[str, Any]


def measure_profiles(source: ModelSource, spec: Any, request: Request) -> Profiles:
    """Returns a `Profile` for each runtime, of the layers of `spec`, the project's model file, which
    are those of the model in the same order. Starts `request.ranks` processes. Raises SpecInvalid
    for what cannot be measured."""
    document = json_file.to_dict(spec)
    document["optimizer"] = messages.enum_name("Optimizer", spec.optimizer)
    check_request(source.load(), document, request)
    made: MeasuredJob = run_job(request.ranks, measure_rank, (source, document, request),
                                device_type=request.device_type, threads=request.threads)
    return Profiles(
        {runtime: _profile(spec, request, runtime, measured, made)
         for runtime, measured in made.by_runtime.items()},
        {"recomputation": [row for one in made.by_runtime.values() for row in one.recomputations],
         "layer_collectives": [row for one in made.by_runtime.values()
                               for row in one.layer_collectives],
         "collectives_alone": made.collectives_alone,
         "communicator_memory_bytes": made.communicator_memory_bytes})


def _profile(spec: Any, request: Request, runtime: str, measured: Measured,
             job: MeasuredJob) -> Any:
    definitions = {one.layer_definition_id: one for one in spec.layer_definitions}
    ids = dict.fromkeys(layer_ids(json_file.to_dict(spec)))
    made: dict[str, Any] = {
        "provenance": {
            "agent": "parplan-torch", "notes": [*measured.notes, *job.notes],
            "library_versions": _libraries(request.device_type),
            "measure_time": datetime.datetime.now(datetime.timezone.utc).isoformat().replace(
                "+00:00", "Z")},
        "device_kind": request.device_kind, "devices_per_node": request.devices_per_node,
        "precision": messages.enum_name("Precision", spec.precision),
        "layer_definitions": [json_file.to_dict(definitions[name]) for name in ids],
        "layer_timings": measured.timings, "layer_memories": measured.memories,
        "collective_timings": job.collectives, "optimizer_timings": job.optimizers,
        "runtime_id": runtime}
    if job.overlap_slowdown is not None:
        made["overlap_slowdown"] = job.overlap_slowdown
    if job.context_memory_bytes is not None:
        made["context_memory_bytes"] = str(job.context_memory_bytes)
    if job.communicator_memory_bytes is not None:
        made["communicator_memory_bytes"] = str(job.communicator_memory_bytes)
    return json_file.from_dict(made, "Profile", "profile")


def _libraries(device_type: str) -> list[dict[str, str]]:
    versions = {"torch": str(torch.__version__)}
    if device_type == "cuda":
        versions["cuda"] = str(torch.version.cuda)
        nccl: Any = torch.cuda.nccl
        cudnn: Any = torch.backends.cudnn
        versions["nccl"] = ".".join(map(str, nccl.version()))
        versions["cudnn"] = str(cudnn.version())
    return [{"library": name, "version": version} for name, version in versions.items()]
