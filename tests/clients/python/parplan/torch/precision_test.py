"""With bf16, parameters and sums of gradients have 32 bits, and layers compute with 16."""

import copy
import dataclasses

import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs

import parplan.torch
from parplan.errors import SpecInvalid
from parplan.strategy import Recompute, Sharding, Strategy
from parplan.torch.check import steps
from parplan.torch.precision import parameter_type
from parplan.torch.refusals import check_plan

NARROW = Strategy(1, 2)


def emulate(model, plan, inputs, targets):
    """Returns the loss and the gradients of one process that computes each rank's share of each
    micro-batch with copies in 16 bits and adds up in 32."""
    degree = plan.layers[0].strategy.data_parallel_degree
    parts = degree * plan.micro_batch_count
    sums = {name: torch.zeros_like(one) for name, one in model.named_parameters()}
    total = 0.0
    for some, wanted in zip(inputs.chunk(parts), targets.chunk(parts)):
        narrow = copy.deepcopy(model).to(torch.bfloat16)
        loss = jobs.loss_fn(narrow(some), wanted) / parts
        loss.backward()
        total += loss.item()
        for name, one in narrow.named_parameters():
            sums[name] += one.grad.float()
    for name, one in model.named_parameters():
        one.grad = sums[name]
    return total


def compare(stages, options, is_half):
    plan = jobs.plan_of(jobs.spec_of("plain", sum(map(len, stages))), stages, **options)
    model = jobs.model_of("plain", len(plan.layers))
    if is_half:
        model = model.to(torch.bfloat16)
    reference = copy.deepcopy(model).float()
    run = parplan.torch.apply(plan, model, jobs.loss_fn, tensor_plan=jobs.TENSOR_PLAN,
                              precision="bf16", optimizer=torch.optim.SGD, device="cpu")
    inputs, targets = jobs.batch_of(plan.global_batch_size)
    expected = emulate(reference, plan, inputs, targets)
    loss = run.step(inputs, targets).item()
    types = {one.dtype for one in run.parameters()} | {one.grad.dtype for one in run.parameters()}
    return abs(loss - expected) / expected, jobs.worst_difference(run, reference), types


def test_shares_are_computed_in_16_bits_and_added_up_in_32(tmp_path):
    kinds = [NARROW, *(dataclasses.replace(NARROW, sharding=one)
                       for one in (Sharding.OPTIMIZER, Sharding.GRADIENTS, Sharding.PARAMETERS))]
    full = dataclasses.replace(NARROW, recompute=Recompute.FULL)
    options = {"batch": 8, "micro_batch_count": 4}
    cases = [([[one] * 4], options, number == 0) for number, one in enumerate(kinds)]
    cases.append(([[kinds[0], full, kinds[3], kinds[1]]], options, False))
    cases.append(([[kinds[3]] * 2 + [kinds[0]] * 2], options, True))
    for case, ranks in zip(cases, jobs.run_ranks(2, tmp_path, compare, cases)):
        for loss, (difference, name), types in ranks:
            # Adding up in 16 bits would be wrong by 1e-3.
            assert loss < 1e-6 and difference < 1e-5, (case, loss, difference, name)
            assert types == {torch.float32}, case


def test_a_pipeline_and_tensor_parallelism_compute_in_16_bits(tmp_path):
    one = Strategy(1, 1)
    cases = [([[one, one], [one, one]], {"batch": 4, "micro_batch_count": 2}, False)]
    for loss, (difference, name), types in jobs.run_ranks(2, tmp_path, compare, cases)[0]:
        assert loss < 1e-6 and difference < 1e-5, (loss, difference, name)
        assert types == {torch.float32}
    wide, split = Strategy(2, 1), Strategy(2, 1, sequence_parallel=True)
    cases = [([[wide, split, wide, wide]], {"batch": 4, "micro_batch_count": 2}, False)]
    folder = tmp_path / "split"
    folder.mkdir()
    for loss, (difference, name), types in jobs.run_ranks(2, folder, compare, cases)[0]:
        # Sums of activations are in 16 bits there.
        assert loss < 1e-2 and 1e-5 < difference < 0.1, (loss, difference, name)
        assert types == {torch.float32}


def test_each_precision_of_the_contract_has_a_type_of_parameters():
    assert [parameter_type(one) for one in (1, 2, 3)] == [
        torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("precision, name", [(0, "PRECISION_UNSPECIFIED"), (99, "99")])
def test_a_precision_that_is_not_known_is_refused_and_not_taken_as_fp32(precision, name):
    model = plans.model_of(4)
    model.precision = precision
    plan = jobs.plan_of(model, [[NARROW] * 4], batch=4, micro_batch_count=2)
    with pytest.raises(SpecInvalid, match=f"{name} is not known to this release") as raised:
        steps.dtype_of(plan)
    assert raised.value.metadata["field"] == "precision"


def test_products_of_8_and_4_bits_and_frozen_layers_are_refused():
    module = jobs.model_of("plain", 4)
    cases = [("precision", 4, {}), ("precision", 9, {}), ("layer 1", 1, {"frozen": True})]
    for field, precision, decoder in cases:
        model = plans.model_of(4, **decoder)
        model.precision = precision
        plan = jobs.plan_of(model, [[NARROW] * 4], batch=4, micro_batch_count=2)
        with pytest.raises(SpecInvalid) as raised:
            check_plan(plan, module, list(module.children()))
        assert raised.value.metadata["field"] == field
