"""Steps that fail on some ranks or on all: who hears of it, and what can be used afterwards."""

import os
import pathlib
import signal

import pytest
import signed_plans as plans
import torch
import torch.distributed as dist
import torch_jobs as jobs

import parplan.torch
from parplan.errors import SpecInvalid
from parplan.strategy import Sharding, Strategy
from parplan.torch import failures, grids, processes
from parplan.torch.ring import Ring

COPIES, SPLIT = Strategy(1, 4), Strategy(2, 2)
SHARDED = Strategy(1, 4, sharding=Sharding.PARAMETERS)
RING = Strategy(1, 2, context_parallel_degree=2)
STAGES = {"replicas": [[COPIES] * 4], "sharded": [[SHARDED] * 4], "split": [[SPLIT] * 4],
          "ring": [[RING] * 4], "pipeline": [[Strategy(1, 2)] * 2, [Strategy(1, 2)] * 2]}


class Fault:
    """A loss that fails in the second step of the ranks it names."""

    def __init__(self, ranks, fail):
        self.ranks, self.fail, self.is_on = ranks, fail, False

    def __call__(self, output, target):
        if self.is_on and dist.get_rank() in self.ranks:
            self.fail()
        return jobs.loss_fn(output, target)


def raise_error():
    raise ValueError("planted in the loss")


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def start(stages, loss_fn, batch=8, **options):
    plan = jobs.plan_of(plans.model_of(4), stages, batch=batch, micro_batch_count=2)
    run = parplan.torch.apply(plan, jobs.model_of("plain", 4), loss_fn, device="cpu",
                              tensor_plan=jobs.TENSOR_PLAN, optimizer=torch.optim.SGD, **options)
    return plan, run


def fail_in_second_step(kind, ranks, fail=raise_error):
    """Returns the run, and the error of its second step."""
    fault = Fault(ranks, fail)
    _, run = start(STAGES[kind], fault)
    run.step(*jobs.batch_of(8))
    fault.is_on = True
    with pytest.raises(Exception) as raised:
        run.step(*jobs.batch_of(8))
    return run, raised.value


def told(kind, rank):
    """Returns what a step raised in which one rank fails, what it came from, and what is raised
    afterwards."""
    run, error = fail_in_second_step(kind, (rank,))
    found = [(type(error).__name__, str(error), str(error.__cause__))]
    for again in (lambda: run.step(*jobs.batch_of(8)), lambda: run.save("nowhere"),
                  lambda: run.load("nowhere"), lambda: start(STAGES[kind], jobs.loss_fn)):
        with pytest.raises(failures.RunFailed) as raised:
            again()
        found.append((type(raised.value).__name__, str(raised.value), ""))
    return found


@pytest.mark.parametrize("kind", STAGES)
def test_other_ranks_are_told_who_failed_and_why(tmp_path, kind):
    # Ranks of the last stage alone have the loss.
    failing = 3
    [ranks] = jobs.run_ranks(4, tmp_path, told, [(kind, failing)])
    for rank, ((name, message, cause), *later) in enumerate(ranks):
        if rank == failing:
            assert (name, message) == ("ValueError", "planted in the loss")
        else:
            assert name == "RankFailed", (rank, message)
            assert message == "rank 3 failed in step 1: ValueError: planted in the loss"
            # It did not wait for the time limit of the backend.
            assert "Timed out" not in cause and "onnection" in cause, cause
        assert not os.path.exists("nowhere")
        for _, message, _ in later:
            assert "rank 3 failed in step 1" in message or "planted" in message
            assert "load the last checkpoint" in message


def begin_and_kill(rank, count, folder):
    """Writes what this rank raised; the last one ends in its step."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", count), rank=rank,
                            world_size=count, timeout=jobs.PATIENCE)
    _, error = fail_in_second_step("sharded" if jobs.SHARDS_HERE else "replicas", (count - 1,),
                                   kill)
    with open(f"{folder}/error{rank}", "w") as file:
        file.write(f"{type(error).__name__} {error}")
    os._exit(0)


def test_a_rank_that_was_killed_is_named(tmp_path):
    processes._begin_server()
    context = torch.multiprocessing.get_context("forkserver")
    ranks = [context.Process(target=begin_and_kill, args=(rank, 4, str(tmp_path)))
             for rank in range(4)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()
    assert [one.exitcode for one in ranks] == [0, 0, 0, -signal.SIGKILL]
    for rank in range(3):
        assert (tmp_path / f"error{rank}").read_text().startswith(
            "RankFailed rank 3 failed: it ended without a word")


def begin_without_backend(rank, count, folder):
    """Writes what this rank raised, and ends when all ranks did, as one that catches its error."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", count)
    dist.init_process_group(store=store, rank=rank, world_size=count, timeout=jobs.PATIENCE)
    _, error = fail_in_second_step("replicas", (count - 1,))
    pathlib.Path(folder, f"error{rank}").write_text(
        f"{type(error).__name__} {error} {error.__cause__}")
    store.set(f"raised/{rank}", "")
    store.wait([f"raised/{one}" for one in range(count)])
    os._exit(0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the backend would be that of a GPU")
def test_a_job_that_names_no_backend_hears_of_errors_too(tmp_path):
    """`init_process_group()` is how the examples begin, and torchrun's programs."""
    processes.start_ranks(begin_without_backend, (4, str(tmp_path)), 4)
    for rank in range(3):
        found = (tmp_path / f"error{rank}").read_text()
        assert found.startswith("RankFailed rank 3 failed in step 1: ValueError: planted"), found
        assert "Timed out" not in found and "onnection" in found, found


@pytest.mark.parametrize("config, device_type, backend", [
    ("cpu:gloo", "cpu", "gloo"), ("cpu:gloo,cuda:nccl", "cpu", "gloo"),
    ("cpu:gloo,cuda:nccl", "cuda", "nccl"), ("cuda:nccl", "cpu", ""), ("undefined", "cpu", "")])
def test_the_backend_is_that_of_the_device(monkeypatch, config, device_type, backend):
    monkeypatch.setattr(dist, "get_backend_config", lambda: config)
    assert failures.backend_of(device_type) == backend


def go_on(kind):
    """Returns the errors of a step that fails on every rank, then of the next one, and the difference
    of a new run's step from one process."""
    with pytest.MonkeyPatch.context() as patch:
        # Ranks wait for each other no longer than this, and on a busy machine some come late.
        patch.setattr(failures, "_MOMENT_SECONDS", 60.0)
        run, error = fail_in_second_step(kind, range(4))
    with pytest.raises(failures.RunFailed, match="apply the plan again") as raised:
        run.step(*jobs.batch_of(8))
    assert "planted in the loss" in str(raised.value)
    plan = jobs.plan_of(plans.model_of(4), STAGES[kind], batch=8, micro_batch_count=2)
    answer = jobs.compare_one_step(plan, jobs.model_of("plain", 4), tensor_plan=jobs.TENSOR_PLAN)
    return type(error).__name__, answer["loss"], answer["gradient"]


def test_groups_are_used_on_behind_a_step_that_failed_on_every_rank(tmp_path):
    kinds = [kind for kind in STAGES if kind != "pipeline"]
    for kind, ranks in zip(kinds, jobs.run_ranks(4, tmp_path, go_on, [(one,) for one in kinds])):
        for name, loss, gradient in ranks:
            assert name == "ValueError" and loss < 1e-5 and gradient < 1e-4, (kind, loss, gradient)


def send_more_on_one_rank(kind):
    """Returns the error of applying a plan behind a step that failed on every rank, but at other
    places."""
    def fail():
        if dist.get_rank() == 1 and kind == "ring":
            Ring.of(grids._pool.group("context", (0, 1))).pass_on(torch.ones(1))
        elif dist.get_rank() == 1:
            dist.all_reduce(torch.ones(1), async_op=True)
        raise_error()

    fail_in_second_step(kind, range(4), fail)
    with pytest.raises(failures.RunFailed) as raised:
        start(STAGES["replicas"], jobs.loss_fn)
    return str(raised.value)


@pytest.mark.parametrize("kind", ["replicas", "ring"])
def test_groups_with_messages_left_are_not_used_on(tmp_path, kind):
    [messages] = jobs.run_ranks(4, tmp_path, send_more_on_one_rank, [(kind,)])
    assert all("init_process_group" in one for one in messages)


ALONE = [[Strategy(1, 1)] * 4]


def test_a_run_of_one_rank_goes_on_behind_a_step_that_failed():
    is_on = True

    def fail(output, target):
        if is_on:
            raise ValueError("planted")
        return jobs.loss_fn(output, target)

    _, run = start(ALONE, fail)
    _, other = start(ALONE, jobs.loss_fn)
    with pytest.raises(ValueError, match="planted"):
        run.step(*jobs.batch_of(8, seed=1))
    assert all(one.grad is None for one in run.parameters())
    is_on = False
    assert torch.equal(run.step(*jobs.batch_of(8)), other.step(*jobs.batch_of(8)))
    for ours, theirs in zip(run.parameters(), other.parameters()):
        assert torch.equal(ours, theirs)


class Counting(torch.nn.Module):
    """Changes a buffer in each pass."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return x


def test_what_the_first_step_refuses_the_next_one_refuses_too():
    plan = jobs.plan_of(plans.model_of(4), ALONE, batch=8, micro_batch_count=2)
    counting = jobs.model_of("plain", 4)
    counting[2].second_norm = Counting()
    for model, loss_fn in ((counting, jobs.loss_fn),
                           (jobs.model_of("plain", 4),
                            lambda output, target: 8 * jobs.loss_fn(output, target) * len(output))):
        run = parplan.torch.apply(plan, model, loss_fn, device="cpu")
        texts = []
        for _ in range(2):
            with pytest.raises(SpecInvalid) as raised:
                run.step(*jobs.batch_of(8))
            texts.append(raised.value.message)
        assert texts[0] == texts[1]


class Failing(torch.optim.SGD):
    fails = False

    def step(self, closure=None):
        super().step()
        if self.fails:
            raise ValueError("planted in the update")


def test_a_failed_update_needs_a_checkpoint(tmp_path):
    plan = jobs.plan_of(plans.model_of(4), ALONE, batch=8, micro_batch_count=2)
    run = parplan.torch.apply(plan, jobs.model_of("plain", 4), jobs.loss_fn, device="cpu",
                              optimizer=Failing)
    run.step(*jobs.batch_of(8))
    run.save(tmp_path / "good")
    expected = run.step(*jobs.batch_of(8, seed=1))
    run.optimizers[0].fails = True
    with pytest.raises(ValueError, match="planted in the update"):
        run.step(*jobs.batch_of(8))
    run.optimizers[0].fails = False
    for again in (lambda: run.step(*jobs.batch_of(8)), lambda: run.save(tmp_path / "bad")):
        with pytest.raises(failures.RunFailed, match="half updated; load the last checkpoint"):
            again()
    run.load(tmp_path / "good")
    assert torch.equal(run.step(*jobs.batch_of(8, seed=1)), expected)


@pytest.mark.parametrize("error, is_lost", [
    (RuntimeError("[third_party/gloo/transport/tcp/pair.cc] Connection closed by peer [::1]:9"), True),
    (RuntimeError("Timed out waiting for gloo"), True), (ValueError("gloo"), False),
    (dist.DistNetworkError("failed to recv, got 0 bytes"), True),
    (RuntimeError("shapes cannot be multiplied"), False), (torch.OutOfMemoryError("no"), False)])
def test_errors_of_a_backend_are_told_from_others(error, is_lost):
    assert failures.is_of_backend(error) == is_lost
