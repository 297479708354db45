"""Policies of recomputation: the same gradients, fewer bytes."""

import pytest
import torch
import torch_jobs
from measured_models import TOKENS, WIDTH, Block, on_meta
from torch import nn

from parplan.torch.measure.devices import Processor
from parplan.torch.measure.kept import measure_kept
from parplan.torch.measure.recompute import POLICIES, with_policy

CPU = torch.device("cpu")


def decoder():
    model = on_meta(torch_jobs.plain_model(4, False), {}, torch_jobs.TOKENS)
    return model, model.kinds[1]


@pytest.mark.parametrize("policy", POLICIES)
def test_gradients_are_those_without_recomputation(policy):
    model, kind = decoder()
    layer = model.on_device(kind, CPU, 1)[0]
    given = kind.given.make(2, CPU)
    gradients = []
    for module in (layer, with_policy(layer, policy, kind)):
        own = given.clone().requires_grad_()
        layer.zero_grad()
        module(own).square().sum().backward()
        gradients.append([own.grad, *(one.grad.clone() for one in layer.parameters())])
    for ours, theirs in zip(*gradients):
        torch.testing.assert_close(ours, theirs)


def test_policies_keep_less_and_less():
    model, kind = decoder()
    kept = measure_kept(model.on_device(kind, CPU, 4), kind, 1, Processor(), False,
                        POLICIES).by_policy
    assert kept["full"] < kept["selective"] < kept["none"]
    assert kept["full"] < kept["selective-op"] < kept["none"]
    assert kept["full"] == 4 * torch_jobs.TOKENS * torch_jobs.HIDDEN
    # Attention keeps its inputs and its result, and beside them a number for each row of scores,
    # which selective recomputation makes again.
    assert kept["none"] - kept["selective"] == 4 * torch_jobs.HEADS * torch_jobs.TOKENS


def test_every_second_product_is_made_again():
    with torch.device("meta"):
        model = on_meta(nn.Sequential(nn.Embedding(8, WIDTH), *(Block(False) for _ in range(2)),
                                      nn.Linear(WIDTH, 8)), {})
    kind = model.kinds[1]
    kept = measure_kept(model.on_device(kind, CPU, 4), kind, 1, Processor(), False,
                        ("none", "selective-op")).by_policy
    # The input, and the result of the first product; the second one's is made again.
    assert kept["selective-op"] == 4 * TOKENS * (WIDTH + 4 * WIDTH)
