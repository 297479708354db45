"""A step under any plan gives the loss and every gradient of one process, on 4 ranks of gloo."""

import dataclasses
import random

import pytest
import torch
import torch_jobs as jobs

from parplan.strategy import ContextKind, Recompute, Schedule, Sharding, Strategy
from parplan.torch import data_parallel, experts, grids, reshard

# Levels that need no names of modules, which PyTorch does not repeat.
WHOLE_LEVELS = [level for level in Recompute if level != Recompute.MODULES]

RANKS = 4
# Largest difference of a gradient in parts of its largest value, in fp32.
TOLERANCE = 1e-4
CASES_PER_JOB = 20


KINDS = ("plain", "encoder", "experts", "gpt2", "llama", "qwen3_moe", "vit", "qwen3", "bert")
HAVE_EXPERTS = ("experts", "qwen3_moe")


def random_strategy(draw, kind, rank_count, is_end):
    degrees = [one for one in (1, 2, 4) if rank_count % one == 0]
    if kind == "vit" and is_end:
        # Its embedding has no matrix that tensor parallelism splits, and its head needs all tokens.
        return Strategy(1, rank_count, True, draw.choice(list(Sharding)))
    tensor = draw.choice(degrees)
    context = draw.choice([1, *(one for one in degrees if rank_count // tensor % one == 0)])
    expert = 1
    if kind in HAVE_EXPERTS and not is_end:
        expert = draw.choice([1, *(one for one in degrees if rank_count // tensor % one == 0)][-2:])
    return Strategy(
        tensor, rank_count // tensor // context,
        tensor in (1, rank_count) or draw.random() < 0.5, draw.choice(list(Sharding)),
        Recompute.NONE if is_end else draw.choice(WHOLE_LEVELS),
        tensor > 1 and draw.random() < 0.5, context, expert,
        draw.choice([ContextKind.RING, ContextKind.ULYSSES]) if context > 1 else ContextKind.RING)


def random_case(seed):
    """Returns the kind of a model, its stages, the options of a plan and whether it is tied."""
    draw = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    degree, chunks = draw.choice([(1, 1), (2, 1), (2, 2), (4, 1), (2, 2)])
    layer_count = draw.randint(max(4, degree * chunks), 6)
    cuts = sorted(draw.sample(range(1, layer_count), degree * chunks - 1))
    is_tied = kind != "vit" and draw.random() < 0.3
    strategies = [random_strategy(draw, kind, RANKS // degree, index in (0, layer_count - 1))
                  for index in range(layer_count)]
    if is_tied:
        strategies[0] = strategies[-1]
    stages = [strategies[begin:end] for begin, end in zip([0, *cuts], [*cuts, layer_count])]
    micro_batches = draw.choice([1, 2, 3]) * (degree if chunks > 1 else 1)
    schedule = (Schedule.INTERLEAVED if chunks > 1 else
                draw.choice([Schedule.ONE_FORWARD_ONE_BACKWARD, Schedule.GPIPE]))
    return kind, stages, {"batch": 4 * micro_batches, "micro_batch_count": micro_batches,
                          "schedule": schedule, "virtual_stage_count": chunks}, is_tied


def run_case(kind, stages, options, is_tied, break_it=None):
    layer_count = sum(map(len, stages))
    plan = jobs.plan_of(jobs.spec_of(kind, layer_count, is_tied), stages, **options)
    model = jobs.model_of(kind, layer_count, is_tied)
    with pytest.MonkeyPatch.context() as patch:
        if break_it is not None:
            break_it(patch)
        return jobs.compare_one_step(plan, model, call=jobs.CALLS[kind], kind=kind,
                                     tensor_plan=jobs.TENSOR_PLANS[kind])


def check(answers, cases):
    for case, ranks in zip(cases, answers):
        for rank, found in enumerate(ranks):
            assert found["loss"] <= TOLERANCE, (case, rank, found)
            assert found["gradient"] <= TOLERANCE, (case, rank, found)


def is_run_here(case):
    """Returns whether this release of PyTorch runs a case: old ones shard nothing on processors."""
    return jobs.SHARDS_HERE or not any(
        data_parallel.is_sharded(one) for stage in case[1] for one in stage)


@pytest.mark.parametrize("first_seed", range(0, 60, CASES_PER_JOB))
def test_random_plans_give_the_gradients_of_one_process(tmp_path, first_seed):
    cases = [case for case in map(random_case, range(first_seed, first_seed + CASES_PER_JOB))
             if is_run_here(case)]
    assert cases
    check(jobs.run_ranks(RANKS, tmp_path, run_case, cases), cases)


def test_the_random_plans_have_every_dimension():
    cases = [random_case(seed) for seed in range(60)]
    strategies = [one for case in cases for stage in case[1] for one in stage]
    assert {case[0] for case in cases} == set(KINDS)
    assert {len(case[1]) for case in cases} == {1, 2, 4}
    assert {case[2]["schedule"] for case in cases} == set(Schedule) - {Schedule.ZERO_BUBBLE}
    assert {case[3] for case in cases} == {True, False}
    assert {one.sharding for one in strategies} == set(Sharding)
    assert {one.recompute for one in strategies} == set(WHOLE_LEVELS)
    assert {one.tensor_parallel_degree for one in strategies} == {1, 2, 4}
    assert {one.sequence_parallel for one in strategies} == {True, False}
    assert {(one.context_parallel_degree, one.context_kind) for one in strategies} == {
        (1, ContextKind.RING), (2, ContextKind.RING), (4, ContextKind.RING),
        (2, ContextKind.ULYSSES), (4, ContextKind.ULYSSES)}
    assert {one.tensor_innermost for one in strategies} == {True, False}
    spread = [one for case in cases if case[0] in HAVE_EXPERTS
              for stage in case[1] for one in stage if one.expert_parallel_degree > 1]
    assert {one.expert_parallel_degree for one in spread} == {2, 4}
    assert {one.tensor_parallel_degree for one in spread} == {1, 2}
    assert len({one.sharding for one in spread}) > 2
    mixed = [case for case in cases
             if len({one.data_parallel_degree for stage in case[1] for one in stage}) > 1]
    assert len(mixed) > 30


def average_instead_of_adding_up(patch):
    """The fault of layers side by side with other data-parallel degrees: each averages over its
    own group."""
    def finish(self, done, real=data_parallel.LayerGradients.finish):
        real(self, done)
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                data_parallel.local_of(parameter.grad).div_(self._strategy.gradient_degree)

    patch.setattr(data_parallel.LayerGradients, "finish", finish)


def forget_partial_gradients(patch):
    def init(self, module, strategy, gradient, tensor, partial,
             real=data_parallel.LayerGradients.__init__, **options):
        real(self, module, strategy, gradient, tensor, set(), **options)

    patch.setattr(data_parallel.LayerGradients, "__init__", init)


def return_no_gradients_of_experts(patch):
    def backward(ctx, gradient):
        return torch.zeros_like(experts._sent(gradient, *ctx.arguments)), None, None, None

    patch.setattr(experts._Exchanged, "backward", staticmethod(backward))


def move_no_gradients(patch):
    def backward(ctx, gradient):
        return torch.zeros_like(ctx.direction.run(gradient)), None, None

    patch.setattr(reshard._Moved, "backward", staticmethod(backward))


def forget_the_sum_between_groups(patch):
    """The fault of hybrid sharding: each group keeps the gradients of its own samples."""
    def gradient(self, strategy, real=grids.Grids.gradient):
        made = real(self, strategy)
        return made[grids.SHARD] if strategy.sharding_degree else made

    patch.setattr(grids.Grids, "gradient", gradient)


def change_nothing(patch):
    """Is no fault: the same case passes, so that the faults are what is seen."""


# Groups of two of four ranks share states in the layers that shard; the ends shard otherwise.
HYBRID = [Strategy(1, RANKS, sharding=level, sharding_degree=2) for level in
          (Sharding.OPTIMIZER, Sharding.GRADIENTS, Sharding.PARAMETERS)]
HYBRID_RING = Strategy(1, 2, context_parallel_degree=2, sharding=Sharding.PARAMETERS,
                       sharding_degree=2)


def hybrid_cases():
    """Returns cases with every level alone and side by side, with and without shared tokens and
    recomputation, of one and three micro-batches, and with a table that both ends share."""
    wide = Strategy(1, RANKS)
    usual = dataclasses.replace(wide, sharding=Sharding.PARAMETERS)
    again = dataclasses.replace(HYBRID[2], recompute=Recompute.FULL)
    for kind in ("plain", "llama"):
        for count in (1, 3):
            options = {"batch": 4 * count, "micro_batch_count": count}
            for level in HYBRID:
                yield kind, [[level] * 4], options, False
            yield kind, [[wide, *HYBRID, usual, wide]], options, False
            yield kind, [[HYBRID[1], HYBRID_RING, again, HYBRID[1]]], options, True


@pytest.mark.skipif(not jobs.SHARDS_HERE, reason="the cases have sharded layers")
def test_groups_that_share_states_give_the_gradients_of_one_process(tmp_path):
    cases = list(hybrid_cases())
    check(jobs.run_ranks(RANKS, tmp_path, run_case, cases), cases)


@pytest.mark.skipif(not jobs.SHARDS_HERE, reason="the cases have sharded layers")
def test_groups_share_states_beside_tensor_parallelism_and_in_pipelines(tmp_path):
    """Eight ranks: two share each matrix, or two stages have four each."""
    cases = []
    for level in (Sharding.OPTIMIZER, Sharding.PARAMETERS):
        for innermost in (True, False):
            split = Strategy(2, 4, innermost, level, sequence_parallel=True, sharding_degree=2)
            cases.append(("llama", [[split] * 4], {"batch": 8, "micro_batch_count": 2}, False))
        one = Strategy(1, 4, sharding=level, sharding_degree=2)
        cases.append(("plain", [[one] * 2, [one] * 2], {"batch": 8, "micro_batch_count": 2}, False))
    check(jobs.run_ranks(2 * RANKS, tmp_path, run_case, cases), cases)


@pytest.mark.skipif(not jobs.SHARDS_HERE, reason="the cases have sharded layers")
def test_planted_faults_are_seen(tmp_path):
    """One job for all of them, since ranks that begin anew take longer than their steps."""
    wide = Strategy(1, RANKS)
    spread = Strategy(1, RANKS, expert_parallel_degree=2)
    split = Strategy(2, 2, sequence_parallel=True)
    mixed = ("experts", [[wide, split, spread,
                          dataclasses.replace(wide, sharding=Sharding.PARAMETERS), wide]])
    hybrid = ("plain", [[HYBRID[1]] * 4])
    options = {"batch": 4, "micro_batch_count": 1}
    faults = [(*mixed, average_instead_of_adding_up), (*mixed, forget_partial_gradients),
              (*mixed, move_no_gradients), (*mixed, return_no_gradients_of_experts),
              (*hybrid, forget_the_sum_between_groups)]
    # Behind them the same cases pass.
    cases = [(kind, stages, options, False, fault) for kind, stages, fault in (
        *faults, (*mixed, change_nothing), (*hybrid, change_nothing))]
    for case, answers in zip(cases, jobs.run_ranks(RANKS, tmp_path, run_case, cases)):
        worst = max(found["gradient"] for found in answers)
        if case[-1] is change_nothing:
            assert worst <= TOLERANCE, case
        else:
            assert worst > 100 * TOLERANCE, case
