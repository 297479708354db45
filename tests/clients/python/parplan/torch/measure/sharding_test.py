"""What sharding adds to the passes over layers. No times are measured."""

import measured_models
import pytest
import torch
from torch import nn

from parplan.torch.measure.job import run_job
from parplan.torch.measure.sharding import (ShardingTimes, can_measure_sharding, largest_chain)


def test_slowdown_by_hand():
    assert ShardingTimes(whole=2.0, sharded=3.5, messages=1.0, ratio=1.5).slowdown == 2.5
    # Faster with messages than without them is noise.
    assert ShardingTimes(whole=2.0, sharded=1.9, messages=1.0, ratio=-0.1).slowdown == 1.0


@pytest.mark.skipif(not hasattr(torch.cpu.Stream, "record_event"),
                    reason="this release shards no layers on processors")
def test_messages_of_sharded_layers_are_those_that_are_timed_alone():
    # Each collective takes a second there, and nothing else takes time.
    times = run_job(2, measured_models.count_sharded_messages, None, threads=1)
    # Two gathers and a reduce-scatter of each of four layers.
    assert (times.whole, times.sharded, times.messages) == (0.0, 12.0, 12.0)
    assert times.slowdown == 2.0


def test_the_layer_with_most_parameters_is_measured():
    model = measured_models.on_meta(nn.Sequential(
        nn.Embedding(8, 4), nn.LayerNorm(4), nn.Linear(4, 4), nn.Linear(4, 8)), {})
    chosen = largest_chain(model)
    assert chosen is not None and chosen.indices == (2,)


def test_layers_that_jobs_do_not_shard_are_not_measured():
    scaled = nn.Linear(4, 4)
    scaled.gain = nn.Parameter(torch.ones(()))
    for layer in (scaled, nn.ReLU()):
        model = measured_models.on_meta(
            nn.Sequential(nn.Embedding(8, 4), layer, nn.Linear(4, 8)), {})
        assert largest_chain(model) is None


def test_other_devices_and_models_are_measured_by_products():
    chain = measured_models.on_meta()
    assert can_measure_sharding("cpu", torch.float32, chain) == hasattr(torch.cpu.Stream,
                                                                        "record_event")
    assert not can_measure_sharding("cuda", torch.float32, chain)
    assert not can_measure_sharding("cpu", torch.bfloat16, chain)
    ends = measured_models.on_meta(nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8)), {})
    assert not can_measure_sharding("cpu", torch.float32, ends)
