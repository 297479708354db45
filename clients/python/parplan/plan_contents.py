"""The contents of a plan: its stages, layers and strategies, read from a signed payload."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, TypeVar

from parplan.errors import Error, field_error
from parplan.strategy import (ContextKind, Recompute, RecomputeModule, RecomputePolicy, Schedule,
                              Sharding, Strategy)
from parplan.wire import messages

# kMaxDeviceCount and kMaxLayerCount of planner/model/planning_problem.h.
MAX_DEVICE_COUNT = 262144
MAX_LAYER_COUNT = 16384
_STRATEGY_FIELDS = {
    "tensor_parallel_degree", "data_parallel_degree", "sharding_level", "rank_order",
    "recompute_level", "sequence_parallel", "context_parallel_degree", "expert_parallel_degree",
    "context_kind", "recompute_modules", "expert_tensor_parallel_degree",
    "context_exchange_degree", "sharding_degree"}
_Enum = TypeVar("_Enum", bound=enum.IntEnum)


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer, counted from 0, on the ranks first_rank to first_rank + rank_count - 1."""
    index: int
    layer_definition_id: str
    stage_index: int
    first_rank: int
    rank_count: int
    strategy: Strategy

    def ranks(self) -> range:
        return range(self.first_rank, self.first_rank + self.rank_count)


@dataclasses.dataclass(frozen=True)
class Stage:
    """A pipeline stage, counted from 0, with its layers in the order of the model. A stage between
    the first and the last may have none: it hands on what it receives."""
    index: int
    first_rank: int
    rank_count: int
    layers: tuple[Layer, ...]

    def ranks(self) -> range:
        return range(self.first_rank, self.first_rank + self.rank_count)


@dataclasses.dataclass(frozen=True)
class PlanContents:
    """Stages follow each other; with `virtual_stage_count` above 1 stage j is on the ranks of stage
    j - pipeline_parallel_degree."""
    device_count: int
    global_batch_size: int
    micro_batch_count: int
    schedule: Schedule
    virtual_stage_count: int
    stages: tuple[Stage, ...]
    # Micro-batches that go through one virtual stage before the next takes its turn; 0 for as many
    # as the pipeline has devices.
    micro_batch_group_size: int = 0

    @property
    def pipeline_parallel_degree(self) -> int:
        """Number of devices that a sample passes through."""
        return len(self.stages) // self.virtual_stage_count

    @property
    def micro_batch_size(self) -> int:
        """Number of samples of a micro-batch over all ranks of a stage."""
        return self.global_batch_size // self.micro_batch_count

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(layer for stage in self.stages for layer in stage.layers)


def read_contents(payload: Any) -> PlanContents:
    """Returns the contents of a `PlanPayload`. Raises PayloadMalformed naming the field if there is
    no stage or too many, the first or the last has no layers, ranks or layers are not consecutive
    from 0, degrees are below 1 or their product is not the number of ranks of the stage, a rank
    order does not name both axes, an enum value is unknown, the micro-batch count does not divide
    the batch, or the virtual stages do not divide the stages or need another schedule."""
    if payload.global_batch_size < 1:
        raise _malformed("global_batch_size", "must be at least 1")
    if payload.micro_batch_count < 1 or payload.global_batch_size % payload.micro_batch_count:
        raise _malformed("micro_batch_count", "must divide global_batch_size")
    schedule = _enum(Schedule, payload.schedule, "schedule", Schedule.ONE_FORWARD_ONE_BACKWARD)
    if not payload.stages:
        raise _malformed("stages", "a plan has at least one stage")
    if len(payload.stages) > MAX_LAYER_COUNT:
        raise _malformed("stages", f"must not be more than {MAX_LAYER_COUNT}")
    for index in (0, len(payload.stages) - 1):
        if not payload.stages[index].layer_runs:
            raise _malformed(f"stages[{index}].layer_runs",
                             "the first and the last stage of a plan have at least one layer")
    virtual_stage_count = max(payload.virtual_stage_count, 1)
    if payload.virtual_stage_count < 0 or len(payload.stages) % virtual_stage_count:
        raise _malformed("virtual_stage_count", "must divide the number of stages")
    if virtual_stage_count > 1 and schedule != Schedule.INTERLEAVED:
        raise _malformed("virtual_stage_count", "above 1 needs SCHEDULE_INTERLEAVED")
    depth = len(payload.stages) // virtual_stage_count
    if virtual_stage_count > 1 and depth == 1:
        raise _malformed("virtual_stage_count", "above 1 needs a pipeline of several devices")
    group = payload.micro_batch_group_size
    if group != 0 and virtual_stage_count == 1:
        raise _malformed("micro_batch_group_size", "must be 0 without virtual stages")
    count = payload.micro_batch_count
    if group != 0 and not (depth < group <= count and
                           (count % group == 0 or count % group >= depth)):
        raise _malformed("micro_batch_group_size", f"must be 0, or above the {depth} devices of "
                         f"the pipeline and at most the {count} micro-batches, which it must "
                         f"divide or leave a rest of at least {depth}")
    stages: list[Stage] = []
    next_rank = next_layer = 0
    for index, message in enumerate(payload.stages):
        # The next group of virtual stages starts at rank 0 again.
        if index % depth == 0:
            next_rank = 0
        stage = _read_stage(message, index, next_rank, next_layer)
        next_rank += stage.rank_count
        next_layer += len(stage.layers)
        stages.append(stage)
    if payload.device_count != next_rank:
        raise _malformed("device_count", f"must be the {next_rank} ranks of all stages")
    return PlanContents(payload.device_count, payload.global_batch_size, payload.micro_batch_count,
                        schedule, virtual_stage_count, tuple(stages), group)


def read_recompute_policy(payload: Any) -> RecomputePolicy:
    """Returns what layers of a `PlanPayload` with selective recomputation compute again: attention
    if it does not say it. Raises PayloadMalformed for a policy without an option, or with an
    interval below 0."""
    if not payload.HasField("recompute_policy"):
        return RecomputePolicy()
    message = payload.recompute_policy
    if not message.selective_ac_option:
        raise _malformed("recompute_policy.selective_ac_option", "must be given")
    if message.recomputed_product_interval < 0:
        raise _malformed("recompute_policy.recomputed_product_interval", "must not be negative")
    return RecomputePolicy(message.selective_ac_option, tuple(message.saved_operators),
                           message.recomputed_product_interval)


def _read_stage(message: Any, index: int, next_rank: int, next_layer: int) -> Stage:
    field = f"stages[{index}]"
    if message.first_rank != next_rank:
        raise _malformed(f"{field}.first_rank", f"must be {next_rank}: stages follow each other, "
                         "virtual stages round by round")
    if message.rank_count < 1 or next_rank + message.rank_count > MAX_DEVICE_COUNT:
        raise _malformed(f"{field}.rank_count",
                         f"must be at least 1, and all ranks at most {MAX_DEVICE_COUNT}")
    layers: list[Layer] = []
    for number, run in enumerate(message.layer_runs):
        path = f"{field}.layer_runs[{number}]"
        first = next_layer + len(layers)
        if run.first_layer_index != first:
            raise _malformed(f"{path}.first_layer_index",
                             f"must be {first}: layers follow each other")
        if run.layer_count < 1 or first + run.layer_count > MAX_LAYER_COUNT:
            raise _malformed(f"{path}.layer_count",
                             f"must be at least 1, and all layers at most {MAX_LAYER_COUNT}")
        strategy = read_strategy(run.strategy, f"{path}.strategy")
        if strategy.rank_count != message.rank_count:
            raise _malformed(f"{path}.strategy", "the product of the degrees must be the "
                             f"{message.rank_count} ranks of the stage")
        layers += [Layer(layer, run.layer_definition_id, index, message.first_rank,
                         message.rank_count, strategy)
                   for layer in range(first, first + run.layer_count)]
    return Stage(index, message.first_rank, message.rank_count, tuple(layers))


def read_strategy(message: Any, field: str) -> Strategy:
    """Returns one strategy. Raises PayloadMalformed with the path of the field below `field`, also
    for a field of the contract that this code does not know."""
    for descriptor, _ in message.ListFields():
        if descriptor.name not in _STRATEGY_FIELDS:
            raise _malformed(f"{field}.{descriptor.name}",
                             "is not known to this release of the package; upgrade parplan")
    tensor, data = message.tensor_parallel_degree, message.data_parallel_degree
    if not 1 <= tensor <= MAX_DEVICE_COUNT:
        raise _malformed(f"{field}.tensor_parallel_degree", "must be at least 1")
    if not 1 <= data <= MAX_DEVICE_COUNT // tensor:
        raise _malformed(f"{field}.data_parallel_degree", "must be at least 1")
    sharding = _enum(Sharding, message.sharding_level, f"{field}.sharding_level", Sharding.NONE)
    axes = [messages.enum_name("ParallelAxis", axis) for axis in message.rank_order]
    if sorted(axes) != ["PARALLEL_AXIS_DATA", "PARALLEL_AXIS_TENSOR"]:
        raise _malformed(f"{field}.rank_order",
                         "must name PARALLEL_AXIS_TENSOR and PARALLEL_AXIS_DATA once each")
    recompute = _enum(Recompute, message.recompute_level, f"{field}.recompute_level",
                      Recompute.NONE)
    modules = _read_modules(message, f"{field}.recompute_modules", recompute)
    context = max(message.context_parallel_degree, 1)
    expert = max(message.expert_parallel_degree, 1)
    if message.context_parallel_degree < 0 or context > MAX_DEVICE_COUNT // (tensor * data):
        raise _malformed(f"{field}.context_parallel_degree",
                         f"must be 0 to the devices of a stage, at most {MAX_DEVICE_COUNT}")
    own_tensor, rank_count = message.expert_tensor_parallel_degree, tensor * data * context
    if own_tensor < 0 or own_tensor == tensor or (own_tensor and rank_count % own_tensor):
        raise _malformed(f"{field}.expert_tensor_parallel_degree", "must be 0, or divide the "
                         "product of the degrees and not be tensor_parallel_degree")
    shared = rank_count // own_tensor if own_tensor else data * context
    if message.expert_parallel_degree < 0 or shared % expert:
        raise _malformed(f"{field}.expert_parallel_degree",
                         "must divide data_parallel_degree * context_parallel_degree, or the ranks "
                         "over expert_tensor_parallel_degree if that is set")
    kind = _enum(ContextKind, message.context_kind, f"{field}.context_kind", ContextKind.RING)
    if kind != ContextKind.RING and context == 1:
        raise _malformed(f"{field}.context_kind", "must be CONTEXT_KIND_RING, or "
                         "CONTEXT_KIND_ULYSSES or CONTEXT_KIND_ALL_GATHER with a "
                         "context_parallel_degree above 1")
    exchange = max(message.context_exchange_degree, 1)
    if message.context_exchange_degree < 0 or (exchange > 1 and (
            kind != ContextKind.RING or exchange >= context or context % exchange)):
        raise _malformed(f"{field}.context_exchange_degree",
                         "must be 0, 1, or a divisor of context_parallel_degree below it with "
                         "CONTEXT_KIND_RING")
    group, replicas = message.sharding_degree, data * context
    if group and (group < 2 or group >= replicas or replicas % group or sharding == Sharding.NONE):
        raise _malformed(f"{field}.sharding_degree",
                         "must be 0, or with a sharding_level a divisor of data_parallel_degree * "
                         "context_parallel_degree above 1 and below it")
    if group and tensor * group % ((own_tensor or tensor) * expert):
        raise _malformed(f"{field}.sharding_degree",
                         "must make groups with all ranks that share the experts")
    return Strategy(tensor, data, axes[0] == "PARALLEL_AXIS_TENSOR", sharding, recompute,
                    message.sequence_parallel, context, expert, kind, modules, own_tensor, exchange,
                    group)


def _read_modules(message: Any, field: str, recompute: Recompute) -> tuple[RecomputeModule, ...]:
    numbers = list(message.recompute_modules)
    if recompute != Recompute.MODULES:
        if numbers:
            raise _malformed(field,
                             "must be empty unless recompute_level is RECOMPUTE_LEVEL_MODULES")
        return ()
    modules: list[RecomputeModule] = []
    for index, number in enumerate(numbers):
        if number == 0:
            raise _malformed(f"{field}[{index}]", "must be given")
        module = _enum(RecomputeModule, number, f"{field}[{index}]", RecomputeModule.NORMS)
        if modules and module <= modules[-1]:
            raise _malformed(field, "must be ascending, and none twice")
        modules.append(module)
    if modules in ([], [RecomputeModule.CORE_ATTENTION]):
        raise _malformed(field, "must name a module, and not attention alone, which is "
                         "RECOMPUTE_LEVEL_SELECTIVE")
    return tuple(modules)


def _enum(kind: type[_Enum], value: int, field: str, default: _Enum) -> _Enum:
    if value == 0:
        return default
    try:
        return kind(value)
    except ValueError:
        raise _malformed(field, f"{value} is not known to this release; upgrade parplan") from None


def _malformed(field: str, rule: str) -> Error:
    return field_error("PAYLOAD_MALFORMED", field, rule)
