"""A verified plan: its layers, and the groups, passes and reshards of each rank.

    plan = parplan.Plan.load(envelope, trust, model, topology, job_id="4711")
    for layer in plan.layers:
        print(layer.index, layer.strategy)
    rank = plan.rank(my_rank)
    for one in rank.passes:              # forward and backward passes of a step, in order
        ...

A value: it never changes, and threads may share it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
from typing import Any

from parplan.envelope import Audience, SignedPlan, TrustBundle, VerifiedPlan, accept, verify
from parplan.envelope.verifier import time_of
from parplan.errors import Error, make_error
from parplan.plan_contents import (Layer, PlanContents, Stage, read_contents,
                                   read_recompute_policy)
from parplan.program import Group, RankProgram, make_rank_program
from parplan.program.rank_program import check_divisions, make_all_groups
from parplan.strategy import Recompute, RecomputePolicy, Schedule
from parplan.wire import digests, json_file, messages

_NANOSECONDS = 1_000_000_000


class Plan:
    """A plan that was verified, and made for the given model and devices."""

    def __init__(self, verified: VerifiedPlan, model: Any, topology: Any) -> None:
        """Checks a verified plan against a `ModelSpec` and a `ClusterTopology`; `load` is for
        files. Raises SpecInvalid if it was made for another model, TopologyMismatch for other
        devices, and PayloadMalformed or SpecInvalid naming the field if no program can run it."""
        payload = verified.payload
        self._verified = verified
        self._model = model
        digest = digests.model_digest(model)
        if payload.model_digest != digest:
            raise _mismatch("SPEC_INVALID", "model_digest",
                            f"the plan was made for another model ({payload.model_digest} is not "
                            f"{digest}); give the model it was asked for")
        digest = digests.topology_digest(topology)
        if payload.topology_digest != digest:
            raise _mismatch("TOPOLOGY_MISMATCH", "topology_digest",
                            f"the plan was made for other devices ({payload.topology_digest} is "
                            f"not {digest}); ask for a plan for these")
        self._contents = read_contents(payload)
        self._recompute_policy = read_recompute_policy(payload)
        device_count = sum(group.node_count * group.devices_per_node
                           for group in topology.node_groups)
        if self._contents.device_count != device_count:
            raise _mismatch("TOPOLOGY_MISMATCH", "device_count",
                            f"the plan is for {self._contents.device_count} devices, the topology "
                            f"has {device_count}")
        definitions = {one.layer_definition_id: one for one in model.layer_definitions}
        self._definitions = [definitions[run.layer_definition_id] for run in model.layer_runs
                             for _ in range(run.layer_count)]
        self._sequence_lengths = [one.sequence_length for one in self._definitions]
        check_divisions(self._contents, self._sequence_lengths)

    @classmethod
    def load(cls, envelope: bytes | str, trust: bytes | str, model: bytes | str,
             topology: bytes | str, *, job_id: str = "", node_name: str = "",
             time: float | None = None) -> Plan:
        """Verifies a plan. All four are contents of files: `envelope` (DSSE), `trust` (JWKS),
        `model` and `topology` (JSON, as they were asked with). `job_id` and `node_name`, unless
        empty, must be those the plan is for; `time` is in seconds since 1970, by default now.
        Raises the errors of `parplan.envelope.verify` and of the constructor, and SpecInvalid or
        PayloadMalformed naming the field for a file that breaks a rule."""
        bundle = TrustBundle.from_json(trust)
        model_message = json_file.parse(model, "ModelSpec", "model")
        topology_message = json_file.parse(topology, "ClusterTopology", "topology")
        return cls.verify(SignedPlan.from_json(envelope), bundle, model_message, topology_message,
                          job_id=job_id, node_name=node_name, time=time)

    @classmethod
    def verify(cls, signed_plan: SignedPlan, trust: TrustBundle, model: Any, topology: Any, *,
               job_id: str = "", node_name: str = "", time: float | None = None) -> Plan:
        """Verifies an envelope against a bundle, with messages of model and topology. Errors as for
        `load`."""
        audience = Audience(cluster=topology.cluster, job_id=job_id, node_name=node_name,
                            topology_digest=digests.topology_digest(topology))
        now = None if time is None else round(time * _NANOSECONDS)
        return cls(verify(signed_plan, trust, audience, now), model, topology)

    @classmethod
    def load_files(cls, envelope: str | os.PathLike[str], trust: str | os.PathLike[str],
                   model: str | os.PathLike[str], topology: str | os.PathLike[str], *,
                   trust_memory: str | os.PathLike[str] = "", **options: Any) -> Plan:
        """Reads four files and calls `load`; `options` are those of `load`. `trust_memory`, by
        default the environment variable PARPLAN_TRUST_MEMORY, is the file that remembers the bundle
        accepted last (`parplan.envelope.accept`): an older one raises SignatureInvalid."""
        texts = [pathlib.Path(path).read_bytes() for path in (envelope, trust, model, topology)]
        accept(texts[1], trust_memory or os.environ.get("PARPLAN_TRUST_MEMORY", ""))
        return cls.load(*texts, **options)

    @property
    def name(self) -> str:
        """`clusters/{cluster}/plans/{plan}`."""
        return str(self._verified.payload.plan)

    @property
    def payload(self) -> Any:
        """The signed `PlanPayload`."""
        return self._verified.payload

    @property
    def digest(self) -> str:
        """SHA-256 of the signed bytes, in hexadecimal: evidence about a plan names it by this."""
        return hashlib.sha256(self._verified.payload_bytes).hexdigest()

    @property
    def model(self) -> Any:
        """The `ModelSpec` that the plan was made for."""
        return self._model

    @property
    def key_id(self) -> str:
        """Id of the trusted key that signed the plan."""
        return self._verified.key_id

    @property
    def contents(self) -> PlanContents:
        return self._contents

    @property
    def device_count(self) -> int:
        return self._contents.device_count

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers, in the order of the model."""
        return self._layers

    @functools.cached_property
    def _layers(self) -> tuple[Layer, ...]:
        return self._contents.layers

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self._contents.stages

    @property
    def pipeline_parallel_degree(self) -> int:
        return self._contents.pipeline_parallel_degree

    @property
    def virtual_stage_count(self) -> int:
        return self._contents.virtual_stage_count

    @property
    def schedule(self) -> Schedule:
        return self._contents.schedule

    @property
    def global_batch_size(self) -> int:
        """Samples of an optimizer step over the whole job."""
        return self._contents.global_batch_size

    @property
    def micro_batch_count(self) -> int:
        return self._contents.micro_batch_count

    @property
    def recompute_policy(self) -> RecomputePolicy | None:
        """The parts that layers with selective recomputation compute again, or None without any."""
        is_selective = any(layer.strategy.recompute == Recompute.SELECTIVE
                           for layer in self.layers)
        return self._recompute_policy if is_selective else None

    @property
    def predicted_step_seconds(self) -> float:
        prediction = self._verified.payload.prediction
        if prediction.step_seconds > 0:
            return float(prediction.step_seconds)
        duration = prediction.step_duration
        return float(duration.seconds + duration.nanos / _NANOSECONDS)

    @property
    def predicted_peak_memory_bytes(self) -> int:
        return int(self._verified.payload.prediction.peak_memory_bytes)

    @property
    def expire_time(self) -> int:
        """Seconds since 1970 from which verifiers refuse the plan."""
        return (time_of(self._verified.payload.expire_time) or 0) // _NANOSECONDS

    def layer_kind(self, index: int) -> str:
        """Returns the `LayerKind` of a layer, for example "LAYER_KIND_DECODER"."""
        return messages.enum_name("LayerKind", self._definitions[index].kind)

    def definition(self, index: int) -> Any:
        """Returns the `LayerDefinition` of a layer."""
        return self._definitions[index]

    @property
    def has_tied_table(self) -> bool:
        """Whether the head uses the table of the embedding."""
        return bool(self._definitions[-1].tied_embedding)

    def rank(self, rank: int) -> RankProgram:
        """Returns the groups, layers, reshards and passes of a rank, counted from 0. Raises
        SpecInvalid if there is none."""
        return make_rank_program(self._contents, self._sequence_lengths, rank, self.has_tied_table)

    def groups(self) -> tuple[Group, ...]:
        """Returns the groups of all ranks, each once, in an order in which all ranks of the job can
        make them together, as torch.distributed.new_group requires. Takes time proportional to the
        number of ranks in all of them."""
        return self._all_groups

    @functools.cached_property
    def _all_groups(self) -> tuple[Group, ...]:
        return tuple(sorted(make_all_groups(self._contents, self.has_tied_table)))


def _mismatch(reason: str, field: str, why: str) -> Error:
    return make_error("FAILED_PRECONDITION", reason, f"{field}: {why}", {"field": field})
