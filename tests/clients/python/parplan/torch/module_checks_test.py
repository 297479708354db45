"""Modules that shares of a batch would change: refused before the first step, with their name."""

import pytest
import torch
import torch_jobs as jobs
from torch import nn

import parplan.torch
from parplan.errors import SpecInvalid
from parplan.strategy import ContextKind, Recompute, Strategy
from parplan.torch.refusals import check_plan
from parplan.torch.tensor_parallel import check_split, split_layer


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


def test_statistics_of_a_batch_are_refused_where_a_pass_sees_a_part_of_it():
    for norm in (nn.BatchNorm1d(jobs.HIDDEN), nn.SyncBatchNorm(jobs.HIDDEN),
                 nn.InstanceNorm1d(jobs.HIDDEN, track_running_stats=True),
                 nn.BatchNorm1d(jobs.HIDDEN, track_running_stats=False)):
        model = jobs.model_of("plain", 4)
        model[2].second_norm = norm
        for strategy, micro_batches in ((ONE, 2), (REPLICAS, 1),
                                        (Strategy(2, 1, sequence_parallel=True), 1)):
            error = refusal(model, strategy, micro_batches)
            assert error.metadata["field"] == "layer 2"
            assert "2.second_norm" in error.message and "eval()" in error.message
        assert is_allowed(model, ONE)
        norm.eval()
        if norm.track_running_stats:
            assert is_allowed(model, REPLICAS, 2)
        else:
            assert refusal(model, REPLICAS).metadata["field"] == "layer 2"


def test_running_statistics_are_refused_where_a_layer_runs_again():
    model = jobs.model_of("plain", 4)
    model[1].first_norm = nn.BatchNorm1d(jobs.HIDDEN)
    error = refusal(model, Strategy(1, 1, recompute=Recompute.FULL))
    assert "1.first_norm" in error.message and "twice" in error.message
    model[1].first_norm = nn.InstanceNorm1d(jobs.HIDDEN)
    assert is_allowed(model, Strategy(1, 1, recompute=Recompute.FULL), 2)
    error = refusal(model, Strategy(2, 1, sequence_parallel=True))
    assert "tokens of a sample" in error.message


@pytest.mark.parametrize("option, value, allowed", [
    ("max_norm", 1.0, True), ("scale_grad_by_freq", True, True), ("sparse", True, False)])
def test_tables_whose_options_depend_on_the_batch_are_refused(option, value, allowed):
    model = jobs.model_of("plain", 4)
    setattr(model[0], option, value)
    for strategy, micro_batches in ((ONE, 2), (REPLICAS, 1), (SPLIT, 1)):
        error = refusal(model, strategy, micro_batches)
        assert error.metadata["field"] == "layer 0"
        assert "0 (Embedding)" in error.message and option.split("_")[0] in error.message
    if allowed:
        assert is_allowed(model, ONE)
    else:
        assert "sparse=False" in refusal(model, ONE).message


def test_a_table_that_changes_its_rows_is_refused_where_layers_compute_with_copies():
    model = jobs.model_of("plain", 4)
    model[0].max_norm = 1.0
    with pytest.raises(SpecInvalid) as raised:
        check_plan(plan_with(ONE), model, list(model.children()), casts=True)
    assert "max_norm=None" in raised.value.message


def test_dropout_is_refused_under_whatever_name_a_module_keeps_it():
    for name in ("attention_dropout", "dropout_prob", "attn_pdrop", "drop_path_rate"):
        model = jobs.model_of("plain", 4)
        setattr(model[1].attention, name, 0.1)
        for strategy in (SPLIT, Strategy(1, 1, context_parallel_degree=2)):
            error = refusal(model, strategy)
            assert error.metadata["field"] == "layer 1"
            assert "1.attention" in error.message and f"{name} is 0.1" in error.message
        assert is_allowed(model, REPLICAS, 2)
        setattr(model[1].attention, name, 0.0)
        assert is_allowed(model, SPLIT)
    model = jobs.model_of("vit", 4)
    model.vit.layers[0].attention.attention_dropout = 0.25
    error = refusal(model, SPLIT, kind="vit")
    assert error.metadata["field"] == "layer 1" and "vit.layers.0.attention" in error.message


def rotating(scaling):
    import transformers
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=jobs.VOCABULARY, hidden_size=jobs.HIDDEN, intermediate_size=2 * jobs.HIDDEN,
        num_hidden_layers=2, num_attention_heads=jobs.HEADS, num_key_value_heads=4,
        max_position_embeddings=64, attn_implementation="sdpa", rope_scaling=scaling))


HALF = jobs.HIDDEN // jobs.HEADS // 2
LENGTH = {"original_max_position_embeddings": 20, "rope_theta": 10000.0}
DEPENDENT = [{"rope_type": "longrope", "short_factor": [1.0] * HALF,
              "long_factor": [4.0] * HALF, **LENGTH}]
INDEPENDENT = [{"rope_type": "yarn", "factor": 4.0, **LENGTH},
               {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}, None]


@pytest.mark.parametrize("kind", [ContextKind.RING, ContextKind.ULYSSES])
def test_rotations_that_depend_on_the_tokens_of_a_rank_are_refused(kind):
    shared = Strategy(1, 1, context_parallel_degree=2, context_kind=kind)
    for scaling in DEPENDENT:
        error = refusal(rotating(scaling), shared, kind="llama")
        assert error.metadata["field"] == "layer 1" and "model.rotary_emb" in error.message
        assert scaling["rope_type"] in error.message and "yarn" in error.message
        assert is_allowed(rotating(scaling), REPLICAS, 2, kind="llama")
        with torch.device("meta"):
            model = rotating(scaling)
        assert "model.rotary_emb" in refusal(model, shared, kind="llama").message
    for scaling in INDEPENDENT:
        assert is_allowed(rotating(scaling), shared, kind="llama")


def test_rotations_that_grow_with_the_sample_are_refused():
    model = rotating({"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0})
    shared = Strategy(1, 1, context_parallel_degree=2)
    # Samples are no longer than those that it was made for.
    assert is_allowed(model, shared, kind="llama")
    for name in ("original_max_seq_len", "max_seq_len_cached"):
        setattr(model.model.rotary_emb, name, 8)
    model.config.max_position_embeddings = 8
    error = refusal(model, shared, kind="llama")
    assert error.metadata["field"] == "layer 1" and "dynamic" in error.message


RING = Strategy(1, 1, context_parallel_degree=2)


@pytest.mark.parametrize(("mixer", "mixes"), [
    (nn.Conv1d(jobs.HIDDEN, jobs.HIDDEN, 3, padding=1), True),
    (nn.Conv1d(jobs.HIDDEN, jobs.HIDDEN, 1), False), (nn.AvgPool1d(2), True),
    (nn.LSTM(jobs.HIDDEN, jobs.HIDDEN), True), (nn.GRUCell(jobs.HIDDEN, jobs.HIDDEN), True),
    (nn.LPPool1d(2, 2), True), (nn.FractionalMaxPool2d(2, output_size=2), True),
    (nn.MaxUnpool1d(2), True), (nn.Unfold(2), True), (nn.Fold(4, 2), True)])
def test_modules_that_mix_tokens_are_refused_where_ranks_have_parts_of_them(mixer, mixes):
    model = jobs.model_of("plain", 4)
    model[2].mixer = mixer
    assert is_allowed(model, REPLICAS) and is_allowed(model, SPLIT)
    if not mixes:
        assert is_allowed(model, RING)
        return
    error = refusal(model, RING)
    assert error.metadata["field"] == "layer 2" and "2.mixer" in error.message
    assert "without context parallelism" in error.message
    names = {id(module): name for name, module in model.named_modules()}
    # No ranks are asked, so there is no mesh.
    with pytest.raises(SpecInvalid) as raised:
        split_layer(2, model[2], names, Strategy(2, 1, sequence_parallel=True), jobs.TENSOR_PLAN,
                    None)
    assert raised.value.metadata["field"] == "layer 2" and "2.mixer" in raised.value.message
    assert "without sequence parallelism" in raised.value.message


class FeatureConvolution(nn.Module):
    """A convolution over the hidden dimension of each token."""
    mixes_tokens = False

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(1, 1, 3, padding=1)

    def forward(self, x):
        return self.convolution(x.flatten(0, 1).unsqueeze(1)).view_as(x)


class Shifted(nn.Module):
    """A module whose class does not show that it mixes tokens."""
    mixes_tokens = True


def test_a_module_says_whether_it_mixes_tokens():
    model = jobs.model_of("plain", 4)
    names = {id(module): name for name, module in model.named_modules()}
    model[2].mixer = FeatureConvolution()
    model[1].mixer = nn.AvgPool1d(2)
    vars(model[1].mixer)["mixes_tokens"] = False
    assert is_allowed(model, RING)
    check_split(2, model[2], names, Strategy(2, 1, sequence_parallel=True), jobs.TENSOR_PLAN)
    model[2].mixer = nn.Sequential(FeatureConvolution(), nn.Conv1d(1, 1, 3))
    error = refusal(model, RING)
    assert "2.mixer.1" in error.message and "mixes_tokens to False" in error.message
    model[2].mixer = Shifted()
    assert "2.mixer" in refusal(model, RING).message
