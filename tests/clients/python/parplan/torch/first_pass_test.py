"""What the first pass over a layer shows: refused with the name of the module."""

import functools

import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs
from torch import nn

import parplan.torch
from parplan.errors import SpecInvalid
from parplan.strategy import Recompute, Strategy
from parplan.torch.first_pass import FirstPass
from parplan.torch.module_checks import Shares, module_names

ALL = Shares(passes=2, has_split_tokens=False, has_shared_samples=True, has_copies=True,
             runs_again=True)
ALONE = Shares(passes=1, has_split_tokens=False, has_shared_samples=False, has_copies=False,
               runs_again=False)


class Calls(nn.Module):
    """Calls a function, which no attribute tells of."""

    def __init__(self, function):
        super().__init__()
        self.call = lambda x: function(x)

    def forward(self, x):
        return self.call(x)


def watched(module, shares):
    x = torch.randn(4, 6, 8, requires_grad=True)
    model = nn.Sequential(nn.Identity(), nn.Sequential(module))
    watch = FirstPass(1, module_names(model), shares)
    with watch.over(model[1]):
        model[1](x)
    # Nothing is left of it.
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())


def error_of(module, shares=ALL):
    with pytest.raises(SpecInvalid) as raised:
        watched(module, shares)
    assert raised.value.metadata["field"] == "layer 1"
    assert "1.0 (" in raised.value.message
    return raised.value.message


def attend(x, **options):
    rows = x.unflatten(-1, (2, 4)).transpose(1, 2)
    return nn.functional.scaled_dot_product_attention(rows, rows, rows, **options)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += x.shape[0]
        return x


def test_random_numbers_are_refused_where_ranks_share_samples():
    for draw in (lambda x: nn.functional.dropout(x, 0.5), lambda x: attend(x, dropout_p=0.5),
                 lambda x: x + torch.randn_like(x), lambda x: x * torch.rand(8),
                 lambda x: x + torch.empty_like(x).uniform_()):
        assert "draws random numbers" in error_of(Calls(draw))
        watched(Calls(draw), ALONE)
    for calm in (lambda x: nn.functional.dropout(x, 0.0), attend,
                 lambda x: nn.functional.dropout(x, 0.5, training=False), torch.empty_like,
                 functools.partial(attend, is_causal=True)):
        watched(Calls(calm), ALL)


def test_statistics_of_a_batch_are_refused_by_the_operator():
    def norm(x, **options):
        return nn.functional.batch_norm(x, None, None, training=True, **options)

    assert "takes statistics" in error_of(Calls(norm))
    watched(Calls(norm), ALONE)
    mean, variance = torch.zeros(6), torch.ones(6)
    watched(Calls(lambda x: nn.functional.batch_norm(x, mean, variance)), ALL)
    watched(nn.InstanceNorm1d(6), ALL)
    watched(nn.GroupNorm(2, 6), ALL)


def test_buffers_that_change_are_refused():
    assert "its buffer seen" in error_of(Counting())
    watched(Counting(), ALONE)
    again = Shares(1, False, False, False, runs_again=True)
    assert "its buffer seen" in error_of(Counting(), again)
    # Power iterations change two.
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
    with pytest.raises(SpecInvalid) as raised:
        watched(spectral, ALL)
    assert "its buffer _u" in raised.value.message


def apply_alone(change, **strategy):
    plan = jobs.plan_of(plans.model_of(4), [[Strategy(1, 1, **strategy)] * 4], batch=4,
                        micro_batch_count=2)
    model = jobs.model_of("plain", 4)
    change(model)
    return parplan.torch.apply(plan, model, jobs.loss_fn, device="cpu")


@pytest.mark.parametrize("strategy", [{}, {"recompute": Recompute.FULL}])
def test_a_step_watches_its_first_pass(strategy):
    def count(model):
        model[2].second_norm = Counting()

    with pytest.raises(SpecInvalid) as raised:
        apply_alone(count, **strategy).step(*jobs.batch_of(4))
    assert raised.value.metadata["field"] == "layer 2"
    assert "2.second_norm (Counting)" in raised.value.message
    run = apply_alone(lambda model: None, **strategy)
    for seed in range(2):
        run.step(*jobs.batch_of(4, seed=seed))


def drop_by_a_function(strategy):
    """Returns the error of a step whose first layer drops values by a call alone."""
    plan = jobs.plan_of(plans.model_of(4), [[Strategy(1, 2), strategy, *[Strategy(1, 2)] * 2]],
                        batch=4, micro_batch_count=1)
    model = jobs.model_of("plain", 4)
    model[1].second_norm = nn.Sequential(
        model[1].second_norm, Calls(lambda x: nn.functional.dropout(x, 0.5)))
    run = parplan.torch.apply(plan, model, jobs.loss_fn, tensor_plan=jobs.TENSOR_PLAN,
                              device="cpu")
    with pytest.raises(SpecInvalid) as raised:
        run.step(*jobs.batch_of(4))
    return raised.value.metadata["field"], raised.value.message


def test_ranks_that_share_samples_are_refused_by_what_they_draw(tmp_path):
    cases = [(Strategy(2, 1),), (Strategy(1, 1, context_parallel_degree=2),)]
    for ranks in jobs.run_ranks(2, tmp_path, drop_by_a_function, cases):
        for field, message in ranks:
            assert field == "layer 1" and "1.second_norm.1 (Calls)" in message, message
