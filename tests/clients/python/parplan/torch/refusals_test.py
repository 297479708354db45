"""Refusals name the layer and say what to do."""

import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs
from torch import nn

import parplan.torch
from parplan.errors import SpecInvalid
from parplan.strategy import ContextKind, Recompute, Sharding, Strategy
from parplan.torch.attention import Attention
from parplan.torch.blocks import Entry
from parplan.torch.refusals import check_plan, check_spreads

ONE = Strategy(1, 1)
ULYSSES = Strategy(1, 1, context_parallel_degree=2, context_kind=ContextKind.ULYSSES)


def refusal(strategies, spec=None, model=None, kind="plain"):
    plan = jobs.plan_of(spec or jobs.spec_of(kind, len(strategies)), [strategies], is_run=False,
                        batch=8, micro_batch_count=1)
    model = model or jobs.model_of(kind, len(strategies))
    with pytest.raises(SpecInvalid) as raised:
        check_plan(plan, model, parplan.torch.find_layers(model, plan))
    return raised.value


def test_layers_of_another_width_are_refused():
    spec = plans.model_of(4)
    spec.layer_definitions[1].hidden_size = 2 * jobs.HIDDEN
    error = refusal([ONE] * 4, spec)
    assert error.metadata["field"] == "layer 1"
    assert str(2 * jobs.HIDDEN) in error.message and "into one layer" in error.message


def test_heads_that_ranks_cannot_share_are_refused_with_what_divides_them():
    error = refusal([Strategy(1, 2), ULYSSES, *[Strategy(1, 2)] * 2],
                    plans.model_of(4, key_value_head_count=3))
    assert error.metadata["field"] == "layer 1"
    assert "3 of keys and values" in error.message and "rings" in error.message


def test_a_frozen_layer_and_modules_by_name_are_refused_with_what_to_do():
    spec = plans.model_of(4)
    spec.layer_definitions[1].frozen = True
    error = refusal([ONE] * 4, spec)
    assert error.metadata["field"] == "layer 1" and "without frozen" in error.message


def add_a_number(layer):
    layer.gain = nn.Parameter(torch.ones(()))


def turn_a_matrix(layer):
    layer.up.weight = nn.Parameter(layer.up.weight.detach().t().contiguous().t())


def mix_types(layer):
    layer.up.to(torch.bfloat16)


@pytest.mark.parametrize(("change", "what"), [
    (add_a_number, "gain is one number"), (turn_a_matrix, "up.weight is not contiguous"),
    (mix_types, "up.weight have the types torch.float32 and torch.bfloat16")])
def test_parameters_that_are_not_sharded_are_refused_by_name(change, what):
    model = jobs.model_of("plain", 4)
    change(model[2])
    sharded = Strategy(1, 2, sharding=Sharding.OPTIMIZER)
    error = refusal([sharded] * 4, model=model)
    assert error.metadata["field"] == "layer 2" and what in error.message
    # Layers run that no rank shards, or that are sharded by copies of one type.
    runs = [(Strategy(1, 2), False), *([(sharded, True)] if change is mix_types else [])]
    for strategy, casts in runs:
        plan = jobs.plan_of(jobs.spec_of("plain", 4), [[strategy] * 4], is_run=False, batch=8,
                            micro_batch_count=1)
        check_plan(plan, model, parplan.torch.find_layers(model, plan), casts=casts)


@pytest.mark.parametrize("norm", [0.0, -1.0, float("nan")])
def test_a_norm_that_bounds_nothing_is_refused(norm):
    plan = jobs.plan_of(jobs.spec_of("plain", 3), [[ONE] * 3], batch=2, micro_batch_count=1)
    with pytest.raises(SpecInvalid) as raised:
        parplan.torch.apply(plan, jobs.model_of("plain", 3), jobs.loss_fn, device="cpu",
                            max_gradient_norm=norm)
    assert raised.value.metadata["field"] == "max_gradient_norm"


class _Group:
    def size(self):
        return 2


def attention(kind):
    return Attention(3, kind, Recompute.NONE, _Group(), True)


def test_attention_names_its_layer():
    ulysses = attention(ContextKind.ULYSSES)
    rows = torch.zeros(1, 3, 4, 2)
    for options, what in (({}, "rings"), ({"dropout_p": 0.1}, "dropout to 0"),
                          ({"attn_mask": torch.zeros(4, 4)}, "is_causal=True")):
        with pytest.raises(SpecInvalid) as raised:
            ulysses.attend(rows, rows, rows, **options)
        assert raised.value.metadata["field"] == "layer 3" and what in raised.value.message
    # Keys and values have fewer heads.
    with pytest.raises(SpecInvalid) as raised:
        ulysses.attend(torch.zeros(1, 4, 4, 2), torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2))
    assert "gets 1 heads" in raised.value.message


def test_a_block_without_its_activations_names_them():
    entry = Entry(2, "model.layers.1.mlp", None, None)
    with pytest.raises(SpecInvalid) as raised:
        entry(nn.Identity(), (), {"rows": torch.zeros(2)})
    assert raised.value.metadata["field"] == "layer 2"
    assert "model.layers.1.mlp" in raised.value.message and "hidden_states" in raised.value.message


@pytest.mark.parametrize("stages", [[[Strategy(2, 1)] * 4], [[Strategy(2, 1)] * 2] * 2])
def test_a_table_that_its_two_layers_split_otherwise_is_refused_on_every_rank(stages):
    """On two stages ranks would add up gradients of other parts of it than each other's."""
    plan = jobs.plan_of(jobs.spec_of("plain", 4, True), stages, batch=4, micro_batch_count=2)
    model = jobs.model_of("plain", 4, True)
    layers = parplan.torch.find_layers(model, plan)
    check_spreads(plan, model, layers, jobs.TENSOR_PLAN)
    others = {name: style for name, style in jobs.TENSOR_PLAN.items() if name != "*.projection"}
    for split in ({**others, "*.projection": "rowwise"}, {**jobs.TENSOR_PLAN, "0": "colwise"},
                  {**others, "*.norm": "replicated_with_grad_allreduce"}):
        with pytest.raises(SpecInvalid, match="otherwise than there") as raised:
            check_spreads(plan, model, layers, split)
        assert raised.value.metadata["field"] == "layer 3"


def test_a_table_in_groups_of_two_sizes_is_refused():
    two, four = (Strategy(1, 8, sharding=Sharding.PARAMETERS, sharding_degree=count)
                 for count in (2, 4))
    error = refusal([two, two, four, four], jobs.spec_of("plain", 4, True),
                    jobs.model_of("plain", 4, True))
    assert error.metadata["field"] == "layer 3"
    assert "sharded as the embedding is" in error.message


def other_lengths():
    """Returns the fields of the errors for samples of other lengths than the plan's."""
    ring = Strategy(1, 1, context_parallel_degree=2)
    plan = jobs.plan_of(plans.model_of(3), [[ring] * 3], batch=2, micro_batch_count=1)
    run = parplan.torch.apply(plan, jobs.model_of("plain", 3), jobs.loss_fn, device="cpu")
    inputs, targets = jobs.batch_of(2)
    longer = torch.cat([targets, targets[:, :4]], 1)
    found = []
    for one, other in ((inputs, longer), (inputs, targets[:, 0]),
                       (torch.zeros(2, jobs.TOKENS + 4, jobs.HIDDEN), targets)):
        with pytest.raises(SpecInvalid) as raised:
            run.step(one, other)
        assert "pad or cut" in raised.value.message
        found.append(raised.value.metadata["field"])
    run.step(inputs, targets)
    return found


def test_samples_of_another_length_are_refused_where_ranks_share_them(tmp_path):
    assert jobs.run_ranks(2, tmp_path, other_lengths, [()]) == [
        [["targets", "targets", "inputs"]] * 2]
