"""Tensor parallelism by the plans of transformers whose attention or feed-forward part is whole on
every rank (`rowwise_split_input`) or latent (`mla_kv_a_proj`)."""

import types

import pytest
import torch
import torch_jobs as jobs
from torch import nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

import parplan.errors
from parplan.strategy import Strategy
from parplan.torch.tensor_parallel import check_split

RANKS = 2
LAYERS = 4
# The smallest sizes of attention and experts that 2 ranks share.
COMMON = {"vocab_size": jobs.VOCABULARY, "hidden_size": jobs.HIDDEN, "num_hidden_layers": 2,
          "num_attention_heads": jobs.HEADS, "num_key_value_heads": 4, "pad_token_id": 0,
          "intermediate_size": 2 * jobs.HIDDEN, "max_position_embeddings": 64,
          "attn_implementation": "sdpa", "tie_word_embeddings": False}
LATENT = {**COMMON, "num_key_value_heads": jobs.HEADS, "kv_lora_rank": 16, "qk_rope_head_dim": 4,
          "qk_nope_head_dim": 8, "v_head_dim": 8, "q_lora_rank": 24}
ROUTED = {**LATENT, "first_k_dense_replace": 0, "n_routed_experts": jobs.EXPERTS, "n_group": 1,
          "topk_group": 1, "n_shared_experts": 1, "num_experts_per_tok": 2,
          "moe_intermediate_size": jobs.HIDDEN}
EXPERTS = {"num_experts_per_tok": 2, "num_experts": jobs.EXPERTS}
# Class of the configuration and of the model, fields, and the kind of the plan's model.
MODELS = {
    "phi3": ("Phi3", COMMON, "llama"),
    "olmo2": ("Olmo2", COMMON, "llama"),
    "glm4": ("Glm4", {**COMMON, "head_dim": 4}, "llama"),
    "olmoe": ("Olmoe", {**COMMON, **EXPERTS, "intermediate_size": jobs.HIDDEN}, "qwen3_moe"),
    "minimax_m2": ("MiniMaxM2", {**COMMON, "head_dim": 4, "num_experts_per_tok": 2,
                                 "num_local_experts": jobs.EXPERTS,
                                 "intermediate_size": jobs.HIDDEN}, "qwen3_moe"),
    "deepseek_v2": ("DeepseekV2", {**LATENT, "first_k_dense_replace": LAYERS}, "llama"),
    "deepseek_v2_without_rank": ("DeepseekV2", {**LATENT, "q_lora_rank": None,
                                                "first_k_dense_replace": LAYERS}, "llama"),
    "deepseek_v2_with_experts": ("DeepseekV2", ROUTED, "qwen3_moe"),
    "deepseek_v3": ("DeepseekV3", {**LATENT, "first_k_dense_replace": LAYERS}, "llama"),
    "deepseek_v3_with_experts": ("DeepseekV3", ROUTED, "qwen3_moe"),
    "glm4_moe_lite": ("Glm4MoeLite", {**ROUTED, "mlp_layer_types": ["sparse"] * 2}, "qwen3_moe"),
}


def model_of(kind):
    import transformers
    name, fields, _ = MODELS[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**fields)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                # Ones and zeros would hide faults.
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def run_case(kind, strategy):
    plan = jobs.plan_of(jobs.spec_of(MODELS[kind][2], LAYERS), [[strategy] * LAYERS], batch=4,
                        micro_batch_count=2)
    return jobs.compare_one_step(plan, model_of(kind), call=jobs.logits_of)


def run_given(strategy):
    """Has OLMo-2's plan in the words of PyTorch. Norms that no entry names stand between."""
    gathers = ColwiseParallel(output_layouts=Replicate())
    splits = RowwiseParallel(input_layouts=Replicate())
    layer = "model.layers.*."
    given = {"model.embed_tokens": splits, "lm_head": gathers,
             **{f"{layer}self_attn.{name}_proj": gathers for name in "qkv"},
             f"{layer}self_attn.o_proj": splits, f"{layer}mlp.gate_proj": ColwiseParallel(),
             f"{layer}mlp.up_proj": ColwiseParallel(), f"{layer}mlp.down_proj": RowwiseParallel()}
    plan = jobs.plan_of(jobs.spec_of("llama", LAYERS), [[strategy] * LAYERS], batch=4,
                        micro_batch_count=2)
    return jobs.compare_one_step(plan, model_of("olmo2"), call=jobs.logits_of, tensor_plan=given)


def test_styles_of_pytorch_are_taken_by_what_they_split(tmp_path):
    cases = [(Strategy(2, 1),), (Strategy(2, 1, sequence_parallel=True),)]
    for case, ranks in zip(cases, jobs.run_ranks(RANKS, tmp_path, run_given, cases)):
        for found in ranks:
            assert found["loss"] <= 1e-4 and found["gradient"] <= 1e-4, (case, found)


@pytest.mark.parametrize("kind", MODELS)
def test_a_step_is_that_of_one_process(tmp_path, kind):
    cases = [(kind, Strategy(2, 1)), (kind, Strategy(2, 1, sequence_parallel=True))]
    for case, ranks in zip(cases, jobs.run_ranks(RANKS, tmp_path, run_case, cases)):
        for found in ranks:
            assert found["loss"] <= 1e-4 and found["gradient"] <= 1e-4, (case, found)


class Latent(nn.Module):
    """Modules with the names of an attention block."""

    def __init__(self, **attributes):
        super().__init__()
        for name in ("q", "kv_a", "out"):
            setattr(self, name, nn.Linear(8, 8))
        vars(self).update(attributes)


def refusal_of(layer, plan):
    """Returns the message that refuses to split the modules of a layer so, or None."""
    names = {id(module): name for name, module in layer.named_modules()}
    try:
        check_split(1, layer, names, Strategy(2, 1), plan)
    except parplan.errors.SpecInvalid as error:
        return error.message
    return None


def test_activations_that_ranks_have_parts_of_are_not_split_again():
    layer = nn.ModuleDict({"block": Latent()})
    gathered = {"block.q": "colwise_gather_output", "block.out": "rowwise_split_input"}
    assert refusal_of(layer, gathered) is None
    message = refusal_of(layer, {**gathered, "block.kv_a": "colwise"})
    assert "block.out is to be split by rowwise_split_input" in message
    assert "colwise_gather_output" in message


def test_such_styles_need_a_block():
    """What a layer gets goes to more than its matrices, so it is not made whole once for them."""
    assert "block of its own" in refusal_of(Latent(), {"q": "colwise_gather_output",
                                                       "out": "rowwise_split_input"})
    assert "block of its own" in refusal_of(Latent(qk_rope_head_dim=4),
                                            {"q": "colwise", "kv_a": "mla_kv_a_proj"})


def test_a_latent_projection_says_which_columns_are_positions():
    plan = {"block.q": "colwise", "block.kv_a": "mla_kv_a_proj", "block.out": "rowwise"}
    assert "qk_rope_head_dim" in refusal_of(nn.ModuleDict({"block": Latent()}), plan)
    for block in (Latent(qk_rope_head_dim=4),
                  Latent(config=types.SimpleNamespace(qk_rope_head_dim=4))):
        assert refusal_of(nn.ModuleDict({"block": block}), plan) is None
