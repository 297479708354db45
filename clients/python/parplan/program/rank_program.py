"""The program of one rank: its layers and their groups, the movement of activations between layouts
and stages, and the order of its passes.

A pure projection of the plan onto a rank. It refuses plans that divide samples or tokens unevenly;
which layers a program can train is for that program to say.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from parplan.errors import Error, make_error
from parplan.plan_contents import Layer, PlanContents, Stage
from parplan.program.activation_layout import ActivationLayout
from parplan.program.pass_order import Pass, pass_order
from parplan.program.reshard import Reshard, make_reshard
from parplan.strategy import ContextKind, Place, Schedule, Strategy

MAX_FORWARD_PASS_COUNT = 1 << 22


@dataclasses.dataclass(frozen=True, order=True)
class Group:
    """Ranks of the job that communicate, in order. The purpose is one of `tensor`, `context`,
    `gradient`, `stage`, `tied`, `loss`, or `forward 3` and `backward 3` for messages between stages
    3 and 4."""
    purpose: str
    ranks: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class LayerProgram:
    """One layer on one rank. A group is None if the rank would be alone in it. `gradient` has the
    ranks with the same part of the parameters. `enter` moves activations from the layout of the
    previous layer of the stage to this one's, `leave_backward` gradients back; both are empty for
    the first layer of a stage and if the layouts are the same."""
    layer: Layer
    place: Place
    layout: ActivationLayout
    tensor: Group | None
    context: Group | None
    gradient: Group | None
    enter: Reshard
    leave_backward: Reshard


@dataclasses.dataclass(frozen=True)
class StageProgram:
    """One stage of the plan on this rank: its layers, the ranks of the stage, and the movement from
    and to the stages before and behind it, each in a group of its own."""
    stage_index: int
    layers: tuple[LayerProgram, ...]
    stage_group: Group | None
    receive_forward: Reshard
    send_forward: Reshard
    receive_backward: Reshard
    send_backward: Reshard
    receive_forward_group: Group | None
    send_forward_group: Group | None
    receive_backward_group: Group | None
    send_backward_group: Group | None


@dataclasses.dataclass(frozen=True)
class RankProgram:
    """See the head of the file. Ranks that make their groups in the order of `groups` never wait
    for each other in a circle."""
    rank: int
    pipeline_place: int
    groups: tuple[Group, ...]
    stages: tuple[StageProgram, ...]
    passes: tuple[Pass, ...]
    tied: Group | None


def make_rank_program(contents: PlanContents, sequence_lengths: Sequence[int], rank: int,
                      is_tied: bool = False) -> RankProgram:
    """Returns the program of `rank`. `sequence_lengths` has the tokens of a sample for each layer
    of the model; `is_tied` says whether embedding and head share a table. Raises SpecInvalid naming
    the layer or field if the plan cannot be divided. O(layers + passes + ranks of a stage) time."""
    check_divisions(contents, sequence_lengths)
    if not 0 <= rank < contents.device_count:
        raise _refuse("rank", f"the plan has ranks 0 to {contents.device_count - 1}, not {rank}")
    return _Maker(contents, sequence_lengths, rank).make(is_tied)


def make_all_groups(contents: PlanContents, is_tied: bool = False) -> set[Group]:
    """Returns the groups of the programs of all ranks of a plan that `check_divisions` accepts.
    Their ranks are counted once, so it takes time in proportion to them, not to its square as the
    programs of all ranks do."""
    found: set[Group] = set()

    def add(purpose: str, ranks: Sequence[int]) -> None:
        if len(ranks) > 1:
            found.add(Group(purpose, tuple(sorted(ranks))))

    add("loss", range(contents.device_count))
    for stage, following in zip(contents.stages, [*contents.stages[1:], None]):
        add("stage", stage.ranks())
        if following is not None:
            for direction in ("forward", "backward"):
                add(f"{direction} {stage.index}", [*stage.ranks(), *following.ranks()])
        for strategy in dict.fromkeys(layer.strategy for layer in stage.layers):
            for purpose, axes in _AXES.items():
                for place in map(strategy.place_of, range(strategy.rank_count)):
                    # Each group by its first place.
                    if all(getattr(place, axis) == 0 for axis in axes):
                        add(purpose, _ranks_along(purpose, strategy, stage.first_rank, place))
    first, last = contents.stages[0], contents.stages[-1]
    if is_tied and first.first_rank != last.first_rank:
        for number in range(first.rank_count):
            add("tied", [first.first_rank + number, last.first_rank + number])
    return found


# The axes along which the ranks of a layer's groups differ.
_AXES = {"tensor": ("tensor",), "context": ("context",), "gradient": ("context", "data")}


def _ranks_along(purpose: str, strategy: Strategy, first_rank: int, place: Place) -> list[int]:
    """Returns the ranks of the group of a layer that the rank at `place` is in."""
    counts = {"tensor": strategy.tensor_parallel_degree,
              "context": strategy.context_parallel_degree, "data": strategy.data_parallel_degree}
    axes = _AXES[purpose]
    return [first_rank + strategy.rank_of(dataclasses.replace(place, **dict(zip(axes, numbers))))
            for numbers in itertools.product(*(range(counts[axis]) for axis in axes))]


def check_divisions(contents: PlanContents, sequence_lengths: Sequence[int]) -> None:
    """Raises SpecInvalid if stages have no layers or are on unequal numbers of ranks, interleaved
    stages have micro-batches left over or groups of another size than the pipeline degree, or a
    layer divides samples or tokens unevenly."""
    degree = contents.pipeline_parallel_degree
    if len(contents.layers) != len(sequence_lengths):
        raise _refuse("stages", f"they have {len(contents.layers)} layers, the model "
                      f"{len(sequence_lengths)}")
    if contents.micro_batch_count > MAX_FORWARD_PASS_COUNT // len(contents.stages):
        raise _refuse("micro_batch_count",
                      f"makes more than {MAX_FORWARD_PASS_COUNT} forward passes per step")
    if contents.micro_batch_group_size:
        raise _refuse("micro_batch_group_size",
                      f"is {contents.micro_batch_group_size}, and only groups of as many "
                      "micro-batches as the pipeline has devices are run")
    if contents.virtual_stage_count > 1 and contents.micro_batch_count % degree:
        raise _refuse("micro_batch_count",
                      "must be a multiple of the pipeline degree if stages are interleaved")
    for stage in contents.stages:
        if not stage.layers:
            raise _refuse(f"stages[{stage.index}]", "it has no layer, and only programs that hand "
                          "on what such a stage receives run it: export the plan for Megatron-LM")
        if stage.rank_count * degree != contents.device_count:
            raise _refuse(f"stages[{stage.index}]", f"it must be on {contents.device_count} / "
                          f"{degree} ranks, as all stages are")
    for layer in contents.layers:
        _check_layer(contents, layer, sequence_lengths[layer.index])
        if layer.index > 0 and sequence_lengths[layer.index - 1] != sequence_lengths[layer.index]:
            raise _refuse(f"layer {layer.index}",
                          "it has another sequence_length than the layer before it")


def _check_layer(contents: PlanContents, layer: Layer, tokens: int) -> None:
    strategy = layer.strategy
    if contents.micro_batch_size % strategy.data_parallel_degree:
        raise _refuse(f"layer {layer.index}",
                      f"a micro-batch of {contents.micro_batch_size} samples cannot be shared by "
                      f"{strategy.data_parallel_degree} ranks")
    if (strategy.context_kind == ContextKind.ALL_GATHER
            or strategy.context_exchange_degree > 1):
        raise _refuse(f"layer {layer.index}",
                      "it shares tokens neither by a plain ring nor by all-to-alls alone")
    context = strategy.context_parallel_degree
    is_ring = context > 1 and strategy.context_kind == ContextKind.RING
    if tokens % (2 * context if is_ring else context):
        raise _refuse(f"layer {layer.index}",
                      f"sequence_length cannot be shared by {context} ranks")
    if strategy.sequence_parallel and tokens // context % strategy.tensor_parallel_degree:
        raise _refuse(f"layer {layer.index}", "tokens cannot be shared by "
                      f"{strategy.tensor_parallel_degree} sequence-parallel ranks")


def _refuse(where: str, why: str) -> Error:
    return make_error("INVALID_ARGUMENT", "SPEC_INVALID",
                      f"this plan cannot be run: {where}: {why}", {"field": where})


class _Maker:
    """Makes the program of a rank, and collects the groups that it refers to."""

    def __init__(self, contents: PlanContents, sequence_lengths: Sequence[int],
                 rank: int) -> None:
        self._contents = contents
        self._sequence_lengths = sequence_lengths
        self._rank = rank
        self._groups: set[Group] = set()

    def make(self, is_tied: bool) -> RankProgram:
        contents = self._contents
        degree = contents.pipeline_parallel_degree
        place = self._rank // (contents.device_count // degree)
        stages = tuple(self._stage(contents.stages[index])
                       for index in range(place, len(contents.stages), degree))
        tied = self._tied() if is_tied else None
        self._group("loss", range(contents.device_count))
        passes = pass_order(Schedule(contents.schedule), degree, contents.virtual_stage_count,
                            contents.micro_batch_count, place)
        return RankProgram(self._rank, place, tuple(sorted(self._groups)), stages, tuple(passes),
                           tied)

    def _group(self, purpose: str, ranks: Sequence[int]) -> Group | None:
        if len(ranks) < 2:
            return None
        group = Group(purpose, tuple(sorted(ranks)))
        self._groups.add(group)
        return group

    def _layout(self, layer: Layer) -> ActivationLayout:
        return ActivationLayout(layer.first_rank, layer.strategy, self._contents.micro_batch_size,
                                self._sequence_lengths[layer.index])

    def _stage(self, stage: Stage) -> StageProgram:
        stages = self._contents.stages
        stage_group = self._group("stage", stage.ranks())
        layers: list[LayerProgram] = []
        for layer in stage.layers:
            layers.append(self._layer(layer, layers[-1] if layers else None))
        none = Reshard()
        receive_forward = send_forward = receive_backward = send_backward = none
        receive_forward_group = send_forward_group = None
        receive_backward_group = send_backward_group = None
        first, last = self._layout(stage.layers[0]), self._layout(stage.layers[-1])
        if stage.index > 0:
            previous = self._layout(stages[stage.index - 1].layers[-1])
            receive_forward_group = self._boundary("forward", stage.index - 1)
            send_backward_group = self._boundary("backward", stage.index - 1)
            receive_forward = make_reshard(previous, first, self._rank)
            send_backward = make_reshard(first, previous, self._rank)
        if stage.index + 1 < len(stages):
            following = self._layout(stages[stage.index + 1].layers[0])
            send_forward_group = self._boundary("forward", stage.index)
            receive_backward_group = self._boundary("backward", stage.index)
            send_forward = make_reshard(last, following, self._rank)
            receive_backward = make_reshard(following, last, self._rank)
        return StageProgram(stage.index, tuple(layers), stage_group, receive_forward, send_forward,
                            receive_backward, send_backward, receive_forward_group,
                            send_forward_group, receive_backward_group, send_backward_group)

    def _boundary(self, direction: str, stage: int) -> Group | None:
        """Returns the group of the ranks of a stage and the next."""
        stages = self._contents.stages
        return self._group(f"{direction} {stage}",
                           [*stages[stage].ranks(), *stages[stage + 1].ranks()])

    def _layer(self, layer: Layer, previous: LayerProgram | None) -> LayerProgram:
        enter = leave_backward = Reshard()
        # Equal layers in a row share their layout and groups.
        if previous is not None and previous.layer.strategy == layer.strategy:
            return dataclasses.replace(previous, layer=layer, enter=enter,
                                       leave_backward=leave_backward)
        layout = self._layout(layer)
        if previous is not None and not previous.layout.is_same_as(layout):
            enter = make_reshard(previous.layout, layout, self._rank)
            leave_backward = make_reshard(layout, previous.layout, self._rank)
        place = layout.place_of(self._rank)
        tensor, context, gradient = (
            self._group(purpose, _ranks_along(purpose, layer.strategy, layer.first_rank, place))
            for purpose in _AXES)
        return LayerProgram(layer, place, layout, tensor, context, gradient, enter, leave_backward)

    def _tied(self) -> Group | None:
        """Returns the group with the rank that has the same part of the table at the other end of
        the model."""
        first, last = self._contents.stages[0], self._contents.stages[-1]
        if first.first_rank == last.first_rank:
            return None
        for stage in (first, last):
            place = self._rank - stage.first_rank
            if 0 <= place < stage.rank_count:
                return self._group("tied", [first.first_rank + place, last.first_rank + place])
        return None
