"""The collectives of one rank in a step: those that the cost model prices for the runtime `fsdp`
(docs/cost-model.md, planner/cost/layer_traffic.cc), and those that `parplan.torch` makes for them.

    for one in traffic_of(plan, rank=0):
        print(one.purpose, one.ranks, one.priced, one.made)

Counts, not bytes. The two are the same but where an exchange has a note.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from typing import Any

from parplan.plan import Plan
from parplan.program import ActivationLayout, LayerProgram, StageProgram
from parplan.strategy import ContextKind, Recompute, Sharding, Strategy

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all-reduce", "all-gather", "reduce-scatter"
ALL_TO_ALL, SEND, RECEIVE = "all-to-all", "send", "receive"

KEEPS_GATHERED = ("PyTorch keeps the gathered input of a layer for the gradients of its weights; "
                  "the cost model gathers it again")
STOPS_EARLY = ("recomputation in PyTorch ends with the last tensor that is needed, before the last "
               "sum unless a norm follows it; the cost model repeats that sum")
GATHERS_LOGITS = ("logits are gathered for a loss function of the user; the cost model prices "
                  "three sums of a loss over parts of the vocabulary")
GATHERS_KEYS = ("keys and values are gathered at once and their gradients exchanged; the cost "
                "model prices the messages of a ring")
MOVES_ROWS = ("a change of layout is one all-to-all each way; the cost model prices gathers in "
              "tensor-parallel groups")
SHARES_TABLE = ("embedding and head that share a table on one rank are sharded as one; the cost "
                "model prices their messages one by one")
SUMS_TABLES = "each table of an embedding is added up alone; the cost model prices one sum"
NOT_PRICED = "a few bytes, which the cost model leaves out"

Counts = collections.Counter[str]


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Calls of one rank in a step for one purpose, in one group of ranks of the job. `priced` and
    `made` have the number of each kind; `note` says why they differ. Those of `optional` are made
    or not, which depends on the modules of a layer. `is_late` says that all of them are behind the
    last backward pass."""
    purpose: str
    ranks: tuple[int, ...]
    priced: Counts
    made: Counts
    note: str = ""
    optional: Counts = dataclasses.field(default_factory=collections.Counter)
    is_late: bool = False


def traffic_of(plan: Plan, rank: int, tables: int = 1) -> list[Traffic]:
    """Returns the traffic of a rank. `tables` is the number of tables of the embedding, of
    positions for instance. Gradients of norms (`partial_gradients`) are not in it."""
    return [one for one in _entries(plan, rank, tables) if one.priced or one.made or one.optional]


def partial_gradients(plan: Plan, rank: int) -> Counts:
    """Returns how many all-reduces of a step there are at most in each tensor-parallel group for
    parameters that are whole on every rank of it, such as norms. Keys are texts of ranks."""
    found: Counts = collections.Counter()
    for stage in plan.rank(rank).stages:
        for layer in stage.layers:
            if layer.tensor is not None:
                found[ranks_text(layer.tensor.ranks)] += 1
    return found


def ranks_text(ranks: tuple[int, ...]) -> str:
    """Returns ranks as `0-7`, `0-12/4` (every fourth) or `0,1,5`."""
    steps = {after - before for before, after in zip(ranks, ranks[1:])}
    if len(ranks) < 3 or len(steps) != 1:
        return ",".join(map(str, ranks))
    (step,) = steps
    return f"{ranks[0]}-{ranks[-1]}" + (f"/{step}" if step > 1 else "")


def _entries(plan: Plan, rank: int, tables: int) -> Iterator[Traffic]:
    program = plan.rank(rank)
    for stage in program.stages:
        for layer in stage.layers:
            yield from _tensor(plan, layer, tables)
            yield from _context(plan, layer)
            yield from _gradient(plan, layer)
        yield from _moves(plan, stage)
        yield from _messages(plan, stage, rank)
    if program.tied is not None:
        yield dataclasses.replace(_same("tied table", program.tied.ranks, {ALL_REDUCE: 1}),
                                  is_late=True)
    everyone = tuple(range(plan.device_count))
    yield Traffic("loss", everyone, collections.Counter(), collections.Counter({ALL_REDUCE: 1}),
                  NOT_PRICED)


def _same(purpose: str, ranks: tuple[int, ...], counts: dict[str, int]) -> Traffic:
    return Traffic(purpose, ranks, +collections.Counter(counts), +collections.Counter(counts))


def _parts(plan: Plan, index: int) -> int:
    """Returns the parts of a transformer layer that begin with a norm, or 0 for other layers."""
    kind = plan.layer_kind(index)
    blocks = {"LAYER_KIND_DECODER": 1, "LAYER_KIND_ENCODER": 1, "LAYER_KIND_CROSS_DECODER": 2,
              "LAYER_KIND_STATE_SPACE": 1, "LAYER_KIND_FEED_FORWARD": 0}
    if kind not in blocks:
        return 0
    definition = definition_of(plan, index)
    return blocks[kind] + int(definition.feed_forward_size > 0 or definition.expert_count > 0)


def definition_of(plan: Plan, index: int) -> Any:
    """Returns the `LayerDefinition` of a layer."""
    name = plan.layers[index].layer_definition_id
    return next(one for one in plan.model.layer_definitions if one.layer_definition_id == name)


def _tensor(plan: Plan, layer: LayerProgram, tables: int) -> Iterator[Traffic]:
    if layer.tensor is None:
        return
    count, strategy, ranks = plan.micro_batch_count, layer.layer.strategy, layer.tensor.ranks
    parts, kind = _parts(plan, layer.layer.index), plan.layer_kind(layer.layer.index)
    if parts > 0 and _repeats_operators(plan, strategy):
        # A sum is repeated if the plan saves no result that comes after it.
        sums = ([ALL_GATHER, REDUCE_SCATTER] if strategy.sequence_parallel else [ALL_REDUCE])
        yield Traffic("tensor", ranks, collections.Counter(), collections.Counter(),
                      optional=collections.Counter(dict.fromkeys(sums, parts * count)))

    def priced_only(purpose: str, counts: dict[str, int], made: dict[str, int],
                    note: str) -> Traffic:
        return Traffic(purpose, ranks, +collections.Counter(counts), +collections.Counter(made),
                       note)

    if parts > 0:
        repeats = int(strategy.recompute == Recompute.FULL)
        # The last sum is repeated by the cost model alone.
        last = {REDUCE_SCATTER if strategy.sequence_parallel else ALL_REDUCE: repeats * count}
        if strategy.sequence_parallel:
            yield _same("tensor", ranks, {
                ALL_GATHER: (2 + repeats) * parts * count,
                REDUCE_SCATTER: (2 * parts + repeats * (parts - 1)) * count})
            yield priced_only("tensor", {ALL_GATHER: parts * count}, {}, KEEPS_GATHERED)
        else:
            yield _same("tensor", ranks,
                        {ALL_REDUCE: (2 * parts + repeats * (parts - 1)) * count})
        yield dataclasses.replace(priced_only("tensor", last, {}, STOPS_EARLY),
                                  optional=+collections.Counter(last))
    elif kind in ("LAYER_KIND_EMBEDDING", "LAYER_KIND_PATCH_EMBEDDING"):
        kinds = [REDUCE_SCATTER, ALL_GATHER] if strategy.sequence_parallel else [ALL_REDUCE]
        yield _same("tensor", ranks, dict.fromkeys(kinds, count))
        yield priced_only("tensor", {}, dict.fromkeys(kinds, (tables - 1) * count), SUMS_TABLES)
    elif kind == "LAYER_KIND_HEAD":
        if strategy.sequence_parallel:
            yield _same("tensor", ranks, {ALL_GATHER: count, REDUCE_SCATTER: count})
            yield priced_only("tensor", {ALL_GATHER: count}, {}, KEEPS_GATHERED)
        else:
            yield _same("tensor", ranks, {ALL_REDUCE: count})
        yield priced_only("loss over the vocabulary", {ALL_REDUCE: 3 * count},
                          {ALL_GATHER: count}, GATHERS_LOGITS)


def _repeats_operators(plan: Plan, strategy: Strategy) -> bool:
    """Returns whether a layer computes all but some operators again."""
    policy = plan.recompute_policy
    return (strategy.recompute == Recompute.SELECTIVE and policy is not None
            and policy.selective_ac_option == "op")


def _context(plan: Plan, layer: LayerProgram) -> Iterator[Traffic]:
    if layer.context is None or _parts(plan, layer.layer.index) == 0:
        return
    count, strategy, ranks = plan.micro_batch_count, layer.layer.strategy, layer.context.ranks
    repeats = int(strategy.recompute == Recompute.FULL or _repeats_operators(plan, strategy))
    if strategy.context_kind == ContextKind.ULYSSES:
        yield _same("context", ranks, {ALL_TO_ALL: (8 + 4 * repeats) * count})
        return
    # Selective recomputation repeats attention, in the cost model with a ring of its own.
    passes = 3 + int(strategy.recompute != Recompute.NONE)
    hops = (strategy.context_parallel_degree - 1) * passes * count
    yield Traffic("context", ranks, collections.Counter({SEND: hops, RECEIVE: hops}),
                  collections.Counter({ALL_GATHER: 2 * (1 + repeats) * count,
                                       ALL_TO_ALL: 2 * count}), GATHERS_KEYS)


def _gradient(plan: Plan, layer: LayerProgram) -> Iterator[Traffic]:
    if layer.gradient is None:
        return
    count, ranks = plan.micro_batch_count, layer.gradient.ranks
    sharding = layer.layer.strategy.sharding
    counts = {
        Sharding.NONE: {ALL_REDUCE: 1},
        Sharding.OPTIMIZER: {ALL_GATHER: 1, REDUCE_SCATTER: 1},
        Sharding.GRADIENTS: {ALL_GATHER: 1, REDUCE_SCATTER: count},
        Sharding.PARAMETERS: {ALL_GATHER: 2 * count, REDUCE_SCATTER: count},
    }[sharding]
    is_joint = (plan.has_tied_table and plan.pipeline_parallel_degree == 1
                and layer.layer.index + 1 == len(plan.layers) and sharding != Sharding.NONE)
    if is_joint:
        yield Traffic("gradient", ranks, collections.Counter(counts), collections.Counter(),
                      SHARES_TABLE)
    else:
        yield dataclasses.replace(_same("gradient", ranks, counts),
                                  is_late=sharding == Sharding.NONE)


def _moves(plan: Plan, stage: StageProgram) -> Iterator[Traffic]:
    """Yields the changes of layout within a stage and behind its last layer."""
    if stage.stage_group is None:
        return
    count = plan.micro_batch_count
    layouts = [layer.layout for layer in stage.layers]
    if stage.stage_index + 1 < len(plan.stages):
        following = plan.stages[stage.stage_index + 1].layers[0].strategy
        layouts.append(dataclasses.replace(layouts[-1], strategy=following))
    for source, target in zip(layouts, layouts[1:]):
        made = 0 if source.is_same_as(target) else 2 * count
        yield Traffic("change of layout", stage.stage_group.ranks,
                      +collections.Counter(_priced_move(source, target, count)),
                      +collections.Counter({ALL_TO_ALL: made}), MOVES_ROWS)


def _priced_move(source: ActivationLayout, target: ActivationLayout, count: int) -> dict[str, int]:
    before, after = source.strategy, target.strategy

    def part(one: Strategy) -> tuple[object, ...]:
        return (one.tensor_parallel_degree, one.data_parallel_degree, one.tensor_innermost,
                one.context_kind)

    if part(before) == part(after):
        return {}
    if before.tensor_parallel_degree != after.tensor_parallel_degree:
        return {ALL_GATHER: count}
    exchanges = sum(one.context_parallel_degree > 1 for one in (before, after))
    gathers = 2 * int(before.tensor_parallel_degree > 1)
    return {ALL_GATHER: gathers * count, ALL_TO_ALL: exchanges * count}


def _messages(plan: Plan, stage: StageProgram, rank: int) -> Iterator[Traffic]:
    """Yields the messages to and from the stages before and behind; on one rank none are sent."""
    degree, per_place = plan.pipeline_parallel_degree, plan.stages[0].rank_count
    if degree == 1:
        return
    place, within = divmod(rank, per_place)
    count = plan.micro_batch_count
    for step, exists in ((1, stage.stage_index + 1 < len(plan.stages)),
                         (-1, stage.stage_index > 0)):
        if exists:
            other = (place + step) % degree * per_place + within
            # Activations one way, gradients the other.
            yield _same("pipeline", (min(rank, other), max(rank, other)),
                        {SEND: count, RECEIVE: count})
