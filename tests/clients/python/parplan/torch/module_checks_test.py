"""Modules that shares of a batch would change: refused before the first step, with their name."""

import pytest
import torch
import torch_jobs as jobs
from torch import nn

import parplan.torch
from parplan.errors import SpecInvalid
from parplan.strategy import Strategy
from parplan.torch.refusals import check_plan


def plan_with(strategy, kind="plain", micro_batches=1, layer_count=4):
    """Returns a plan of a model whose layers all have one strategy."""
    return jobs.plan_of(jobs.spec_of(kind, layer_count), [[strategy] * layer_count], batch=24,
                        micro_batch_count=micro_batches)


def refusal(model, strategy, micro_batches=1, kind="plain"):
    """Returns the error of checking a model under a plan, which needs no ranks."""
    plan = plan_with(strategy, kind, micro_batches)
    with pytest.raises(SpecInvalid) as raised:
        check_plan(plan, model, parplan.torch.find_layers(model, plan))
    return raised.value


def is_allowed(model, strategy, micro_batches=1, kind="plain"):
    plan = plan_with(strategy, kind, micro_batches)
    check_plan(plan, model, parplan.torch.find_layers(model, plan))
    return True


ONE, REPLICAS, SPLIT = Strategy(1, 1), Strategy(1, 2), Strategy(2, 1)


def test_a_parameter_in_no_layer_is_refused_by_its_name():
    model = jobs.model_of("plain", 4)
    layers = list(model.children())
    model.register_parameter("scale", nn.Parameter(torch.ones(3)))
    error = refusal(model, ONE)
    assert error.metadata["field"] == "layers" and "scale" in error.message
    assert "take it out" in error.message
    model = jobs.model_of("llama", 4)
    model.extra = nn.Linear(2, 2)
    error = refusal(model, ONE, kind="llama")
    assert "extra.weight and 1 more" in error.message
    with pytest.raises(SpecInvalid) as raised:
        check_plan(plan_with(ONE), nn.Sequential(*layers[:2]), layers)
    assert raised.value.metadata["field"] == "layer 2" and "none of the model" in \
        raised.value.message
