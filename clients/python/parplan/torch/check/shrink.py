"""A small plan with everything that can go wrong in a large one.

    small = shrink(plan, max_ranks=8)
    small.plan                     # fewer layers, stages, ranks and micro-batches; same schedule
    small.kept                     # which layers of the whole model it has

The small plan has every stage, every boundary between stages and every strategy of the whole one.
Pure functions: no file, process or torch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from parplan.envelope import VerifiedPlan
from parplan.errors import field_error
from parplan.plan import Plan
from parplan.strategy import ContextKind, Strategy
from parplan.wire import digests, json_file, messages

# Smallest number of tokens of a sample; attention over fewer has little to mix.
_MIN_TOKENS = 16
# Smallest vocabulary. A loss over very few classes hides errors of the logits.
_MIN_VOCABULARY = 64
# Largest size of a head. 8 leaves 4 frequencies to rotary embeddings.
_MAX_HEAD_SIZE = 8
_Triple = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class _Layer:
    """A layer in a stage: its number in the whole model, its definition and its strategy."""
    index: int
    definition: str
    strategy: Strategy


@dataclasses.dataclass(frozen=True)
class _Shape:
    """Stages of layers, as in PlanContents."""
    stages: tuple[tuple[_Layer, ...], ...]
    degree: int

    @property
    def chunks(self) -> int:
        return len(self.stages) // self.degree


@dataclasses.dataclass(frozen=True)
class Widths:
    """Sizes of layers that every degree of a plan divides. `shares` is what they are multiples
    of."""
    shares: int
    heads: int
    key_value_heads: int
    head_size: int
    hidden: int
    feed_forward: int
    vocabulary: int


@dataclasses.dataclass(frozen=True)
class Small:
    """A small plan. `kept` has the layers of the whole model that are in it, `widths` is None if
    the layers keep their sizes, `notes` says what was left out."""
    plan: Plan
    kept: tuple[int, ...]
    widths: Widths | None
    notes: tuple[str, ...]


def shrink(plan: Plan, *, max_ranks: int, keep_widths: bool = False) -> Small:
    """Returns a small copy of a plan. Ranks are left out only if there are more than `max_ranks`,
    and only if degrees above 1 stay above 1 and different strategies stay different. Raises
    SpecInvalid if more than `max_ranks` are left."""
    shape = _Shape(tuple(tuple(_Layer(layer.index, layer.layer_definition_id, layer.strategy)
                               for layer in stage.layers) for stage in plan.stages),
                   plan.pipeline_parallel_degree)
    whole = shape
    shape = _with_fewer_layers(shape)
    if plan.device_count > max_ranks:
        shape = _with_fewer_places(shape)
        per_stage = _fewest_ranks(shape, max_ranks)
        shape = _with_ranks(shape, per_stage)
    rank_count = shape.degree * shape.stages[0][0].strategy.rank_count
    if rank_count > max_ranks:
        raise field_error("SPEC_INVALID", "--max-ranks",
                          f"a copy of the plan with all of its strategies needs {rank_count} "
                          f"ranks, {max_ranks} are allowed; allow {rank_count}")
    return _made(plan, whole, shape, keep_widths)


def _roles(shape: _Shape, index: int) -> tuple[bool, bool, bool, bool]:
    """Returns whether a stage is in the first or last place of the pipeline, and whether it is in
    the first or last round of virtual stages."""
    place, chunk = index % shape.degree, index // shape.degree
    return (place == 0, place + 1 == shape.degree, chunk == 0, chunk + 1 == shape.chunks)


def _features(shape: _Shape) -> set[Any]:
    """Returns what a small plan must have in common with the whole one."""
    found: set[Any] = {("places", min(shape.degree, 2)), ("chunks", min(shape.chunks, 2))}
    for index, stage in enumerate(shape.stages):
        runs: list[tuple[str, Strategy]] = []
        for layer in stage:
            one = (layer.definition, layer.strategy)
            if runs and runs[-1] == one:
                found.add(("repeated", one))
            else:
                runs.append(one)
        found.add(("stage", _roles(shape, index), tuple(runs)))
        if index + 1 < len(shape.stages):
            wraps = index % shape.degree + 1 == shape.degree
            found.add(("boundary", wraps, stage[-1].strategy, shape.stages[index + 1][0].strategy))
    return found


def _with_fewer_layers(shape: _Shape) -> _Shape:
    """Leaves out layers while every feature stays, from the end, so that the first run of a kind
    keeps two layers if any run has them."""
    wanted = _features(shape)
    stages = [list(stage) for stage in shape.stages]
    for number in reversed(range(len(stages))):
        for place in reversed(range(len(stages[number]))):
            if len(stages[number]) == 1:
                break
            left = stages[number].pop(place)
            if _features(_frozen(stages, shape.degree)) != wanted:
                stages[number].insert(place, left)
    return _frozen(stages, shape.degree)


def _with_fewer_places(shape: _Shape) -> _Shape:
    """Leaves out places of the pipeline, and rounds of virtual stages, while every feature
    stays."""
    wanted = _features(shape)
    changed = True
    while changed:
        changed = False
        for fewer in _less_one(shape):
            if _features(fewer) == wanted:
                shape, changed = fewer, True
                break
    return shape


def _less_one(shape: _Shape) -> Iterator[_Shape]:
    """Yields the shape without one place or one round, those in the middle first."""
    for place in range(1, shape.degree - 1):
        yield _Shape(tuple(stage for index, stage in enumerate(shape.stages)
                           if index % shape.degree != place), shape.degree - 1)
    for chunk in range(1, shape.chunks - 1):
        yield _Shape(tuple(stage for index, stage in enumerate(shape.stages)
                           if index // shape.degree != chunk), shape.degree)


def _frozen(stages: Sequence[Sequence[_Layer]], degree: int) -> _Shape:
    return _Shape(tuple(tuple(stage) for stage in stages), degree)


def _triple(strategy: Strategy) -> _Triple:
    return (strategy.tensor_parallel_degree, strategy.context_parallel_degree,
            strategy.data_parallel_degree)


def _fewest_ranks(shape: _Shape, max_ranks: int) -> dict[_Triple, _Triple]:
    """Returns the degrees for each combination of degrees, with the fewest ranks that keep them
    apart; the same ones if there are none."""
    strategies = [layer.strategy for stage in shape.stages for layer in stage]
    triples = sorted(set(map(_triple, strategies)))
    # Two groups of two ranks share states.
    grouped = {_triple(one) for one in strategies if one.sharding_degree}
    whole = math.prod(triples[0])
    for rank_count in range(1, min(whole, max(max_ranks // shape.degree, 1) + 1)):
        if whole % rank_count:
            continue
        found = _assign(triples, rank_count, {}, grouped)
        if found is not None:
            return found
    return {one: one for one in triples}


def _assign(triples: Sequence[_Triple], rank_count: int, chosen: dict[_Triple, _Triple],
            grouped: set[_Triple]) -> dict[_Triple, _Triple] | None:
    if len(chosen) == len(triples):
        return chosen
    one = triples[len(chosen)]
    for option in _options(one, rank_count):
        if one in grouped and (option[1] * option[2] < 4 or option[1] * option[2] % 2):
            continue
        if all(_are_alike(one, option, *other) for other in chosen.items()):
            found = _assign(triples, rank_count, {**chosen, one: option}, grouped)
            if found is not None:
                return found
    return None


def _options(triple: _Triple, rank_count: int) -> Iterator[_Triple]:
    def parts(degree: int) -> list[int]:
        # 1 stays 1, and more stays more.
        return [1] if degree == 1 else [one for one in range(2, degree + 1) if degree % one == 0]

    for tensor in parts(triple[0]):
        for context in parts(triple[1]):
            for data in parts(triple[2]):
                if tensor * context * data == rank_count:
                    yield tensor, context, data


def _are_alike(first: _Triple, first_small: _Triple, second: _Triple,
               second_small: _Triple) -> bool:
    """Returns whether each degree compares as it did."""
    return all((a > b) - (a < b) == (c > d) - (c < d)
               for a, b, c, d in zip(first, second, first_small, second_small))


def _with_ranks(shape: _Shape, degrees: dict[_Triple, _Triple]) -> _Shape:
    def smaller(strategy: Strategy) -> Strategy:
        tensor, context, data = degrees[_triple(strategy)]
        expert = strategy.expert_parallel_degree
        is_same = (tensor, context, data) == _triple(strategy)
        group = strategy.sharding_degree if is_same else min(strategy.sharding_degree, 2)
        # Groups that share states are made of whole groups that share experts.
        shared = data * context if is_same else group or data * context
        return dataclasses.replace(
            strategy, tensor_parallel_degree=tensor, context_parallel_degree=context,
            data_parallel_degree=data,
            sharding_degree=group,
            expert_parallel_degree=expert if shared % expert == 0 else math.gcd(expert, shared))

    return _frozen([[dataclasses.replace(layer, strategy=smaller(layer.strategy))
                     for layer in stage] for stage in shape.stages], shape.degree)


def _made(plan: Plan, whole: _Shape, shape: _Shape, keep_widths: bool) -> Small:
    strategies = [layer.strategy for stage in shape.stages for layer in stage]
    kept = tuple(layer.index for stage in shape.stages for layer in stage)
    widths = None if keep_widths else _widths(plan, strategies)
    model = _model(plan, shape, strategies, widths)
    rank_count = strategies[0].rank_count
    topology = json_file.from_dict({
        "cluster": plan.payload.cluster or "check",
        "node_groups": [{"node_group_id": "check", "device_kind": "CPU check", "node_count": 1,
                         "devices_per_node": rank_count * shape.degree,
                         "device_memory_bytes": 1 << 40}],
        "link_tiers": [{"tier_id": "node", "reach_device_count": rank_count * shape.degree}]},
        "ClusterTopology", "topology")
    payload = _payload(plan, shape, strategies, model, topology)
    made = Plan(VerifiedPlan(payload.SerializeToString(), payload, plan.key_id), model, topology)
    return Small(made, kept, widths, tuple(_notes(plan, whole, made, widths)))


def _payload(plan: Plan, shape: _Shape, strategies: Sequence[Strategy], model: Any,
             topology: Any) -> Any:
    payload = messages.PlanPayload()
    payload.CopyFrom(plan.payload)
    for field in ("stages", "prediction", "node_names"):
        payload.ClearField(field)
    payload.cluster = topology.cluster
    payload.model_digest = digests.model_digest(model)
    payload.topology_digest = digests.topology_digest(topology)
    payload.virtual_stage_count = shape.chunks
    rank_count = strategies[0].rank_count
    payload.device_count = rank_count * shape.degree
    per_rank = 2 if all(plan.contents.micro_batch_size >= 2 * layer.strategy.data_parallel_degree
                        for layer in plan.layers) else 1
    size = per_rank * math.lcm(*(one.data_parallel_degree for one in strategies))
    count = _micro_batches(plan, shape)
    payload.micro_batch_count, payload.global_batch_size = count, count * size
    index = 0
    for number, stage in enumerate(shape.stages):
        message = payload.stages.add(first_rank=number % shape.degree * rank_count,
                                     rank_count=rank_count)
        for layer in stage:
            run = message.layer_runs.add(first_layer_index=index, layer_count=1,
                                         layer_definition_id=layer.definition)
            run.strategy.CopyFrom(strategy_message(layer.strategy))
            index += 1
    return payload


def _micro_batches(plan: Plan, shape: _Shape) -> int:
    """Returns as many micro-batches as it takes to warm up, to run and to drain; without a pipeline
    a first one, one in the middle and a last one."""
    count = plan.micro_batch_count
    if shape.degree == 1:
        return min(count, 3)
    if shape.chunks == 1:
        return min(count, 2 * shape.degree)
    # Interleaved, they go by groups of as many as places.
    return shape.degree * min(count // plan.pipeline_parallel_degree, 3)


def strategy_message(strategy: Strategy) -> Any:
    """Returns a strategy as a message of the contract."""
    made = messages.Strategy(
        tensor_parallel_degree=strategy.tensor_parallel_degree,
        data_parallel_degree=strategy.data_parallel_degree, sharding_level=int(strategy.sharding),
        recompute_level=int(strategy.recompute), sequence_parallel=strategy.sequence_parallel,
        context_parallel_degree=strategy.context_parallel_degree,
        expert_parallel_degree=strategy.expert_parallel_degree,
        expert_tensor_parallel_degree=strategy.expert_tensor_parallel_degree,
        sharding_degree=strategy.sharding_degree,
        recompute_modules=[int(module) for module in strategy.recompute_modules])
    axes = messages.pool().FindEnumTypeByName("parplan.v1.ParallelAxis").values_by_name
    order = [axes["PARALLEL_AXIS_TENSOR"].number, axes["PARALLEL_AXIS_DATA"].number]
    made.rank_order.extend(order if strategy.tensor_innermost else order[::-1])
    if strategy.context_kind == ContextKind.ULYSSES:
        made.context_kind = int(strategy.context_kind)
    return made


def _widths(plan: Plan, strategies: Sequence[Strategy]) -> Widths:
    shares = math.lcm(*(
        one.tensor_parallel_degree
        * (one.context_parallel_degree if one.context_kind == ContextKind.ULYSSES else 1)
        for one in strategies))
    heads, groups, head_size, has_own_head_size = 2, 1, _MAX_HEAD_SIZE, False
    definition = next((one for one in plan.model.layer_definitions if one.attention_head_count),
                      None)
    if definition is not None:
        key_value = definition.key_value_head_count or definition.attention_head_count
        heads = key_value
        # Grouped keys and values stay grouped.
        groups = min(definition.attention_head_count // key_value, 2)
        usual = definition.hidden_size // definition.attention_head_count
        head_size = min(definition.head_size or usual, _MAX_HEAD_SIZE)
        has_own_head_size = definition.head_size not in (0, usual)
    key_value_heads = shares if shares > 1 else min(heads, 2)
    count = key_value_heads * max(groups, 1)
    # A model whose heads together are not as wide as its activations stays so.
    hidden = count * head_size * (2 if has_own_head_size else 1)
    return Widths(shares, count, key_value_heads, head_size, hidden,
                  feed_forward=_multiple(2 * hidden, shares),
                  vocabulary=_multiple(_MIN_VOCABULARY, shares))


def _multiple(least: int, of: int) -> int:
    return -(-least // of) * of


def _tokens(plan: Plan, strategies: Sequence[Strategy]) -> int:
    shares = [one.context_parallel_degree
              * (2 if one.context_kind == ContextKind.RING and one.context_parallel_degree > 1
                 else 1)
              * one.tensor_parallel_degree for one in strategies]
    least = _multiple(_MIN_TOKENS, math.lcm(*shares))
    whole: int = plan.model.layer_definitions[0].sequence_length
    return min(least, whole) if whole % math.lcm(*shares) == 0 else least


def _model(plan: Plan, shape: _Shape, strategies: Sequence[Strategy],
           widths: Widths | None) -> Any:
    model = messages.ModelSpec()
    model.CopyFrom(plan.model)
    model.precision = messages.pool().FindEnumTypeByName(
        "parplan.v1.Precision").values_by_name["PRECISION_FP32"].number
    tokens = _tokens(plan, strategies)
    for one in model.layer_definitions:
        one.sequence_length = tokens
        if widths is None:
            continue
        # Parameters follow from the sizes.
        one.parameter_count = 0
        one.hidden_size = widths.hidden
        if one.attention_head_count:
            one.attention_head_count = widths.heads
            one.key_value_head_count = widths.key_value_heads
            one.head_size = widths.head_size
        if one.feed_forward_size:
            one.feed_forward_size = widths.feed_forward
        if one.expert_feed_forward_size:
            one.expert_feed_forward_size = widths.feed_forward
        if one.shared_expert_feed_forward_size:
            one.shared_expert_feed_forward_size = widths.feed_forward
        # In a patch embedding these are the values of a patch, whose size stays.
        if one.vocabulary_size and messages.enum_name(
                "LayerKind", one.kind) != "LAYER_KIND_PATCH_EMBEDDING":
            one.vocabulary_size = widths.vocabulary
    del model.layer_runs[:]
    for stage in shape.stages:
        for layer in stage:
            model.layer_runs.add(layer_definition_id=layer.definition, layer_count=1)
    used = {run.layer_definition_id for run in model.layer_runs}
    definitions = [one for one in model.layer_definitions if one.layer_definition_id in used]
    del model.layer_definitions[:]
    model.layer_definitions.extend(definitions)
    return model


def _notes(plan: Plan, whole: _Shape, small: Plan, widths: Widths | None) -> Iterator[str]:
    if len(small.layers) < len(plan.layers):
        yield f"{len(small.layers)} of {len(plan.layers)} layers"
    if small.device_count < plan.device_count:
        yield f"{small.device_count} of {plan.device_count} ranks"
    if small.pipeline_parallel_degree < whole.degree:
        yield f"{small.pipeline_parallel_degree} of {whole.degree} places of the pipeline"
    if small.virtual_stage_count < whole.chunks:
        yield f"{small.virtual_stage_count} of {whole.chunks} rounds of virtual stages"
    if small.micro_batch_count < plan.micro_batch_count:
        yield f"{small.micro_batch_count} of {plan.micro_batch_count} micro-batches"
    if widths is not None:
        classes = ("classes" if plan.layer_kind(0) == "LAYER_KIND_PATCH_EMBEDDING"
                   else "vocabulary")
        yield (f"{widths.heads} heads of {widths.head_size}, {widths.hidden} elements a token, "
               f"feed-forward {widths.feed_forward}, {classes} {widths.vocabulary}")
    yield f"{small.model.layer_definitions[0].sequence_length} tokens a sample, fp32"
