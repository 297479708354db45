"""Optimizers and schedules: what one process does, and refusals by name."""

import contextlib
import copy
import functools

import pytest
import torch
import torch_jobs as jobs
from torch.optim import lr_scheduler

import parplan
import parplan.torch
from parplan.strategy import Sharding, Strategy
from parplan.torch import checkpoint
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


def test_a_rank_without_parameters_refuses_what_others_do():
    """Else the others would end, and it would wait for them in the first step."""
    frozen = [("table", torch.nn.Parameter(torch.ones(4), requires_grad=False))]
    for pairs in ([], frozen):
        with pytest.raises(parplan.errors.SpecInvalid, match="LBFGS"):
            Updates(pairs, torch.optim.LBFGS, None)
        with pytest.raises(ValueError, match="learning rate"):
            Updates(pairs, functools.partial(torch.optim.SGD, lr=-1.0), None)
        with pytest.raises(parplan.errors.SpecInvalid, match="needs an optimizer"):
            Updates(pairs, None, lambda optimizer: None)
        with pytest.raises(ZeroDivisionError):
            Updates(pairs, torch.optim.SGD, lambda optimizer: 1 / 0)
        made = Updates(pairs, torch.optim.SGD, functools.partial(lr_scheduler.StepLR, step_size=1))
        assert made.optimizer is None and made.schedule is None and made.states() == {}
        made.step(torch.zeros(()))


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


class Silent:
    """A schedule of another package without `state_dict`."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        pass


class Endless(Silent):
    def state_dict(self):
        state = {}
        state["state"] = state
        return state


@pytest.mark.parametrize("schedule", [Silent, Endless])
def test_a_schedule_that_does_not_say_its_state_is_refused_where_it_would_be_stored(tmp_path,
                                                                                   schedule):
    pairs = named()
    made = Updates(pairs, torch.optim.SGD, schedule)
    pairs[0][1].grad = torch.ones(4, 4)
    made.step(torch.zeros(()))
    assert made.why_unstored()[0] == "schedule"
    with pytest.raises(parplan.errors.SpecInvalid, match="schedule"):
        checkpoint.save(pairs, made, {}, tmp_path / "stored")
    assert not (tmp_path / "stored").exists()


def linear_then_cosine(optimizer):
    return lr_scheduler.SequentialLR(
        optimizer, [lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2),
                    lr_scheduler.CosineAnnealingLR(optimizer, 6)], milestones=[2])


def losses(make, make_schedule, folder, stop):
    """Returns the values of a parameter and the options of its optimizer after each of eight steps.
    Before the step `stop` everything goes through a checkpoint into new objects."""
    torch.manual_seed(0)
    pairs = [("matrix", torch.nn.Parameter(torch.randn(4, 4)))]
    made = Updates(pairs, make, make_schedule)
    found = []
    for step in range(8):
        if step == stop:
            checkpoint.save(pairs, made, {}, folder)
            pairs = named()
            made = Updates(pairs, make, make_schedule)
            checkpoint.load(pairs, made, {}, folder)
        matrix = pairs[0][1]
        matrix.grad = 0.1 * matrix.detach() + 0.01 * step
        group = made.optimizer.param_groups[0]
        rate = group["lr"], group.get("momentum"), group.get("betas")
        made.step(matrix.detach().square().sum())
        found.append((rate, matrix.detach().tolist()))
    return found


@pytest.mark.parametrize("make", [functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
                                  functools.partial(torch.optim.Adam, lr=0.1)])
@pytest.mark.parametrize("schedule", [
    functools.partial(lr_scheduler.MultiStepLR, milestones=[2, 5, 5]),
    functools.partial(lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=8),
    functools.partial(lr_scheduler.CyclicLR, base_lr=0.01, max_lr=0.1, step_size_up=3),
    linear_then_cosine], ids=["milestones", "one cycle", "cycles", "one after the other"])
def test_a_schedule_and_what_it_moves_go_on_from_a_checkpoint(tmp_path, make, schedule):
    expected = losses(make, schedule, tmp_path, None)
    assert losses(make, schedule, tmp_path, 3) == expected
    assert len({rate for rate, _ in expected}) > 2


class Counting(torch.optim.Optimizer):
    """An optimizer of another package: its count of steps is no tensor."""
    treats_elements_one_by_one = True
    more = None

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            state["step"] = state.get("step", 0) + 1
            state["rate"] = state.get("rate", 1.0) / 3
            state["unused"] = self.more
            parameter -= state["rate"] / state["step"] * parameter.grad


@pytest.mark.parametrize("make", [
    functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9), torch.optim.Adam, Counting,
    torch.optim.Adagrad])
def test_a_checkpoint_from_before_the_first_step_has_no_states(tmp_path, make):
    plan = jobs.plan_of(jobs.spec_of("plain", 3), [[Strategy()] * 3], batch=4, micro_batch_count=1)
    run = parplan.torch.apply(plan, jobs.model_of("plain", 3), jobs.loss_fn, optimizer=make,
                              device="cpu")
    run.save(tmp_path / "begin")

    def three():
        return [run.step(*jobs.batch_of(4)).item() for _ in range(3)]

    expected = three()
    run.load(tmp_path / "begin")
    assert three() == expected


def test_numbers_among_the_states_of_an_optimizer_go_on_from_a_checkpoint(tmp_path):
    assert losses(Counting, None, tmp_path, 3) == losses(Counting, None, tmp_path, None)


def test_states_of_another_optimizer_are_refused_by_name(tmp_path):
    def stepped(make):
        pairs = named()
        made = Updates(pairs, make, None)
        pairs[0][1].grad = torch.ones(4, 4)
        made.step(torch.zeros(()))
        return pairs, made

    sgd = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    pairs, made = stepped(sgd)
    checkpoint.save(pairs, made, {}, tmp_path / "sgd")
    pairs, made = stepped(torch.optim.AdamW)
    before = {name: value.clone() for name, value in made.states().items()}
    values = pairs[0][1].detach().clone()
    with pytest.raises(parplan.errors.SpecInvalid, match="states of SGD, which AdamW"):
        checkpoint.load(pairs, made, {}, tmp_path / "sgd")
    assert torch.equal(pairs[0][1].detach(), values)
    assert before.keys() == made.states().keys()
    assert all(torch.equal(before[name], value) for name, value in made.states().items())
    # Adam and AdamW have the same states, and a checkpoint from before the first step has none.
    checkpoint.save(pairs, made, {}, tmp_path / "adamw")
    checkpoint.load(*stepped(torch.optim.Adam), {}, tmp_path / "adamw")
    pairs = named()
    checkpoint.save(pairs, Updates(pairs, sgd, None), {}, tmp_path / "begin")
    checkpoint.load(*stepped(torch.optim.AdamW), {}, tmp_path / "begin")


def test_a_state_that_is_not_stored_is_refused_by_name():
    class Listing(Counting):
        more = [1, 2]

    pairs = named()
    made = Updates(pairs, Listing, None)
    assert made.states() == {}
    pairs[0][1].grad = torch.ones(4, 4)
    made.step(torch.zeros(()))
    with pytest.raises(parplan.errors.SpecInvalid, match="Listing has the state unused.* list"):
        made.states()


@pytest.mark.parametrize("is_there", [False, True])
def test_counts_of_steps_are_where_the_optimizer_has_them(is_there):
    # A fused optimizer refuses a count that is not beside the parameter.
    pairs = [("matrix", torch.nn.Parameter(torch.ones(4, 4, device="meta")))]
    made = Updates(pairs, functools.partial(torch.optim.Adam, capturable=is_there), None)
    stored = {"step": ((), torch.float32), "exp_avg": ((4, 4), torch.float32)}
    states = made.make_states(lambda name: stored)
    assert states["matrix.exp_avg"].is_meta
    assert states["matrix.step"].is_meta == is_there


@pytest.mark.parametrize("make", [torch.optim.ASGD, torch.optim.Adam, torch.optim.NAdam,
                                  torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.RMSprop])
def test_states_are_made_where_the_optimizer_makes_them(make):
    def pairs():
        matrix = torch.nn.Parameter(torch.ones(4, 4, device="meta"))
        matrix.grad = torch.ones(4, 4, device="meta")
        return [("matrix", matrix)]

    own = Updates(pairs(), functools.partial(make, foreach=False), None)
    # ASGD reads its count, which has no value here, after it has made its states.
    with contextlib.suppress(RuntimeError, NotImplementedError):
        own.step(torch.zeros(()))
    expected = own.states()
    assert expected
    made = Updates(pairs(), make, None).make_states(lambda name: {
        key.removeprefix("matrix."): (tuple(one.shape), one.dtype)
        for key, one in expected.items()})
    assert ({key: one.device for key, one in made.items()}
            == {key: one.device for key, one in expected.items()})
