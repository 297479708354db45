"""Optimizers and schedules: what one process does, and refusals by name."""

import copy
import functools

import pytest
import torch
import torch_jobs as jobs
from torch.optim import lr_scheduler

import parplan
import parplan.torch
from parplan.strategy import Sharding, Strategy
from parplan.torch.updates import Updates

STAGES = [[Strategy(1, 2, sharding=Sharding.PARAMETERS), Strategy(2, 1),
           Strategy(1, 2, sharding=Sharding.OPTIMIZER), Strategy(1, 2)]]
# Large values where a gradient that is rounding alone would else be divided by its own size.
OPTIMIZERS = [
    functools.partial(torch.optim.SGD, lr=0.2, momentum=0.9, nesterov=True, weight_decay=0.1),
    functools.partial(torch.optim.Adam, lr=1e-2, eps=1e-3, amsgrad=True),
    functools.partial(torch.optim.AdamW, lr=1e-2, eps=1e-3),
    functools.partial(torch.optim.Adamax, lr=1e-2, eps=1e-3),
    functools.partial(torch.optim.NAdam, lr=1e-2, eps=1e-3),
    functools.partial(torch.optim.RAdam, lr=1e-2, eps=1e-3),
    functools.partial(torch.optim.Adagrad, lr=1e-2, eps=1e-3),
    functools.partial(torch.optim.Adadelta, lr=1.0, eps=1e-3),
    functools.partial(torch.optim.RMSprop, lr=1e-3, eps=1e-2),
    functools.partial(torch.optim.ASGD, lr=0.1),
]
SCHEDULES = [
    None,
    functools.partial(lr_scheduler.LambdaLR, lr_lambda=lambda step: 1 / (1 + step)),
    functools.partial(lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=8),
    functools.partial(lr_scheduler.ReduceLROnPlateau, patience=0, factor=0.1, threshold=1.0),
]


def train(optimizer, schedule):
    """Returns how far parameters and learning rates are from those of one process."""
    make, make_schedule = OPTIMIZERS[optimizer], SCHEDULES[schedule]
    plan = jobs.plan_of(jobs.spec_of("plain", 4), STAGES, batch=4, micro_batch_count=2)
    model = jobs.model_of("plain", 4)
    reference = copy.deepcopy(model)
    run = parplan.torch.apply(plan, model, jobs.loss_fn, optimizer=make, schedule=make_schedule,
                              tensor_plan=jobs.TENSOR_PLAN, device="cpu")
    theirs = make(list(reference.parameters()))
    beside = make_schedule(theirs) if make_schedule is not None else None
    rates = []
    for step in range(4):
        inputs, targets = jobs.batch_of(4, seed=step)
        theirs.zero_grad()
        loss = jobs.loss_fn(reference(inputs), targets)
        loss.backward()
        theirs.step()
        if schedule == 3:
            beside.step(loss.item())
        elif beside is not None:
            beside.step()
        run.step(inputs, targets)
        rates.append((run.optimizers[0].param_groups[0]["lr"], theirs.param_groups[0]["lr"]))
    return jobs.worst_difference(run, reference, of="data"), rates


def test_optimizers_and_schedules_do_what_one_process_does(tmp_path):
    cases = [*((number, 0) for number in range(len(OPTIMIZERS))),
             *((0, number) for number in range(1, len(SCHEDULES)))]
    for case, ranks in zip(cases, jobs.run_ranks(2, tmp_path, train, cases)):
        for (difference, name), rates in ranks:
            assert difference < 1e-3, (case, difference, name)
            assert [ours for ours, _ in rates] == pytest.approx([other for _, other in rates]), case
            assert (len({ours for ours, _ in rates}) > 1) == (case[1] > 0), case


def named():
    return [("matrix", torch.nn.Parameter(torch.ones(4, 4)))]


def test_an_optimizer_of_whole_parameters_is_refused_by_name():
    for make, name in ((torch.optim.LBFGS, "LBFGS"), (torch.optim.Adafactor, "Adafactor"),
                       (torch.optim.SparseAdam, "SparseAdam")):
        with pytest.raises(parplan.errors.SpecInvalid) as raised:
            Updates(named(), make, None)
        assert raised.value.metadata["field"] == "optimizer" and name in raised.value.message


def test_an_optimizer_may_promise_to_treat_elements_one_by_one():
    class Other(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})

    class Lion(Other):
        treats_elements_one_by_one = True

    assert isinstance(Updates(named(), Lion, None).optimizer, Lion)
    with pytest.raises(parplan.errors.SpecInvalid, match="Other"):
        Updates(named(), Other, None)


def test_a_schedule_needs_an_optimizer_and_a_state_that_is_stored():
    with pytest.raises(parplan.errors.SpecInvalid, match="schedule"):
        Updates(named(), None, lambda optimizer: None)

    class Halved:
        def __init__(self):
            self.table = torch.ones(3)

        def __call__(self, step):
            return 0.5 ** step

    made = Updates(named(), torch.optim.SGD,
                   lambda optimizer: lr_scheduler.LambdaLR(optimizer, Halved()))
    with pytest.raises(parplan.errors.SpecInvalid, match="schedule"):
        made.schedule_text()
