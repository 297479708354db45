"""The collectives of one rank in a step that the cost model prices for the runtime `torch`
(docs/cost-model.md, planner/cost/step_collectives.h): the same list once more in Python, which
`parplan-torch check` compares with what PyTorch makes.

    for one in traffic_of(plan, rank=0):
        print(one.purpose, one.ranks, one.priced)

Counts, not bytes. `planctl explain --collectives` prints the list of C++; a test holds the two
equal over the plans of the tests.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from typing import Any

from parplan.plan import Plan
from parplan.program import ActivationLayout, LayerProgram, StageProgram
from parplan.strategy import ContextKind, Recompute, Sharding

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all-reduce", "all-gather", "reduce-scatter"
ALL_TO_ALL, SEND, RECEIVE = "all-to-all", "send", "receive"

ENDS_WITH_NORM = ("a layer that ends with a norm, such as BERT's, repeats its last sum when all of "
                  "it is recomputed; the definition of a layer does not say so, and the cost model "
                  "prices a layer that begins with its norms")
HAS_PARTIAL_GRADIENTS = ("parameters inside of matrices that ranks share, such as norms of heads "
                         "and biases of GPT-2, have gradients that are summed, in one message of a "
                         "layer and a step; the definition of a layer does not show them, so they "
                         "are priced with sequence parallelism alone")
STAYS_ON_DEVICE = ("between two virtual stages of the same ranks the cost model prices no change "
                   "of layout")
REPEATS_OPERATORS = ("selective recomputation of all but some operators also repeats exchanges; "
                     "the cost model prices selective recomputation of attention alone")

Counts = collections.Counter[str]


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Calls of one rank in a step for one purpose, in one group of ranks of the job: the number of
    each kind that is priced. Those of `unpriced` may be made as well: whether they are depends on
    what the definition of a layer does not show, and `note` says on what. `is_late` says that all
    of them are behind the last backward pass. `ring` has all ranks of a ring where `ranks` are two
    neighbours of it."""
    purpose: str
    ranks: tuple[int, ...]
    priced: Counts
    unpriced: Counts = dataclasses.field(default_factory=collections.Counter)
    note: str = ""
    is_late: bool = False
    ring: tuple[int, ...] = ()


def traffic_of(plan: Plan, rank: int) -> list[Traffic]:
    """Returns the traffic of a rank."""
    return [one for one in _entries(plan, rank) if one.priced or one.unpriced]


def ranks_text(ranks: tuple[int, ...]) -> str:
    """Returns ranks as `0-7`, `0-12/4` (every fourth) or `0,1,5`."""
    steps = {after - before for before, after in zip(ranks, ranks[1:])}
    if len(ranks) < 3 or len(steps) != 1:
        return ",".join(map(str, ranks))
    (step,) = steps
    return f"{ranks[0]}-{ranks[-1]}" + (f"/{step}" if step > 1 else "")


def _entries(plan: Plan, rank: int) -> Iterator[Traffic]:
    program = plan.rank(rank)
    for stage in program.stages:
        for layer in stage.layers:
            yield from _tensor(plan, layer)
            yield from _context(plan, layer, rank)
            yield from _experts(plan, layer, rank)
            yield from _gradient(plan, layer, rank)
        yield from _moves(plan, stage)
        yield from _messages(plan, stage, rank)
    if program.tied is not None:
        yield _priced("tied table", program.tied.ranks, {ALL_REDUCE: 1}, is_late=True)
    if plan.device_count > 1:
        yield _priced("loss", tuple(range(plan.device_count)), {ALL_REDUCE: 1})


def _priced(purpose: str, ranks: tuple[int, ...], counts: dict[str, int],
            **others: Any) -> Traffic:
    return Traffic(purpose, ranks, +collections.Counter(counts), **others)


def _norms(plan: Plan, index: int) -> int:
    """Returns the parts of a transformer layer that begin with a norm; 0 for other layers."""
    definition = plan.definition(index)
    blocks = {"LAYER_KIND_DECODER": 1, "LAYER_KIND_ENCODER": 1, "LAYER_KIND_CROSS_DECODER": 2,
              "LAYER_KIND_STATE_SPACE": 1, "LAYER_KIND_FEED_FORWARD": 0}.get(
                  plan.layer_kind(index))
    if blocks is None:
        return 0
    return blocks + int(definition.feed_forward_size > 0 or definition.expert_count > 0)


def _tensor(plan: Plan, layer: LayerProgram) -> Iterator[Traffic]:
    if layer.tensor is None:
        return
    count, strategy, ranks = plan.micro_batch_count, layer.layer.strategy, layer.tensor.ranks
    index = layer.layer.index
    norms, kind, definition = _norms(plan, index), plan.layer_kind(index), plan.definition(index)
    by_tokens = strategy.sequence_parallel
    if norms > 0:
        has_experts = int(definition.expert_count > 0)
        gathers = 0
        # A shared expert is a block of its own beside the others.
        parts = norms + int(has_experts and definition.shared_expert_feed_forward_size > 0)
        again = int(strategy.recompute == Recompute.FULL)
        if by_tokens:
            # For experts also the numbers and weights that each token has chosen.
            gathers = parts + 2 * has_experts
            counts = {ALL_GATHER: (1 + again) * gathers + parts,
                      REDUCE_SCATTER: (2 + again) * parts - again + has_experts}
        else:
            counts = {ALL_REDUCE: (2 + again) * parts - again + has_experts}
        yield _priced("tensor", ranks, {one: number * count for one, number in counts.items()})
        if again:
            last = REDUCE_SCATTER if by_tokens else ALL_REDUCE
            yield Traffic("tensor", ranks, collections.Counter(),
                          collections.Counter({last: count}), ENDS_WITH_NORM)
        elif _repeats_operators(plan, layer):
            # An exchange is repeated if the plan saves no result that comes after it.
            kinds = [ALL_GATHER, REDUCE_SCATTER] if by_tokens else [ALL_REDUCE]
            more = {one: (gathers if one == ALL_GATHER else parts) * count for one in kinds}
            yield Traffic("tensor", ranks, collections.Counter(), collections.Counter(more),
                          REPEATS_OPERATORS)
    elif kind in ("LAYER_KIND_EMBEDDING", "LAYER_KIND_PATCH_EMBEDDING"):
        kinds = [REDUCE_SCATTER, ALL_GATHER] if by_tokens else [ALL_REDUCE]
        yield _priced("tensor", ranks, dict.fromkeys(kinds, count))
    elif kind == "LAYER_KIND_HEAD":
        # Logits are gathered for a loss function of the user.
        counts = {ALL_GATHER: 2, REDUCE_SCATTER: 1} if by_tokens else {ALL_GATHER: 1,
                                                                       ALL_REDUCE: 1}
        yield _priced("tensor", ranks, {one: number * count for one, number in counts.items()})
    if by_tokens and (norms > 0 or _has_more_than_table(definition, kind)):
        yield _priced("gradients of norms", ranks, {ALL_REDUCE: 1}, is_late=True)
    else:
        yield Traffic("gradients of norms", ranks, collections.Counter(),
                      collections.Counter({ALL_REDUCE: 1}), HAS_PARTIAL_GRADIENTS, is_late=True)


def _repeats_operators(plan: Plan, layer: LayerProgram) -> bool:
    """Returns whether a layer computes all but some operators again."""
    policy = plan.recompute_policy
    return (layer.layer.strategy.recompute == Recompute.SELECTIVE and policy is not None
            and policy.selective_ac_option == "op")


def _has_more_than_table(definition: Any, kind: str) -> bool:
    """Returns whether an embedding or head has parameters beside its table."""
    if definition.parameter_count == 0:
        return kind in ("LAYER_KIND_HEAD", "LAYER_KIND_PATCH_EMBEDDING")
    is_borrowed = kind == "LAYER_KIND_HEAD" and definition.tied_embedding
    table = 0 if is_borrowed else definition.vocabulary_size * definition.hidden_size
    return bool(definition.parameter_count > table)


def _context(plan: Plan, layer: LayerProgram, rank: int) -> Iterator[Traffic]:
    blocks = {"LAYER_KIND_DECODER": 1, "LAYER_KIND_ENCODER": 1, "LAYER_KIND_CROSS_DECODER": 2}.get(
        plan.layer_kind(layer.layer.index), 0)
    if layer.context is None or blocks == 0:
        return
    count, strategy = plan.micro_batch_count * blocks, layer.layer.strategy
    ranks = layer.context.ranks
    if strategy.context_kind == ContextKind.ULYSSES:
        again = int(strategy.recompute == Recompute.FULL)
        yield _priced("context", ranks, {ALL_TO_ALL: (8 + 4 * again) * count})
        if _repeats_operators(plan, layer):
            yield Traffic("context", ranks, collections.Counter(),
                          collections.Counter({ALL_TO_ALL: 4 * count}), REPEATS_OPERATORS)
        return
    # Keys and values go round in each pass, and with them the gradients of both. Attention that is
    # computed again needs them again.
    rounds = 3 + int(strategy.recompute != Recompute.NONE)
    hops = rounds * (len(ranks) - 1) * count
    place = ranks.index(rank)
    for kind, other in ((SEND, ranks[(place + 1) % len(ranks)]), (RECEIVE, ranks[place - 1])):
        yield _priced("context", (min(rank, other), max(rank, other)), {kind: hops}, ring=ranks)


def _experts(plan: Plan, layer: LayerProgram, rank: int) -> Iterator[Traffic]:
    definition, strategy = plan.definition(layer.layer.index), layer.layer.strategy
    degree = strategy.expert_parallel_degree
    if definition.expert_count == 0 or degree == 1 or layer.gradient is None:
        return
    first = layer.gradient.ranks.index(rank) // degree * degree
    # How many tokens, the numbers of their experts, and tokens there and back; backward the
    # gradients of both.
    calls = 4 * (1 + int(strategy.recompute == Recompute.FULL)) + 2
    yield _priced("experts", layer.gradient.ranks[first:first + degree],
                  {ALL_TO_ALL: calls * plan.micro_batch_count})
    if _repeats_operators(plan, layer):
        yield Traffic("experts", layer.gradient.ranks[first:first + degree], collections.Counter(),
                      collections.Counter({ALL_TO_ALL: 4 * plan.micro_batch_count}),
                      REPEATS_OPERATORS)


def _gradient(plan: Plan, layer: LayerProgram, rank: int) -> Iterator[Traffic]:
    if layer.gradient is None:
        return
    count, ranks, strategy = plan.micro_batch_count, layer.gradient.ranks, layer.layer.strategy
    counts = {
        Sharding.NONE: {ALL_REDUCE: 1},
        Sharding.OPTIMIZER: {ALL_GATHER: 1, REDUCE_SCATTER: 1},
        Sharding.GRADIENTS: {ALL_GATHER: 1, REDUCE_SCATTER: count},
        Sharding.PARAMETERS: {ALL_GATHER: 2 * count, REDUCE_SCATTER: count},
    }[strategy.sharding]
    is_whole = strategy.sharding == Sharding.NONE
    is_last = layer.layer.index + 1 == len(plan.layers)
    if plan.has_tied_table and plan.pipeline_parallel_degree == 1 and is_last and not is_whole:
        # Embedding and head are sharded as one, and the embedding has the messages.
        return
    if strategy.sharding_degree:
        groups = strategy.shard_groups(ranks)
        mine = next(one for one in groups if rank in one)
        yield _priced("gradient", tuple(mine), counts)
        # Shards are added up between groups with the last micro-batch.
        yield _priced("gradient", tuple(one[mine.index(rank)] for one in groups), {ALL_REDUCE: 1})
        return
    yield _priced("gradient", ranks, counts, is_late=is_whole)
    degree = strategy.expert_parallel_degree
    if plan.definition(layer.layer.index).expert_count > 0 and 1 < degree < len(ranks):
        # The ranks with the same experts.
        yield _priced("gradient", ranks[ranks.index(rank) % degree::degree], counts,
                      is_late=is_whole)


def _moves(plan: Plan, stage: StageProgram) -> Iterator[Traffic]:
    """Yields the changes of layout within a stage and behind its last layer: one all-to-all each
    way."""
    if stage.stage_group is None:
        return
    layouts: list[ActivationLayout] = [layer.layout for layer in stage.layers]
    if stage.stage_index + 1 < len(plan.stages):
        following = plan.stages[stage.stage_index + 1].layers[0].strategy
        layouts.append(dataclasses.replace(layouts[-1], strategy=following))
    for number, (source, target) in enumerate(zip(layouts, layouts[1:])):
        if source.is_same_as(target):
            continue
        calls = collections.Counter({ALL_TO_ALL: 2 * plan.micro_batch_count})
        if plan.pipeline_parallel_degree == 1 and number + 1 == len(stage.layers):
            yield Traffic("change of layout", stage.stage_group.ranks, collections.Counter(),
                          calls, STAYS_ON_DEVICE)
        else:
            yield Traffic("change of layout", stage.stage_group.ranks, calls)


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
            yield _priced("pipeline", (min(rank, other), max(rank, other)),
                          {SEND: count, RECEIVE: count})
