"""Split backward passes: ZB-H1 gives the loss and every gradient of one process."""

import random

import pytest
import torch_jobs as jobs

import parplan.torch
from parplan.errors import SpecInvalid
from parplan.strategy import ContextKind, Recompute, Schedule, Sharding, Strategy
from parplan.torch.refusals import check_plan

RANKS = 4
# Largest difference of a gradient in parts of its largest value, in fp32, as in parity_test.py.
TOLERANCE = 1e-4
KINDS = ("plain", "encoder", "gpt2", "llama", "qwen3", "vit", "bert")


def random_case(seed):
    """Returns the kind of a model, its stages, the options of a plan and whether it is tied."""
    draw = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    degree = draw.choice([2, 4])
    layer_count = draw.randint(max(4, degree), 7)
    cuts = sorted(draw.sample(range(1, layer_count), degree - 1))
    is_tied = kind != "vit" and draw.random() < 0.3
    ranks = RANKS // degree

    def strategy(is_end):
        if kind == "vit" and is_end:
            return Strategy(1, ranks)
        tensor, data, context = draw.choice([(ranks, 1, 1), (1, ranks, 1), (1, 1, ranks)])
        return Strategy(tensor, data, context_parallel_degree=context,
                        sequence_parallel=tensor > 1 and draw.random() < 0.5,
                        context_kind=draw.choice([ContextKind.RING, ContextKind.ULYSSES])
                        if context > 1 else ContextKind.RING)

    strategies = [strategy(index in (0, layer_count - 1)) for index in range(layer_count)]
    if is_tied:
        strategies[0] = strategies[-1]
    stages = [strategies[begin:end] for begin, end in zip([0, *cuts], [*cuts, layer_count])]
    micro_batches = draw.choice([1, 2, 3, 5, 6])
    return kind, stages, {"batch": 2 * micro_batches, "micro_batch_count": micro_batches,
                          "schedule": Schedule.ZERO_BUBBLE}, is_tied


def run_case(kind, stages, options, is_tied):
    layer_count = sum(map(len, stages))
    plan = jobs.plan_of(jobs.spec_of(kind, layer_count, is_tied), stages, **options)
    model = jobs.model_of(kind, layer_count, is_tied)
    return jobs.compare_one_step(plan, model, call=jobs.CALLS[kind], kind=kind,
                                 tensor_plan=jobs.TENSOR_PLANS[kind])


def test_random_plans_give_the_gradients_of_one_process(tmp_path):
    cases = [random_case(seed) for seed in range(14)]
    assert {len(case[1]) for case in cases} == {2, 4}
    assert any(case[2]["micro_batch_count"] > len(case[1]) for case in cases)
    assert any(one.tensor_parallel_degree > 1 for case in cases for one in case[1][0])
    for case, ranks in zip(cases, jobs.run_ranks(RANKS, tmp_path, run_case, cases)):
        for rank, found in enumerate(ranks):
            assert found["loss"] <= TOLERANCE, (case, rank, found)
            assert found["gradient"] <= TOLERANCE, (case, rank, found)


def passes_of_a_step():
    """Returns the names of this rank's passes in the order in which they ran."""
    half = [Strategy(1, 1)] * 2
    plan = jobs.plan_of(jobs.spec_of("plain", 4), [half, half], batch=3, micro_batch_count=3,
                        schedule=Schedule.ZERO_BUBBLE)
    run = parplan.torch.apply(plan, jobs.model_of("plain", 4), jobs.loss_fn, device="cpu")
    recorder = parplan.torch.spans.Recorder(next(run.parameters()).device)
    with recorder:
        run.step(*jobs.batch_of(3))
    return [one.name for one in recorder.spans if one.name[:2] in
            {f"{stage}{letter}" for stage in (0, 1) for letter in "FBIW"}]


def test_passes_run_in_the_order_of_the_plan(tmp_path):
    first, last = jobs.run_ranks(2, tmp_path, passes_of_a_step, [()])[0]
    assert first == ["0F0", "0F1", "0I0", "0W0", "0F2", "0I1", "0W1", "0I2", "0W2"]
    assert last == ["1F0", "1I0", "1F1", "1I1", "1W0", "1F2", "1I2", "1W1", "1W2"]


@pytest.mark.parametrize("layer, words", [
    (Strategy(1, 2, sharding=Sharding.GRADIENTS), "sharded"),
    (Strategy(1, 2, recompute=Recompute.FULL), "recomputes")])
def test_what_does_not_go_with_split_passes_is_refused(layer, words):
    plan = jobs.plan_of(jobs.spec_of("plain", 4), [[Strategy(1, 2), layer], [Strategy(1, 2)] * 2],
                        is_run=False, batch=2, micro_batch_count=1, schedule=Schedule.ZERO_BUBBLE)
    model = jobs.model_of("plain", 4)
    with pytest.raises(SpecInvalid, match=words):
        check_plan(plan, model, list(model))
