"""Selective recomputation by operator: as the plan says, with the gradients of one process."""

import collections
import dataclasses

import pytest
import torch
import torch_jobs as jobs
from measured_models import WIDTH, Block
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import parplan
from parplan.strategy import (ContextKind, Recompute, RecomputePolicy, Schedule, Sharding,
                              Strategy)
from parplan.torch.attention import Attention
from parplan.torch.recompute import OPERATORS, check_policy, contexts_of
from parplan.torch.stage import Layer


class Calls(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.counts[str(function)] += 1
        return function(*args, **(kwargs or {}))


def calls_of(body, level, policy=None):
    """Returns the calls of operators in a forward and a backward pass of a layer."""
    attention = Attention(0, ContextKind.RING, level if policy is None else Recompute.NONE, None,
                          is_transformer=True)
    layer = Layer(body, level, attention, None, None if policy is None else contexts_of(policy))
    hidden = torch.randn(2, jobs.TOKENS, jobs.HIDDEN if isinstance(body, jobs.Block) else WIDTH,
                         requires_grad=True)
    with Calls() as calls:
        layer(hidden).square().sum().backward()
    return calls.counts


@pytest.mark.parametrize(("policy", "repeated"), [
    # Four products; after the third result nothing more is needed.
    (OPERATORS, 1), (dataclasses.replace(OPERATORS, recomputed_product_interval=0), 0),
    (RecomputePolicy("op"), 3)])
def test_products_are_computed_again_as_the_policy_says(policy, repeated):
    body = nn.Sequential(Block(False), Block(False))
    usual = calls_of(body, Recompute.NONE)["aten.mm.default"]
    assert usual == 4 + 8
    assert calls_of(body, Recompute.SELECTIVE, policy)["aten.mm.default"] == usual + repeated


def test_attention_is_computed_again_by_one_policy_and_saved_by_the_other():
    name = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    body = jobs.Block()
    assert calls_of(body, Recompute.NONE)[name] == 1
    assert calls_of(body, Recompute.SELECTIVE)[name] == 2
    assert calls_of(body, Recompute.SELECTIVE, OPERATORS)[name] == 1
    assert calls_of(body, Recompute.FULL)[name] == 2


def op_message():
    return parplan.wire.messages.RecomputePolicy(
        selective_ac_option="op", saved_operators=OPERATORS.saved_operators,
        recomputed_product_interval=2)


def run_case(kind, stages, options):
    layer_count = sum(map(len, stages))
    plan = jobs.plan_of(jobs.spec_of(kind, layer_count), stages, recompute_policy=op_message(),
                        **options)
    assert plan.recompute_policy == OPERATORS
    return jobs.compare_one_step(plan, jobs.model_of(kind, layer_count), call=jobs.CALLS[kind],
                                 kind=kind, tensor_plan=jobs.TENSOR_PLANS[kind])


SELECTIVE = Recompute.SELECTIVE
CASES = [
    ("llama", [[Strategy(1, 4), Strategy(2, 2, recompute=SELECTIVE, sequence_parallel=True),
                Strategy(1, 4, sharding=Sharding.PARAMETERS, recompute=SELECTIVE),
                Strategy(2, 2, recompute=SELECTIVE), Strategy(1, 4)]],
     {"batch": 8, "micro_batch_count": 2}),
    ("plain", [[Strategy(1, 2), Strategy(1, 1, recompute=SELECTIVE, context_parallel_degree=2)],
               [Strategy(1, 1, recompute=SELECTIVE, context_parallel_degree=2,
                         context_kind=ContextKind.ULYSSES), Strategy(1, 2)]],
     {"batch": 6, "micro_batch_count": 3, "schedule": Schedule.GPIPE}),
    ("qwen3_moe", [[Strategy(1, 4), Strategy(1, 4, expert_parallel_degree=2, recompute=SELECTIVE),
                    Strategy(2, 2, recompute=SELECTIVE), Strategy(1, 4)]],
     {"batch": 4, "micro_batch_count": 1}),
    ("gpt2", [[Strategy(1, 4), Strategy(4, 1, recompute=SELECTIVE), Strategy(1, 4)]],
     {"batch": 4, "micro_batch_count": 1})]


def test_a_step_has_the_gradients_of_one_process(tmp_path):
    answers = jobs.run_ranks(4, tmp_path, run_case, CASES)
    for case, ranks in zip(CASES, answers):
        for found in ranks:
            assert found["loss"] <= 1e-4 and found["gradient"] <= 1e-4, (case, found)


def test_what_is_not_known_is_refused_before_the_first_step():
    check_policy(OPERATORS)
    check_policy(RecomputePolicy())
    # An operator that this release of PyTorch lacks is never called.
    check_policy(RecomputePolicy("op", ("aten.nothing_of_the_kind.default",)))
    for policy, field in ((RecomputePolicy("memory_budget"), "selective_ac_option"),
                          (RecomputePolicy("op", ("mm",)), "saved_operators")):
        with pytest.raises(parplan.errors.SpecInvalid) as raised:
            check_policy(policy)
        assert raised.value.metadata["field"] == f"recompute_policy.{field}"
