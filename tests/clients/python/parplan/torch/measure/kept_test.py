"""Bytes that layers keep, by hand and beside MemTracker."""

import pytest
import torch
import torch_jobs
from measured_models import TOKENS, WIDTH, on_meta

from parplan.torch.measure.captures import token_ids
from parplan.torch.measure.devices import Processor
from parplan.torch.measure.kept import KeptBytes, measure_kept
from parplan.torch.measure.models import Model
from parplan.torch.layers import layers_of

CPU = torch.device("cpu")


def decoders(kind):
    """Returns a model of transformers to measure."""
    with torch.device("meta"):
        made = torch_jobs.transformers_model(kind, 4, False)
    return Model(made, layers_of(made), token_ids(torch_jobs.TOKENS))


def test_a_block_by_hand():
    kind = on_meta().kinds[1]
    kept = measure_kept(on_meta().on_device(kind, CPU, 4), kind, 2, Processor(), False)
    row = 4 * TOKENS
    # Input, mean and deviation of the norm, what it makes; both sides of the activation.
    assert kept.by_policy == {"none": row * (WIDTH + 2 + WIDTH + 4 * WIDTH + 4 * WIDTH),
                              "full": row * WIDTH}


@pytest.mark.parametrize("model", ["toy", "plain", "llama", "qwen3"])
def test_saved_tensors_are_what_is_allocated(model):
    if model == "toy":
        made = on_meta()
    elif model == "plain":
        made = on_meta(torch_jobs.plain_model(4, False), {}, torch_jobs.TOKENS)
    else:
        made = decoders(model)
    kind = made.kinds[1]
    assert kind.is_chainable
    kept = measure_kept(made.on_device(kind, CPU, 4), kind, 1, Processor(), False)
    if kept.allocated is None:
        pytest.skip("this release of PyTorch has no MemTracker")
    assert abs(kept.allocated - kept.by_policy["none"]) <= 0.01 * kept.by_policy["none"]
    assert not kept.differs


def test_one_percent_is_no_difference():
    assert not KeptBytes({"none": 1000}, 1010).differs
    assert KeptBytes({"none": 1000}, 1011).differs
    assert not KeptBytes({"none": 1000}, None).differs
