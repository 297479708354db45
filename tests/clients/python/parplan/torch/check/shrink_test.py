"""Small copies of plans have every stage, boundary and strategy of the whole ones."""

import dataclasses
import random

import pytest
import signed_plans as plans
import torch_jobs as jobs

from parplan.errors import SpecInvalid
from parplan.strategy import ContextKind, Recompute, Schedule, Sharding, Strategy
from parplan.torch.check.shrink import shrink

# Levels that need no names of modules, which PyTorch does not repeat.
WHOLE_LEVELS = [level for level in Recompute if level != Recompute.MODULES]

WIDE = Strategy(1, 8, sharding=Sharding.PARAMETERS)
SPLIT = Strategy(8, 1, sequence_parallel=True, recompute=Recompute.FULL)
BOTH = Strategy(2, 4)
RING = Strategy(2, 2, context_parallel_degree=2)


def kinds_of(plan):
    """Returns the strategies of each stage, repeated ones once, by the ends it has."""
    found = set()
    for index, stage in enumerate(plan.stages):
        runs = []
        for layer in stage.layers:
            if not runs or runs[-1] != (layer.layer_definition_id, layer.strategy):
                runs.append((layer.layer_definition_id, layer.strategy))
        round_, place = divmod(index, plan.pipeline_parallel_degree)
        found.add((place == 0, place + 1 == plan.pipeline_parallel_degree, round_ == 0,
                   round_ + 1 == plan.virtual_stage_count, tuple(runs)))
    return found


def boundaries_of(plan):
    return {(before.layers[-1].strategy, after.layers[0].strategy)
            for before, after in zip(plan.stages, plan.stages[1:])}


@pytest.mark.parametrize("seed", range(150))
def test_random_plans_keep_what_distinguishes_them(seed):
    model, topology, payload = plans.random_plan(seed, plans.ISSUE_TIME)
    plan = plan_of(model, topology, payload)
    small = shrink(plan, max_ranks=64).plan
    assert kinds_of(small) == kinds_of(plan)
    assert boundaries_of(small) == boundaries_of(plan)
    assert small.device_count == plan.device_count
    assert (small.schedule, small.virtual_stage_count, small.has_tied_table) == (
        plan.schedule, plan.virtual_stage_count, plan.has_tied_table)
    assert len(small.layers) <= len(plan.layers)
    assert small.micro_batch_count <= plan.micro_batch_count


def plan_of(model, topology, payload):
    from parplan import Plan
    from parplan.envelope import TrustBundle
    return Plan.verify(plans.sign(payload.SerializeToString(), plans.FIRST),
                       TrustBundle.from_json(plans.trust(plans.FIRST)), model, topology,
                       time=plans.ISSUE_TIME)


def signs(numbers):
    return [[(one > other) - (one < other) for other in numbers] for one in numbers]


@pytest.mark.parametrize("seed", range(80))
def test_fewer_ranks_keep_the_order_of_all_degrees(seed):
    draw = random.Random(seed)
    rank_count = draw.choice([8, 16, 32, 64])
    stages = [[random_strategy(draw, rank_count) for _ in range(draw.randint(1, 3))]
              for _ in range(draw.choice([1, 2, 4]))]
    stages[0].insert(0, stages[0][0])
    stages[-1].append(stages[-1][-1])
    plan = big_plan(stages)
    try:
        small = shrink(plan, max_ranks=16).plan
    except SpecInvalid as error:
        # No smaller numbers keep these degrees apart.
        assert error.metadata["field"] == "--max-ranks"
        return
    assert small.device_count <= 16
    before = list(dict.fromkeys(layer.strategy for layer in plan.layers))
    after = list(dict.fromkeys(layer.strategy for layer in small.layers))
    assert len(before) == len(after)
    for degree in ("tensor_parallel_degree", "data_parallel_degree", "context_parallel_degree"):
        whole = [getattr(one, degree) for one in before]
        less = [getattr(one, degree) for one in after]
        assert signs([1, *whole]) == signs([1, *less])
        assert all(large % little == 0 for large, little in zip(whole, less))
    rest = {"tensor_parallel_degree": 1, "data_parallel_degree": 1, "context_parallel_degree": 1,
            "context_kind": ContextKind.RING}
    assert [dataclasses.replace(one, **rest) for one in before] == [
        dataclasses.replace(one, **rest) for one in after]


def random_strategy(draw, rank_count):
    tensor = draw.choice([one for one in (1, 2, 4, 8) if rank_count % one == 0])
    rest = rank_count // tensor
    context = draw.choice([1, 1, *(one for one in (2, 4) if rest % one == 0)])
    return Strategy(tensor, rest // context, draw.random() < 0.5, draw.choice(list(Sharding)),
                    draw.choice(WHOLE_LEVELS), tensor > 1 and draw.random() < 0.5, context, 1,
                    draw.choice([ContextKind.RING, ContextKind.ULYSSES]) if context > 1
                    else ContextKind.RING)


def big_plan(stages, micro_batch_count=8, **options):
    layer_count = sum(map(len, stages))
    model = plans.model_of(layer_count, sequence_length=1024)
    return jobs.plan_of(model, stages, is_run=False, batch=64 * micro_batch_count,
                        micro_batch_count=micro_batch_count, **options)


def test_equal_places_and_layers_are_left_out():
    """Worked by hand: 8 places of 8 ranks with 1 + 80 + 1 layers. Of a place one layer of each run
    is left, two of the first run, of places the first, one in the middle and the last; degrees 8
    and 8 become 2 and 2, so 3 places of 2 ranks are left."""
    stages = [[WIDE, *[SPLIT] * 10], *[[SPLIT] * 10] * 6, [*[SPLIT] * 10, WIDE]]
    small = shrink(big_plan(stages), max_ranks=8)
    assert small.plan.device_count == 6
    assert [len(stage.layers) for stage in small.plan.stages] == [3, 1, 2]
    assert small.kept == (0, 1, 2, 61, 71, 81)
    assert {(one.tensor_parallel_degree, one.data_parallel_degree)
            for one in (layer.strategy for layer in small.plan.layers)} == {(1, 2), (2, 1)}
    assert small.plan.micro_batch_count == 6
    assert small.widths.heads % 2 == 0 and small.widths.vocabulary % 2 == 0


def test_interleaved_plans_keep_two_rounds():
    stages = [[WIDE, *[SPLIT] * 2], *[[SPLIT] * 2] * 10, [*[SPLIT] * 2, WIDE]]
    small = shrink(big_plan(stages, schedule=Schedule.INTERLEAVED, virtual_stage_count=3),
                   max_ranks=8)
    assert small.plan.virtual_stage_count == 3
    assert small.plan.pipeline_parallel_degree == 3
    assert small.plan.micro_batch_count == 6


def test_groups_that_share_states_become_two_of_two():
    hybrid = dataclasses.replace(WIDE, sharding_degree=4)
    small = shrink(big_plan([[hybrid] * 4]), max_ranks=4)
    assert {layer.strategy for layer in small.plan.layers} == {
        Strategy(1, 4, sharding=Sharding.PARAMETERS, sharding_degree=2)}
    # Ranks that share experts stay in one of them.
    experts = dataclasses.replace(hybrid, expert_parallel_degree=4)
    small = shrink(big_plan([[experts] * 4]), max_ranks=4)
    assert {layer.strategy for layer in small.plan.layers} == {
        Strategy(1, 4, sharding=Sharding.PARAMETERS, sharding_degree=2, expert_parallel_degree=2)}


def test_more_ranks_than_allowed_are_refused_with_their_number():
    # 2 and 4 ways for data and for tokens, and 2 and 8 for matrices, need 8 ranks of a stage.
    stages = [[BOTH, RING, SPLIT, WIDE, WIDE]]
    with pytest.raises(SpecInvalid) as raised:
        shrink(big_plan(stages), max_ranks=4)
    assert "allow 8" in str(raised.value)


def test_few_enough_ranks_stay_as_they_are():
    plan = big_plan([[WIDE, SPLIT, BOTH, WIDE]])
    small = shrink(plan, max_ranks=8)
    assert [layer.strategy for layer in small.plan.layers] == [
        layer.strategy for layer in plan.layers]


def test_layers_of_a_model_with_widths_of_its_own_keep_them():
    plan = big_plan([[WIDE, SPLIT, BOTH, WIDE]])
    small = shrink(plan, max_ranks=8, keep_widths=True)
    assert small.widths is None
    assert small.plan.model.layer_definitions[1].hidden_size == 48
    assert small.plan.model.layer_definitions[1].sequence_length == 16
