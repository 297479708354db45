"""A plan of one device needs no process group, and makes no communicator where there is one."""

import copy
import functools

import pytest
import signed_plans as plans
import torch
import torch.distributed as dist
import torch_jobs as jobs

import parplan.torch
from parplan.strategy import Recompute, Sharding, Strategy
from parplan.torch import ranks
from parplan.torch.trace import record

ALONE = [[Strategy(1, 1), Strategy(1, 1, recompute=Recompute.FULL),
          Strategy(1, 1, sharding=Sharding.PARAMETERS), Strategy(1, 1)]]


class _Refusing(dist.ProcessGroup):
    """A process group whose members never exchange anything: every collective of it raises."""
    made = 0

    def __init__(self, _, rank, size, *__):
        super().__init__(rank, size)
        type(self).made += 1


@pytest.fixture
def refusing_group(tmp_path):
    if "refusing" not in dist.Backend.backend_list:
        dist.Backend.register_backend("refusing", _Refusing, devices=["cpu", "cuda"])
    _Refusing.made = 0
    dist.init_process_group("refusing", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0,
                            world_size=1)
    yield
    dist.destroy_process_group()




def train_alone(tmp_path):
    """Trains two clipped steps, stores and loads, records a step, and compares with PyTorch."""
    make = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    plan = jobs.plan_of(plans.model_of(4, is_tied=True), ALONE, batch=4, micro_batch_count=2)
    model = jobs.model_of("plain", 4, is_tied=True)
    reference = copy.deepcopy(model)
    optimizer = make(reference.parameters())
    run = parplan.torch.apply(plan, model, jobs.loss_fn, optimizer=make, max_gradient_norm=0.1,
                              device="cpu")
    for seed in range(2):
        inputs, targets = jobs.batch_of(4, seed=seed)
        optimizer.zero_grad()
        loss = jobs.loss_fn(reference(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
        optimizer.step()
        assert run.step(inputs, targets).item() == pytest.approx(loss.item(), rel=1e-5)
    assert jobs.worst_difference(run, reference, of="data")[0] < 1e-5
    run.save(tmp_path / "checkpoint")
    other = parplan.torch.apply(plan, jobs.model_of("plain", 4, is_tied=True), jobs.loss_fn,
                                optimizer=make, max_gradient_norm=0.1, device="cpu")
    other.load(tmp_path / "checkpoint")
    batch = jobs.batch_of(4, seed=2)
    assert other.step(*batch).item() == run.step(*batch).item()
    measured = record(run, *batch, tmp_path / "trace.json", steps=1, warm_ups=0)
    assert measured is not None and len(measured.ranks) == 1


def test_one_rank_needs_no_process_group(tmp_path):
    train_alone(tmp_path)
    assert not dist.is_initialized()


def test_one_rank_makes_no_group_and_calls_no_collective(tmp_path, refusing_group):
    with pytest.raises(RuntimeError):
        dist.all_reduce(torch.zeros(1))
    train_alone(tmp_path)
    assert _Refusing.made == 1  # That of the test.


def test_a_plan_of_more_devices_is_refused_without_a_process_group():
    plan = jobs.plan_of(plans.model_of(4), [[Strategy(1, 2)] * 4], batch=4, micro_batch_count=1)
    with pytest.raises(parplan.Error) as raised:
        parplan.torch.apply(plan, jobs.model_of("plain", 4), jobs.loss_fn, device="cpu")
    assert raised.value.reason == "TOPOLOGY_MISMATCH"


def exchange():
    total = torch.tensor([1.0 + ranks.this_rank()])
    ranks.add_up(total)
    ranks.wait_for_all()
    return (total.item(), [one.item() for one in ranks.gather(torch.tensor(ranks.this_rank()))],
            ranks.gather_objects({"rank": ranks.this_rank()}), ranks.rank_count())


def test_all_ranks_exchange(tmp_path):
    (found,) = jobs.run_ranks(2, tmp_path, exchange, [()])
    assert found == [(3.0, [0, 1], [{"rank": 0}, {"rank": 1}], 2)] * 2
    assert exchange() == (1.0, [0], [{"rank": 0}], 1)
