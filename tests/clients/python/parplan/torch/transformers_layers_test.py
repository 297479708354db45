"""The layers of a model of transformers, one after the other, are the model."""

import pytest
import torch

import parplan
from parplan.strategy import ContextKind, Recompute, RecomputePolicy
from parplan.torch.attention import Attention
from parplan.torch.layers import layers_of
from parplan.torch.recompute import contexts_of
from parplan.torch.stage import Layer

transformers = pytest.importorskip("transformers")

SMALL = {"vocab_size": 96, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
         "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
         "attn_implementation": "sdpa"}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}


def make(name, **more):
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **more})
    torch.manual_seed(0)
    kind = "MaskedLM" if name == "Bert" else "LMHeadModel" if name == "GPT2" else "CausalLM"
    return getattr(transformers, f"{name}{kind}" if name == "GPT2" else f"{name}For{kind}")(config)


@pytest.mark.parametrize(("name", "more"), [
    ("Llama", {}), ("Qwen2", {}), ("Qwen3", {"head_dim": 16}), ("Olmo2", {}), ("Phi3", {}),
    ("Granite", {}), ("Starcoder2", {"sliding_window": None}),
    ("Mistral", {"sliding_window": None}),
    ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    ("Qwen3Moe", {"num_experts": 4, **EXPERTS}), ("Qwen2Moe", {"num_experts": 4, **EXPERTS}),
    ("GPT2", {}), ("Bert", {})])
def test_the_layers_are_the_model(name, more):
    model = make(name, **more).eval()
    tokens = torch.randint(0, 96, (2, 16))
    hidden = tokens
    with torch.no_grad():
        for layer in layers_of(model):
            hidden = layer(hidden)
        expected = model(input_ids=tokens).logits
    assert (hidden - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_layers_of_a_model_of_images_take_images_of_32_bits(dtype):
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        image_size=16, patch_size=4, num_labels=10, attn_implementation="sdpa")).to(dtype).eval()
    images = torch.randn(2, 3, 16, 16)
    hidden = images
    with torch.no_grad():
        for layer in layers_of(model):
            hidden = layer(hidden)
        expected = model(pixel_values=images).logits
    assert hidden.dtype == dtype
    assert (hidden - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize(("name", "more"), [
    ("Gemma", {}), ("Granite", {"embedding_multiplier": 2.0}), ("Cohere", {"logit_scale": 0.1}),
    ("Mistral", {"sliding_window": 8}),
    ("Qwen2", {"layer_types": ["full_attention", "sliding_attention"]})])
def test_a_model_that_is_more_than_its_layers_is_refused(name, more):
    with pytest.raises(parplan.errors.SpecInvalid) as raised:
        layers_of(make(name, **more))
    assert raised.value.metadata["field"] == "model"


def test_what_attention_needs_of_positions_is_made_once_for_layers_with_the_same_tokens():
    model = make("Llama").eval()
    calls = []
    model.model.rotary_emb.register_forward_hook(lambda *_: calls.append(1))
    layers = layers_of(model)
    tokens = torch.randint(0, 96, (2, 16))

    def logits(positions):
        hidden = tokens
        for layer in layers:
            if hasattr(layer, "token_positions"):
                # Equal numbers, not the same tensor.
                layer.token_positions = positions.clone()
            hidden = layer(hidden)
        return hidden

    with torch.no_grad():
        for first in (0, 3, 0):
            positions = torch.arange(first, first + 16)
            expected = model(input_ids=tokens, position_ids=positions.unsqueeze(0)).logits
            calls.clear()
            made = logits(positions)
            assert (made - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert calls == []
    kept = layers[1].rotations.kept
    # Cosines and sines of both.
    assert len(kept) == 4 and layers[2].rotations is layers[1].rotations
    with torch.no_grad():
        layers[1].to(torch.bfloat16)(torch.zeros(1, 16, 48, dtype=torch.bfloat16))
    assert [one.dtype for one in layers[1].rotations.kept[4:]] == [torch.bfloat16] * 2


@pytest.mark.parametrize("places", [None, torch.arange(3, 19)])
def test_a_model_that_ran_for_inference_first_trains(places):
    def gradients(infers_first):
        model = make("Llama")
        layers = layers_of(model)
        for layer in layers[1:-1]:
            layer.token_positions = places
        tokens = torch.arange(32).reshape(2, 16)

        def logits():
            hidden = tokens
            for layer in layers:
                hidden = layer(hidden)
            return hidden

        if infers_first:
            with torch.inference_mode():
                logits()
            assert not any(one.is_inference() for one in layers[1].constants)
        logits().square().sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    for found, expected in zip(gradients(True), gradients(False)):
        assert torch.equal(found, expected)


# Both rotations and layers are made by these.
@pytest.mark.parametrize("name", ["aten.cat.default", "aten.mul.Tensor"])
def test_recomputation_by_operator_keeps_nothing_of_what_is_made_once(name):
    def gradients(policy):
        layer = layers_of(make("Llama"))[1]
        layer.token_positions = torch.arange(16)
        level = Recompute.NONE if policy is None else Recompute.SELECTIVE
        whole = Layer(layer, level, Attention(0, ContextKind.RING, Recompute.NONE, None,
                                              is_transformer=True), None,
                      None if policy is None else contexts_of(policy))
        torch.manual_seed(1)
        hidden = torch.randn(2, 16, 48, requires_grad=True)
        # The first pass makes the rotations, and the second one finds them.
        for _ in range(2):
            whole(hidden).square().sum().backward()
        return [hidden.grad, *(parameter.grad for parameter in layer.parameters())]

    for found, expected in zip(gradients(RecomputePolicy("op", (name,))), gradients(None)):
        assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()
