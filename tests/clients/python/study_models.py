"""Models for the studies of predictions beside measurements (parplan/torch/*_study.py), with their
`ModelSpec` and tensor-parallel plan. Processes that a study starts, and `parplan-torch profile`,
import this module."""

from __future__ import annotations

import torch
from torch import nn

from parplan.wire import json_file

HIDDEN, HEADS, FEED_FORWARD, DECODERS, TOKENS, VOCABULARY = 256, 8, 1024, 4, 128, 2048
LAYERS = DECODERS + 2
KINDS = ("plain", "llama", "gpt2")


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(HIDDEN, HIDDEN, bias=False)
                                                      for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (matrix(x).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2)
                             for matrix in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, FEED_FORWARD, bias=False)
        self.down = nn.Linear(FEED_FORWARD, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention, self.feed_forward = Attention(), FeedForward()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first_norm(x))
        return x + self.feed_forward(self.second_norm(x))


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.projection = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.projection(self.norm(x))


def plain() -> nn.Module:
    return nn.Sequential(nn.Embedding(VOCABULARY, HIDDEN), *(Block() for _ in range(DECODERS)),
                         Head())


def llama() -> nn.Module:
    import transformers
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=FEED_FORWARD,
        num_hidden_layers=DECODERS, num_attention_heads=HEADS, num_key_value_heads=HEADS // 2,
        max_position_embeddings=TOKENS, attn_implementation="sdpa", tie_word_embeddings=False))


def gpt2() -> nn.Module:
    import transformers
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=DECODERS, n_head=HEADS, n_inner=FEED_FORWARD,
        n_positions=TOKENS, attn_implementation="sdpa", tie_word_embeddings=False, embd_pdrop=0.0,
        resid_pdrop=0.0, attn_pdrop=0.0))


PLAIN_TENSOR_PLAN = {
    "*.attention.query": "colwise", "*.attention.key": "colwise", "*.attention.value": "colwise",
    "*.attention.out": "rowwise", "*.feed_forward.up": "colwise", "*.feed_forward.down": "rowwise",
    f"{DECODERS + 1}.projection": "colwise_gather_output"}


def model_of(kind: str) -> nn.Module:
    """Returns a model with the same values in every process."""
    torch.manual_seed(0)
    return {"plain": plain, "llama": llama, "gpt2": gpt2}[kind]()


def tensor_plan_of(kind: str) -> dict[str, str] | None:
    return PLAIN_TENSOR_PLAN if kind == "plain" else None


def spec_of(kind: str) -> object:
    """Returns the `ModelSpec` of a model, with its numbers of parameters."""
    common = {"hidden_size": HIDDEN, "sequence_length": TOKENS}
    decoder = {"feed_forward_kind": "FEED_FORWARD_KIND_GELU"}
    if kind == "llama":
        decoder = {"feed_forward_kind": "FEED_FORWARD_KIND_SWIGLU",
                   "key_value_head_count": HEADS // 2}
    embedding = (VOCABULARY + (TOKENS if kind == "gpt2" else 0)) * HIDDEN
    return json_file.from_dict({
        "model_id": kind, "precision": "PRECISION_FP32", "optimizer": "OPTIMIZER_ADAM",
        "layer_definitions": [
            {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING",
             "vocabulary_size": VOCABULARY, "parameter_count": str(embedding), **common},
            {"layer_definition_id": "decoder", "kind": "LAYER_KIND_DECODER",
             "attention_head_count": HEADS, "feed_forward_size": FEED_FORWARD, **common,
             **decoder},
            {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD",
             "vocabulary_size": VOCABULARY, **common}],
        "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                       {"layer_definition_id": "decoder", "layer_count": DECODERS},
                       {"layer_definition_id": "head", "layer_count": 1}]}, "ModelSpec", kind)


def loss_fn(output: object, target: torch.Tensor) -> torch.Tensor:
    logits = getattr(output, "logits", output)
    return nn.functional.cross_entropy(logits.flatten(0, -2).float(), target.flatten())


def batch_of(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, VOCABULARY, (size, TOKENS + 1), generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
