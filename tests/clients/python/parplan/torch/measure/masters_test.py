"""Layers of 16 bits with parameters of 32, and what a profile of them is made of."""

import pytest
import torch
import torch_jobs
from measured_models import Block, on_meta

from parplan.torch.measure import layer_times, rank
from parplan.torch.measure.devices import Processor
from parplan.torch.measure.job import Job
from parplan.torch.measure.layer_times import LayerMeasurement
from parplan.torch.measure.masters import Copied, with_masters
from parplan.torch.measure.request import MeasuredJob, Request
from parplan.torch.measure.splits import Split, SplitLayers
from parplan.torch.measure.steady import Bench, Effort, Spread

SPREAD = Spread(1e-3, 1e-3, 9, 0.0)


def test_copies_send_their_gradients_to_parameters_of_32_bits():
    layer = Block().to(torch.bfloat16)
    before = dict(layer.named_parameters())
    given = torch.randn(2, 3, before["up.weight"].shape[1], dtype=torch.bfloat16)
    expected = layer(given)
    with with_masters([layer]) as (copied,):
        assert isinstance(copied, Copied)
        made = copied(given)
        assert made.dtype == torch.bfloat16 and torch.equal(made, expected)
        made.sum().backward()
        masters = dict(layer.named_parameters())
        assert {one.dtype for one in masters.values()} == {torch.float32}
        assert {one.grad.dtype for one in masters.values()} == {torch.float32}
    after = dict(layer.named_parameters())
    assert all(after[name] is one and one.grad is None for name, one in before.items())


def test_layers_of_32_bits_are_left_alone():
    layer = Block()
    with with_masters([layer]) as (same,):
        assert same is layer


def decoders(dtype):
    return on_meta(torch_jobs.plain_model(3, False).to(dtype), {}, torch_jobs.TOKENS)


def measure(model, *policies):
    definitions = {"embedding": {"kind": "LAYER_KIND_EMBEDDING"},
                   "decoder": {"attention_head_count": torch_jobs.HEADS},
                   "head": {"kind": "LAYER_KIND_HEAD"}}
    request = Request("this CPU", 1, (1,), 1, (), Effort(seconds=0.001), policies=policies)
    layers = LayerMeasurement(model, tuple(definitions), definitions, request,
                              Bench(Processor(), request.effort), "torch", lambda _: None)
    return layers.run([SplitLayers(model, Split(), Job(), torch.device("cpu"))])


@pytest.mark.parametrize("dtype, expected", [(torch.bfloat16, True), (torch.float32, False)],
                         ids=str)
def test_passes_are_timed_as_jobs_train(monkeypatch, dtype, expected):
    timed = []
    measure_passes = layer_times.measure_passes

    def watched(layers, *arguments):
        timed.append(all({one.dtype for one in layer.parameters()} == {torch.float32}
                         for layer in layers))
        timed.append(any(isinstance(part, Copied) for layer in layers
                         for part in layer.modules()))
        return measure_passes(layers, *arguments)

    monkeypatch.setattr(layer_times, "measure_passes", watched)
    made = measure(decoders(dtype), "full", "selective", "selective-op")
    # Three layers, and three policies of the decoder.
    assert timed == [True, expected] * 6
    assert any("parameters of 32 bits" in note for note in made.notes) == expected
    # Memory is that of activations, without copies of parameters.
    kept = {one["layer_definition_id"]: int(one["checkpoint_bytes_per_sample"])
            for one in made.memories}
    size = 2 if expected else 4
    assert kept["decoder"] == torch_jobs.TOKENS * torch_jobs.HIDDEN * size


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_the_optimizer_updates_parameters_of_32_bits(monkeypatch, dtype):
    dtypes = []

    def watched(name, count, of, bench):
        dtypes.append(of)
        return SPREAD

    monkeypatch.setattr(rank, "measure_optimizer", watched)
    rank._measure_optimizers(MeasuredJob({}), decoders(dtype), "OPTIMIZER_ADAM", None)
    assert set(dtypes) == {torch.float32}
