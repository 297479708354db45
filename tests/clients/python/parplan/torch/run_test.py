"""Training under a plan: optimizers, clipping, and what is refused before the first step."""

import copy
import functools
import os
import warnings

import pytest
import signed_plans as plans
import torch
import torch.distributed as dist
import torch_jobs as jobs

import parplan
import parplan.torch
from parplan.strategy import ContextKind, Recompute, Schedule, Sharding, Strategy

PIPELINE = [[Strategy(1, 2), Strategy(2, 1, sequence_parallel=True)],
            [Strategy(1, 2, sharding=Sharding.PARAMETERS, recompute=Recompute.FULL),
             Strategy(2, 1), Strategy(1, 2, sharding=Sharding.OPTIMIZER)]]
MIXED = [[Strategy(1, 4, sharding=Sharding.GRADIENTS), Strategy(2, 2, sharding=Sharding.PARAMETERS),
          Strategy(4, 1), Strategy(2, 2, tensor_innermost=False), Strategy(1, 4)]]


def train(stages, make_optimizer, norm):
    layer_count = sum(map(len, stages))
    plan = jobs.plan_of(plans.model_of(layer_count), stages, batch=8, micro_batch_count=2)
    model = jobs.model_of("plain", layer_count)
    reference = copy.deepcopy(model)
    theirs = make_optimizer(list(reference.parameters()))
    run = parplan.torch.apply(plan, model, jobs.loss_fn, optimizer=make_optimizer,
                              max_gradient_norm=norm, tensor_plan=jobs.TENSOR_PLAN, device="cpu")
    losses = []
    for step in range(4):
        inputs, targets = jobs.batch_of(8, seed=step)
        theirs.zero_grad()
        expected = jobs.loss_fn(reference(inputs), targets)
        expected.backward()
        if norm is not None:
            torch.nn.utils.clip_grad_norm_(reference.parameters(), norm)
        theirs.step()
        losses.append(abs(run.step(inputs, targets).item() - expected.item()))
    return max(losses), jobs.worst_difference(run, reference, of="data")


def test_optimizers_and_clipping_do_what_one_process_does(tmp_path):
    sgd = functools.partial(torch.optim.SGD, lr=0.5, momentum=0.9)
    # A large epsilon: Adam divides a gradient that is rounding alone by its own size.
    adam = functools.partial(torch.optim.AdamW, lr=1e-2, eps=1e-3)
    cases = [(stages, make, norm) for stages in (PIPELINE, MIXED) for make in (sgd, adam)
             for norm in (None, 0.1)]
    for case, ranks in zip(cases, jobs.run_ranks(4, tmp_path, train, cases)):
        for loss, (difference, name) in ranks:
            assert loss < 1e-4 and difference < 1e-3, (case, loss, difference, name)


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2, eps=1e-3)


def falling(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)


def start(stages, kind="plain", model=None, seed=0, optimizer=adam, is_tied=False,
          is_interleaved=False, **options):
    """Returns a Run of two micro-batches of four samples."""
    layer_count = sum(map(len, stages))
    order = ({"schedule": Schedule.INTERLEAVED, "virtual_stage_count": 2} if is_interleaved else {})
    plan = jobs.plan_of(jobs.spec_of(kind, layer_count, is_tied), stages, batch=8,
                        micro_batch_count=2, **order)
    return parplan.torch.apply(plan, model or jobs.model_of(kind, layer_count, is_tied),
                               jobs.loss_fn, optimizer=optimizer,
                               tensor_plan=jobs.TENSOR_PLANS[kind], device="cpu", seed=seed,
                               **options)


def losses_of(run, steps, kind="plain"):
    return [run.step(*jobs.batch_of(8, seed=step, kind=kind)).item() for step in steps]


def go_on(run, kind, folder):
    """Returns the losses of six steps, with a checkpoint after three, and of the last three."""
    before = losses_of(run, range(3), kind)
    run.save(folder)
    dist.barrier()
    after = losses_of(run, range(3, 6), kind)
    return before + after, after


def move(kind, first, others, folder):
    """Returns the losses of the last three of six steps under one plan, and for each of `others`
    those of three steps that go on from the third under it."""
    _, expected = go_on(start(first, kind, schedule=falling), kind, folder)
    answers = []
    for other in others:
        moved = start(other, kind, schedule=falling, seed=1)
        moved.load(folder)
        answers.append(losses_of(moved, range(3, 6), kind))
    return expected, answers


SPREAD = [[Strategy(1, 4), Strategy(2, 2, expert_parallel_degree=2, sharding=Sharding.GRADIENTS),
           Strategy(1, 4, expert_parallel_degree=2, sharding=Sharding.PARAMETERS),
           Strategy(1, 4, expert_parallel_degree=4), Strategy(1, 4)]]


def test_a_checkpoint_goes_on_under_other_plans(tmp_path):
    plain = [[Strategy(1, 4, sharding=Sharding.OPTIMIZER)] * 5]
    chosen = [("plain", PIPELINE, (MIXED, plain)), ("plain", MIXED, (PIPELINE, plain)),
              ("experts", SPREAD, (PIPELINE, plain)), ("qwen3_moe", PIPELINE, (SPREAD, MIXED)),
              ("qwen3_moe", plain, (SPREAD, PIPELINE)), ("gpt2", MIXED, (PIPELINE, plain)),
              ("vit", plain, ([[Strategy(1, 4), *MIXED[0][1:4], Strategy(1, 4)]],))]
    cases = [(kind, first, others, tmp_path / f"checkpoint{number}")
             for number, (kind, first, others) in enumerate(chosen)]
    for case, ranks in zip(cases, jobs.run_ranks(4, tmp_path, move, cases)):
        for expected, answers in ranks:
            for found in answers:
                assert found == pytest.approx(expected, rel=1e-5), case


# Two places with two stages each: the table is on the first, its other end on the last.
INTERLEAVED = [[Strategy(1, 2)], [Strategy(2, 1, sequence_parallel=True)],
               [Strategy(1, 2, sharding=Sharding.PARAMETERS), Strategy(2, 1)], [Strategy(1, 2)]]
TIED = {"interleaved": INTERLEAVED,
        "one stage": [[Strategy(1, 4), *MIXED[0][1:4], Strategy(1, 4)]],
        "1F1B": [[Strategy(2, 1), *PIPELINE[0][1:]], [*PIPELINE[1][:2], Strategy(2, 1)]]}


def move_tied(kind, first, folder):
    """Returns the losses of six clipped steps of a tied model in one process and under one plan,
    and for every plan those of the last three that go on from the first's third under it."""
    def begin(name, seed):
        return start(TIED[name], kind, is_tied=True, is_interleaved=name == "interleaved",
                     max_gradient_norm=0.1, schedule=falling, seed=seed)

    reference = jobs.model_of(kind, 5, True)
    optimizer = adam(reference.parameters())
    schedule = falling(optimizer)
    alone = []
    for step in range(6):
        inputs, targets = jobs.batch_of(8, seed=step)
        optimizer.zero_grad()
        output = (jobs.CALLS[kind] or (lambda model, x: model(x)))(reference, inputs)
        loss = jobs.loss_fn(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
        optimizer.step()
        schedule.step()
        alone.append(loss.item())
    losses, expected = go_on(begin(first, 0), kind, folder)
    answers = []
    for name in TIED:
        moved = begin(name, 1)
        moved.load(folder)
        answers.append(losses_of(moved, range(3, 6), kind))
    return alone, losses, expected, answers


def test_a_tied_and_clipped_model_goes_on_between_interleaved_and_other_plans(tmp_path):
    cases = [(kind, first, tmp_path / f"{kind}-{first}") for kind in ("plain", "llama")
             for first in TIED]
    for case, ranks in zip(cases, jobs.run_ranks(4, tmp_path, move_tied, cases)):
        for alone, losses, expected, answers in ranks:
            assert losses == pytest.approx(alone, rel=1e-4), case
            for found in answers:
                assert found == pytest.approx(expected, rel=1e-5), case


def initialize(kind, stages, is_tied):
    """Returns whether a model on the meta device got the values that one process gives it."""
    layer_count = sum(map(len, stages))
    with torch.device("meta"):
        model, reference = (jobs.model_of(kind, layer_count, is_tied) for _ in range(2))
    plan = jobs.plan_of(jobs.spec_of(kind, layer_count, is_tied), stages, batch=8,
                        micro_batch_count=2)
    parplan.torch.initialize(reference, parplan.torch.find_layers(reference, plan), seed=7)
    run = start(stages, kind, model, seed=7, is_tied=is_tied)
    difference, name = jobs.worst_difference(run, reference, of="data")
    inputs, targets = jobs.batch_of(8)
    output = (jobs.CALLS[kind] or (lambda model, x: model(x)))(reference, inputs)
    return difference, name, run.step(inputs, targets).item(), jobs.loss_fn(output, targets).item()


def test_a_model_on_the_meta_device_gets_the_values_of_one_process(tmp_path):
    tied = [[Strategy(2, 1), *PIPELINE[0][1:]], [*PIPELINE[1][:2], Strategy(2, 1)]]
    cases = [*((kind, stages, False) for kind in ("plain", "llama")
               for stages in (PIPELINE, MIXED)), ("qwen3_moe", SPREAD, False),
             ("llama", tied, True), ("gpt2", tied, True)]
    for case, ranks in zip(cases, jobs.run_ranks(4, tmp_path, initialize, cases)):
        for difference, name, loss, expected in ranks:
            assert difference == 0, (case, name)
            assert loss == pytest.approx(expected, rel=1e-5), case


@pytest.fixture
def lonely_rank(tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0,
                            world_size=1)
    yield
    dist.destroy_process_group()


def refusal(stages, model=None, spec=None, **options):
    """Returns the error of applying a plan on a job of as many ranks as the plan has."""
    layer_count = sum(map(len, stages))
    plan = jobs.plan_of(spec or plans.model_of(layer_count), stages, is_run=False, batch=24,
                        micro_batch_count=1)
    with pytest.raises(parplan.Error) as raised:
        parplan.torch.apply(plan, model or jobs.model_of("plain", layer_count), jobs.loss_fn,
                            device="cpu", **options)
    return raised.value


def test_a_job_of_another_size_is_refused(lonely_rank):
    assert refusal([[Strategy(1, 2)] * 4]).reason == "TOPOLOGY_MISMATCH"


def test_what_cannot_be_run_is_refused_with_its_layer(lonely_rank, monkeypatch):
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 2)
    plain = Strategy(1, 2)
    ring = Strategy(1, 1, context_parallel_degree=2)
    ulysses = Strategy(1, 1, context_parallel_degree=2, context_kind=ContextKind.ULYSSES)
    unaware = jobs.model_of("plain", 4)
    del unaware[2].token_positions
    error = refusal([[plain, plain, ring, plain]], model=unaware)
    assert error.metadata["field"] == "layer 2" and "token_positions" in error.message
    three = plans.model_of(4, key_value_head_count=3)
    error = refusal([[plain, ulysses, plain, plain]], spec=three)
    assert error.metadata["field"] == "layer 1" and "heads" in error.message
    dropping = jobs.model_of("plain", 4)
    dropping[1].attention.dropout = torch.nn.Dropout(0.1)
    error = refusal([[plain, Strategy(2, 1), plain, plain]], model=dropping)
    assert error.metadata["field"] == "layer 1" and "dropout" in error.message
    experts = plans.model_of(4, feed_forward_size=0, expert_count=4, experts_per_token=2,
                             expert_feed_forward_size=64)
    assert refusal([[plain] * 4], spec=experts).metadata["field"] == "layer 1"
    other = jobs.model_of("experts", 4)
    other[2].experts = torch.nn.ModuleList([torch.nn.Linear(2, 2)] * jobs.EXPERTS)
    error = refusal([[plain] * 4], model=other, spec=jobs.spec_of("experts", 4))
    assert error.metadata["field"] == "layer 2" and "stack" in error.message
    noisy = jobs.model_of("experts", 4)
    noisy[1].jitter_noise = 0.1
    error = refusal([[plain] * 4], model=noisy, spec=jobs.spec_of("experts", 4))
    assert error.metadata["field"] == "layer 1" and "noise" in error.message
    five = plans.model_of(4, feed_forward_size=0, expert_count=5, experts_per_token=2,
                          expert_feed_forward_size=64)
    error = refusal([[plain, Strategy(1, 2, expert_parallel_degree=2), plain, plain]], spec=five,
                    model=jobs.model_of("experts", 4))
    assert error.metadata["field"] == "layer 1" and "5" in error.message
    images = jobs.model_of("vit", 4)
    error = refusal([[plain, plain, plain, ring]], spec=jobs.spec_of("vit", 4), model=images)
    assert error.metadata["field"] == "layer 3"
    balanced = jobs.model_of("qwen3_moe", 4)
    balanced.config.output_router_logits = True
    error = refusal([[plain] * 4], spec=jobs.spec_of("qwen3_moe", 4), model=balanced)
    assert error.metadata["field"] == "model" and "balances" in error.message
    assert refusal([[plain] * 4], precision="fp16").metadata["field"] == "precision"
    assert refusal([[plain] * 4], window_steps=0).metadata["field"] == "window_steps"
    odd = plans.model_of(4, key_value_head_count=3)
    error = refusal([[plain, Strategy(2, 1), plain, plain]], spec=odd)
    assert error.metadata["field"] == "layer 1" and "heads" in error.message
    tied = jobs.model_of("plain", 4, is_tied=True)
    for last in (Strategy(2, 1), Strategy(1, 2, sharding=Sharding.PARAMETERS)):
        error = refusal([[plain, plain, plain, last]], model=tied,
                        spec=plans.model_of(4, is_tied=True))
        assert error.metadata["field"] == "layer 3" and "share" in error.message
    assert refusal([[plain] * 4], model=tied).metadata["field"] == "layer 3"
    assert refusal([[plain] * 4], model=jobs.model_of("plain", 5)).metadata["field"] == "layers"
    other = torch.nn.ModuleList([torch.nn.Linear(2, 2)])
    assert refusal([[plain] * 4], model=other).metadata["field"] == "model"


def test_a_release_that_shards_nothing_on_processors_is_refused(lonely_rank, monkeypatch):
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 2)
    monkeypatch.delattr(torch.cpu.Stream, "record_event", raising=False)
    plain = Strategy(1, 2)
    error = refusal([[plain, plain, Strategy(1, 2, sharding=Sharding.OPTIMIZER), plain]])
    assert error.metadata["field"] == "layer 2" and torch.__version__ in error.message


class OtherAttention(torch.nn.Module):
    """A layer that mixes tokens in a way of its own."""
    token_positions = None

    def __init__(self):
        super().__init__()
        self.matrix = torch.nn.Linear(jobs.HIDDEN, jobs.HIDDEN)

    def forward(self, x):
        return torch.softmax(self.matrix(x) @ x.transpose(1, 2), -1) @ x


def attend_otherwise(other):
    plain = Strategy(1, 2)
    plan = jobs.plan_of(plans.model_of(3), [[plain, other, plain]], batch=8, micro_batch_count=1)
    model = jobs.model_of("plain", 3)
    model[1] = OtherAttention()
    run = parplan.torch.apply(plan, model, jobs.loss_fn, device="cpu")
    with pytest.raises(parplan.errors.SpecInvalid) as raised:
        run.step(*jobs.batch_of(8))
    return raised.value.metadata["field"]


def test_attention_that_cannot_be_taken_over_is_refused(tmp_path):
    cases = [(Strategy(1, 1, context_parallel_degree=2),),
             (Strategy(1, 2, recompute=Recompute.SELECTIVE),)]
    for fields in jobs.run_ranks(2, tmp_path, attend_otherwise, cases):
        assert fields == ["layer 1"] * 2


def refuse_on_ranks(tensor_plan):
    stages = [[Strategy(1, 2), Strategy(2, 1), Strategy(1, 2)]]
    return refusal(stages, tensor_plan=tensor_plan).metadata["field"]


def test_a_layer_without_a_tensor_plan_or_with_an_unknown_style_is_refused(tmp_path):
    cases = [({},), ({"*.up": "diagonal"},)]
    for fields in jobs.run_ranks(2, tmp_path, refuse_on_ranks, cases):
        assert fields == ["layer 1"] * 2


def convolve(model):
    model[3].mixer = torch.nn.Conv1d(jobs.HIDDEN, jobs.HIDDEN, 3, padding=1)


def empty_with_a_buffer(model):
    model[3].to("meta").register_buffer("table", torch.empty(2, device="meta"))


def empty_without_initializer(model):
    model[3].gain = torch.nn.Parameter(torch.empty(2))
    model[3].to("meta")


def refuse_one_layer(change, tensor_plan, sequence_parallel):
    """Returns what a rank says of layer 3, which the ranks of the last stage alone have."""
    model = jobs.model_of("plain", 5)
    if change is not None:
        change(model)
    split = Strategy(2, 1, sequence_parallel=sequence_parallel)
    error = refusal([[split] * 2, [split] * 3], model=model,
                    tensor_plan={**jobs.TENSOR_PLAN, **tensor_plan})
    return error.metadata["field"], error.message


def test_every_rank_refuses_a_layer_that_ranks_of_one_stage_have(tmp_path):
    # A rank that went on would wait for the others, up to the time limit of its collectives.
    cases = {"computes tokens from others": (convolve, {}, True),
             "diagonal, which is not known": (None, {"3.up": "diagonal"}, False),
             "only nn.Linear and nn.Embedding": (None, {"3.first_norm": "colwise"}, False),
             "has buffers": (empty_with_a_buffer, {}, False),
             "Block has no reset_parameters": (empty_without_initializer, {}, False)}
    answers = jobs.run_ranks(4, tmp_path, refuse_one_layer, list(cases.values()))
    for what, ranks in zip(cases, answers):
        assert [field for field, _ in ranks] == ["layer 3"] * 4, what
        assert all(what in message for _, message in ranks), (what, ranks)


class Listing(torch.optim.SGD):
    """An optimizer with a state that no checkpoint has a form for."""

    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["seen"] = [1, 2]


def save_a_list(folder):
    """Returns whether this rank has an optimizer, what it warned of in each of two steps, and how
    `save` ended."""
    plain = Strategy(1, 1)
    plan = jobs.plan_of(plans.model_of(4), [[plain] * 2, [plain] * 2], batch=4, micro_batch_count=2)
    model = jobs.model_of("plain", 4)
    for layer in (model[2], model[3]):
        layer.requires_grad_(False)
    run = parplan.torch.apply(plan, model, jobs.loss_fn, device="cpu", optimizer=Listing)
    told = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run.step(*jobs.batch_of(4))
        told.append([str(one.message) for one in caught if "Run.save" in str(one.message)])
    with pytest.raises(parplan.errors.SpecInvalid) as raised:
        run.save(folder)
    return len(run.optimizers), told, raised.value.metadata["field"], os.path.exists(folder)


def test_every_rank_knows_after_one_step_that_a_state_is_not_stored(tmp_path):
    [ranks] = jobs.run_ranks(2, tmp_path, save_a_list, [(str(tmp_path / "stored"),)])
    assert [count for count, *_ in ranks] == [1, 0]
    for _, (first, second), field, is_there in ranks:
        assert len(first) == 1 and "Listing has the state seen" in first[0] and not second
        assert field == "optimizer" and not is_there


def test_attention_that_needs_a_mask_is_refused(lonely_rank, monkeypatch):
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 2)
    model = jobs.model_of("llama", 4)
    model.config._attn_implementation = "eager"
    error = refusal([[Strategy(1, 2)] * 4], model=model, spec=jobs.spec_of("llama", 4))
    assert error.metadata["field"] == "layer 1" and "attn_implementation" in error.message
    assert "model.layers.0.self_attn" in error.message


@pytest.mark.parametrize("chosen, local_rank, count, expected", [
    (0, "3", 8, 3), (2, "3", 8, 2), (0, "3", 1, 0), (0, "", 8, 0), (0, "0", 8, 0)])
def test_each_process_of_a_node_takes_a_gpu_of_its_own(monkeypatch, chosen, local_rank, count,
                                                       expected):
    from parplan.torch import run as module
    set_to = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: chosen)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "set_device", set_to.append)
    monkeypatch.setenv("LOCAL_RANK", local_rank)
    assert module._default_device() == f"cuda:{expected}"
    assert set_to in ([], [expected])
