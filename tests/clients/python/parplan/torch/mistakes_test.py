"""What a first program gets wrong is refused with what to do instead."""

import functools

import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs

import parplan.torch
from parplan.errors import SpecInvalid, TopologyMismatch
from parplan.strategy import Strategy


def start(stages=None, model=None, **options):
    plan = jobs.plan_of(plans.model_of(4), stages or [[Strategy(1, 1)] * 4], batch=4,
                        micro_batch_count=2)
    return parplan.torch.apply(plan, model or jobs.model_of("plain", 4), jobs.loss_fn, device="cpu",
                               **options)


def test_a_job_without_process_group_is_told_to_make_one():
    with pytest.raises(TopologyMismatch, match="for 2 ranks.*init_process_group"):
        start([[Strategy(1, 2)] * 4])


def test_a_model_with_other_layers_is_told_what_layers_are():
    with pytest.raises(SpecInvalid, match="has 5 layers, the plan 4.*embedding and the head"):
        start(model=jobs.model_of("plain", 5))


class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = jobs.model_of("plain", 4)


def test_a_model_of_its_own_class_needs_its_layers():
    with pytest.raises(SpecInvalid, match="Own is no nn.Sequential.*give its layers as `layers`"):
        start(model=Own())
    model = Own()
    run = start(model=model, layers=list(model.blocks))
    assert run.step(*jobs.batch_of(4)) > 0


@pytest.mark.parametrize("name, is_optimizer", [("optimizer", True), ("schedule", False)])
def test_one_that_is_made_already_is_refused(name, is_optimizer):
    model = jobs.model_of("plain", 4)
    optimizer = torch.optim.AdamW(model.parameters())
    options = {"optimizer": optimizer}
    if not is_optimizer:
        options = {"optimizer": torch.optim.AdamW,
                   "schedule": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)}
    with pytest.raises(SpecInvalid, match="must be a function that makes one") as raised:
        start(model=model, **options)
    assert raised.value.metadata["field"] == name
    # The error asks for these two functions.
    run = start(optimizer=functools.partial(torch.optim.AdamW, lr=1e-4),
                schedule=lambda made: torch.optim.lr_scheduler.CosineAnnealingLR(made, 1000))
    assert run.optimizers[0].param_groups[0]["lr"] == pytest.approx(1e-4)


def test_batches_of_another_form_are_refused_and_the_run_goes_on():
    run = start()
    inputs, targets = jobs.batch_of(4)
    with pytest.raises(SpecInvalid, match="must be a tensor, not dict.*input_ids"):
        run.step({"input_ids": inputs, "labels": targets}, targets)
    with pytest.raises(SpecInvalid, match="4 samples, not 2 and 2; each rank gives the whole"):
        run.step(inputs[:2], targets[:2])
    assert run.step(inputs, targets) > 0
