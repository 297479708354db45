"""Layers of a model that cannot be measured in every way that was asked for."""

import pytest
import torch
import torch_jobs
from measured_models import on_meta
from torch import nn

from parplan.errors import SpecInvalid
from parplan.torch.measure import passes
from parplan.torch.measure.devices import Processor
from parplan.torch.measure.job import Job
from parplan.torch.measure.layer_times import LayerMeasurement
from parplan.torch.measure.passes import LONG, SHORT, Pass
from parplan.torch.measure.request import Request
from parplan.torch.measure.splits import Split, SplitLayers
from parplan.torch.measure.steady import Bench, Effort, Spread

CPU = torch.device("cpu")
NAMES = ("embedding", "decoder", "head")
HEADS = torch_jobs.HEADS


def measure(model, policies=(), split=Split(), makers=SplitLayers, **decoder):
    definitions = {"embedding": {"kind": "LAYER_KIND_EMBEDDING"},
                   "decoder": {"attention_head_count": HEADS, **decoder},
                   "head": {"kind": "LAYER_KIND_HEAD"}}
    request = Request("this CPU", 1, (1,), 1, (), Effort(seconds=0.001), policies=policies)
    begun = []
    layers = LayerMeasurement(model, NAMES, definitions, request,
                              Bench(Processor(), request.effort), "torch", begun.append)
    maker = makers(model, Split(), Job(), CPU)
    # One rank that is asked for the part of one among several; its layers stay whole.
    maker.split = split
    return layers.run([maker]), begun


def decoders():
    return on_meta(torch_jobs.plain_model(3, False), {}, torch_jobs.TOKENS)


@pytest.mark.parametrize("degree, field, count", [
    (5, "attention_head_count", HEADS), (6, "key_value_head_count", 4)])
def test_heads_that_ranks_cannot_share_are_left_out(degree, field, count):
    made, begun = measure(decoders(), split=Split(degree), key_value_head_count=4)
    assert [one["layer_definition_id"] for one in made.timings] == ["embedding", "head"]
    assert [one["layer_definition_id"] for one in made.memories] == ["embedding", "head"]
    assert any(f"decoder on {degree} tensor-parallel ranks: was left out: decoder.{field}: {count} "
               f"cannot be shared by {degree} ranks" in note for note in made.notes)
    assert begun == [f"{name} on {degree} tensor-parallel ranks" for name in NAMES]


class Slow(nn.Module):
    """Attention in operators of its own."""

    def __init__(self):
        super().__init__()
        self.values = nn.Linear(torch_jobs.HIDDEN, torch_jobs.HIDDEN)

    def forward(self, x):
        return torch.softmax(x @ x.transpose(1, 2), -1) @ self.values(x)


def test_attention_that_cannot_be_taken_over_has_no_selective_recomputation():
    model = on_meta(nn.Sequential(nn.Embedding(8, torch_jobs.HIDDEN), Slow(),
                                  nn.Linear(torch_jobs.HIDDEN, 8)), {}, torch_jobs.TOKENS)
    made, _ = measure(model, ("selective", "full"))
    assert {one["policy"] for one in made.recomputations} == {"full"}
    assert any("recomputation selective was left out: layer 1: its attention does not go through"
               in note for note in made.notes)


def test_tables_have_no_policies():
    made, _ = measure(decoders(), ("selective", "selective-op", "full"))
    assert {one["layer_definition_id"] for one in made.recomputations} == {"decoder"}


def test_a_layer_that_one_rank_cannot_have_is_an_error():
    class Fixed(nn.Linear):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.register_buffer("scale", torch.ones(1))

    model = on_meta(nn.Sequential(nn.Embedding(8, 4), Fixed(4, 4), nn.Linear(4, 8)), {})
    with pytest.raises(SpecInvalid, match="the buffer scale has no values on the meta device"):
        measure(model)


class PartsOfHeads(SplitLayers):
    """Gives layers half of the queries that their own code expects."""

    def make(self, kind, count):
        made = super().make(kind, count)
        for layer in made:
            if hasattr(layer, "attention"):
                layer.attention.query = nn.Linear(torch_jobs.HIDDEN, torch_jobs.HIDDEN // 2)
        return made


def test_a_layer_whose_code_knows_its_whole_size_is_left_out():
    made, _ = measure(decoders(), split=Split(2), makers=PartsOfHeads)
    assert [one["layer_definition_id"] for one in made.timings] == ["embedding", "head"]
    assert any("layer 1: cannot run on 2 tensor-parallel ranks:" in note for note in made.notes)


def test_numbers_of_samples_are_measured_in_turns(monkeypatch):
    begun = []

    class Watched(Pass):
        def __init__(self, layers, kind, samples, *others):
            super().__init__(layers, kind, samples, *others)
            self.key = (samples, len(layers))

        def forward(self):
            begun.append(self.key)
            super().forward()

    monkeypatch.setattr(passes, "Pass", Watched)
    model = decoders()
    decoder = model.kinds[1]
    bench = Bench(Processor(), Effort(seconds=0.001))
    found = passes.measure_passes(model.on_device(decoder, CPU, LONG), decoder, [1, 3], bench,
                                  False)
    assert list(found) == [1, 3]
    turn = [(1, SHORT), (1, LONG), (3, SHORT), (3, LONG)]
    assert begun == turn * (len(begun) // len(turn))
    # Those that warm up are not counted.
    assert {one.forward.count for one in found.values()} == {len(begun) // len(turn) - 2}


def test_the_longer_chain_tells_what_the_difference_of_two_does_not():
    def spread(median, uncertainty):
        return Spread(median, median, 9, uncertainty)

    known, unknown = spread(1.0, 0.01), spread(1.0, 0.3)
    close, far, noisy = spread(1.1, 0.1), spread(1.4, 0.1), spread(1.1, 0.4)
    assert passes.better_known(unknown, close, 0.02) is close
    # The difference stays where the chain has more, or is no better known.
    assert passes.better_known(unknown, far, 0.02) is unknown
    assert passes.better_known(unknown, noisy, 0.02) is unknown
    assert passes.better_known(known, spread(1.005, 0.005), 0.02) is known
