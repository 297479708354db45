"""Prices of messages, by hand, and times of layers without them. No times are measured."""

import measured_models
import pytest

from parplan.torch.measure.collectives import CollectiveTime, Prices
from parplan.torch.measure.job import run_job
from parplan.torch.measure.steady import Spread


def row(size, seconds, name="sum", stride=1):
    return CollectiveTime(name, 2, stride, size, Spread(seconds, seconds, 9, 0.0), None)


def test_prices_are_lines_that_never_fall():
    prices = Prices([row(20, 3.0), row(10, 1.0), row(40, 2.0), row(10, 9.0, stride=2)])
    assert [prices.seconds("sum", 2, size) for size in (10, 15, 20, 30, 40, 80)] == [
        1.0, 2.0, 3.0, 3.0, 3.0, 6.0]
    # The line below the first point reaches 0, where a part of the message does not.
    assert prices.seconds("sum", 2, 5) == 0.5
    assert Prices([row(10, 1.0)]).seconds("sum", 2, 5) == 0.5
    for name, count in (("gather", 2), ("sum", 4)):
        with pytest.raises(KeyError):
            prices.seconds(name, count, 10)


def test_split_layers_keep_what_their_messages_take_beyond_their_prices():
    rows = run_job(2, measured_models.measure_priced_layers, None, threads=1)
    found = {(one["layer_definition_id"], one["tensor_parallel_degree"], one["micro_batch_size"]):
             (one["forward_duration"], one["backward_duration"]) for one in rows}
    for samples in (1, 2):
        # A sum each way of the block; logits are gathered, and the gradient of the input summed.
        assert found["block", 2, samples] == found["head", 2, samples] == (
            "0.500000000s", "0.500000000s")
        # Nothing else takes time there.
        assert found["head", 1, samples] == ("0.000000001s", "0.000000001s")
