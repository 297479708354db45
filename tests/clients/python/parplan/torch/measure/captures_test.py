"""Layers of models, by their names and by the way activations take."""

import pytest
import torch
from measured_models import TOKENS, VOCABULARY, WIDTH, Block
from torch import nn

from parplan.errors import SpecInvalid
from parplan.torch.measure.captures import (Captured, layers_by_name, layers_by_structure,
                                            token_ids)
from parplan.torch.measure.models import Model


class Core(nn.Module):
    """Layers that get an argument beside their activations, as those of torchtitan do."""

    def __init__(self, doubles: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleDict({str(index): Rotated() for index in range(3)})
        self.norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.doubles = doubles

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.tokens(ids)
        angles = torch.ones(ids.shape[1], WIDTH, device=ids.device)
        for layer in self.layers.values():
            hidden = layer(hidden, angles, scale=2.0)
        if self.doubles:
            hidden = hidden * 2
        return self.output(self.norm(hidden))


class Rotated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor, angles: torch.Tensor, scale: float) -> torch.Tensor:
        assert angles.shape == (x.shape[1], WIDTH) and scale == 2.0
        return self.block(x * angles)


def core(**options):
    with torch.device("meta"):
        return Core(**options)


def test_the_longest_list_and_what_is_around_it():
    model = core()
    layers = layers_by_structure(model, token_ids(TOKENS))
    assert [type(one.layer) for one in layers[:4]] == [nn.Embedding, Rotated, Rotated, Rotated]
    assert [type(one.layer) for one in layers[4]] == [nn.LayerNorm, nn.Linear]
    found = Model(model, layers, token_ids(TOKENS))
    assert [kind.indices for kind in found.kinds] == [(0,), (1, 2, 3), (4,)]
    assert found.kinds[1].given == Captured((TOKENS, WIDTH), torch.float32, True)
    assert found.kinds[2].returned.shape == (TOKENS, VOCABULARY)


def test_layers_called_anew_are_those_of_the_model():
    torch.manual_seed(0)
    model = Core()
    layers = layers_by_structure(model, token_ids(TOKENS))
    ids = torch.randint(0, VOCABULARY, (2, TOKENS))
    hidden = ids
    for layer in layers:
        for part in layer.modules():
            if hasattr(part, "_made") and hidden.dim() == 3:
                # Captured tensors have random values; the model's are ones.
                part._made = {(0, 2, hidden.device): torch.ones(TOKENS, WIDTH)}
        hidden = layer(hidden)
    torch.testing.assert_close(hidden, model(ids))


def test_a_module_that_gets_something_else_is_no_layer():
    layers = layers_by_structure(core(doubles=True), token_ids(TOKENS))
    # The norm does not get what the last layer returned.
    assert [type(one.layer) for one in layers] == [nn.Embedding, Rotated, Rotated, Rotated]


def test_no_list_no_layers():
    with torch.device("meta"):
        assert layers_by_structure(nn.Sequential(nn.Embedding(4, 4)), token_ids(TOKENS)) == []


def test_names_in_any_order_and_joined():
    model = core()
    layers = layers_by_name(model, ["norm+output", "layers.*", "tokens"], token_ids(TOKENS))
    assert [type(one) for one in layers[-1].children()] != []
    assert [type(one.layer) for one in layers[:2]] == [nn.Embedding, Rotated]
    assert len(layers) == 5


@pytest.mark.parametrize("patterns, rule", [
    (["blocks.*"], "no module has a name like blocks"),
    (["layers.*+norm"], "joins names that are not of one module each"),
    (["layers"], "the model did not call layers with a tensor")])
def test_names_that_are_not_the_models(patterns, rule):
    with pytest.raises(SpecInvalid, match=rule):
        layers_by_name(core(), patterns, token_ids(TOKENS))
