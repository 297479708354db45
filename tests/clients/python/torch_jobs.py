"""Models, and jobs of several ranks on this machine, for tests of parplan.torch."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import pathlib
import pickle
import traceback

import signed_plans as plans
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn

import parplan.torch
from parplan.envelope import TrustBundle
from parplan.strategy import Sharding
from parplan.torch.processes import preload, start_ranks

# Ranks of all tests are forked from one process. Each would import pytest and this file by itself,
# for a quarter of a second of a processor.
preload("pytest", "torch_jobs", "transformers",
        *(f"transformers.models.{name}.modeling_{name}"
          for name in ("llama", "gpt2", "bert", "vit", "qwen3", "qwen3_moe")))

HIDDEN, HEADS, TOKENS, VOCABULARY, EXPERTS = 48, 12, 24, 96, 4
PATIENCE = datetime.timedelta(seconds=300)
# Whether this release of PyTorch shards layers on processors (refusals.py).
SHARDS_HERE = hasattr(torch.cpu.Stream, "record_event")


class Attention(nn.Module):
    def __init__(self, is_causal: bool = True) -> None:
        super().__init__()
        self.is_causal = is_causal
        # Softmax takes no notice of a bias of the keys, whose gradient would be rounding alone.
        self.key = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.query, self.value, self.out = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))

    def forward(self, x: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        def heads(rows: torch.Tensor) -> torch.Tensor:
            return rows.unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2)

        query = heads(self.query(x))
        places = torch.arange(query.shape[2]) if positions is None else positions
        # Attention depends on where a token is.
        query = query * torch.cos(places * 0.3).unsqueeze(-1).to(query.dtype)
        mixed = nn.functional.scaled_dot_product_attention(
            query, heads(self.key(x)), heads(self.value(x)), is_causal=self.is_causal)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A decoder or encoder: attention is a block of its own, the feed-forward part is not."""

    def __init__(self, is_causal: bool = True) -> None:
        super().__init__()
        self.token_positions: torch.Tensor | None = None
        self.first_norm, self.second_norm = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention = Attention(is_causal)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first_norm(x), self.token_positions)
        return x + self.down(nn.functional.gelu(self.up(self.second_norm(x))))


class Experts(nn.Module):
    """Stacked experts, called with tokens, the numbers of their experts, and weights."""

    def __init__(self) -> None:
        super().__init__()
        self.num_experts = EXPERTS
        self.up = nn.Parameter(torch.randn(EXPERTS, 2 * HIDDEN, HIDDEN) * 0.1)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, 2 * HIDDEN) * 0.1)

    def forward(self, tokens: torch.Tensor, numbers: torch.Tensor,
                weights: torch.Tensor) -> torch.Tensor:
        answer = torch.zeros_like(tokens)
        for expert in range(self.num_experts):
            rows, places = torch.where(numbers == expert)
            made = nn.functional.gelu(tokens[rows] @ self.up[expert].T) @ self.down[expert].T
            answer = answer.index_add(0, rows, made * weights[rows, places].unsqueeze(1))
        return answer


class ExpertBlock(nn.Module):
    """A decoder that sends each token to two of its experts, without a block of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.token_positions: torch.Tensor | None = None
        self.first_norm, self.second_norm = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention = Attention()
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.experts = Experts()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first_norm(x), self.token_positions)
        tokens = self.second_norm(x).flatten(0, 1)
        weights, numbers = torch.topk(torch.softmax(self.router(tokens), -1), 2)
        return x + self.experts(tokens, numbers, weights).view(x.shape)


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.projection = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.projection(self.norm(x))


TENSOR_PLAN = {
    "*.attention.query": "colwise", "*.attention.key": "colwise", "*.attention.value": "colwise",
    "*.attention.out": "rowwise", "*.up": "colwise", "*.down": "rowwise",
    "*.experts.up": "colwise", "*.experts.down": "rowwise",
    "*.projection": "colwise_gather_output"}


def plain_model(layer_count: int, is_tied: bool, kind: str = "plain") -> nn.Module:
    block = {"plain": Block, "encoder": lambda: Block(False), "experts": ExpertBlock}[kind]
    model = nn.Sequential(nn.Embedding(VOCABULARY, HIDDEN),
                          *(block() for _ in range(layer_count - 2)), Head())
    if is_tied:
        model[-1].projection.weight = model[0].weight
    return model


def transformers_model(kind: str, layer_count: int, is_tied: bool) -> nn.Module:
    """Returns a model of transformers with random weights."""
    import transformers
    common = {"vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": 2 * HIDDEN,
              "num_hidden_layers": layer_count - 2, "num_attention_heads": HEADS,
              "attn_implementation": "sdpa"}
    decoder = {**common, "num_key_value_heads": 4, "max_position_embeddings": 64,
               "tie_word_embeddings": is_tied}
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    if kind == "llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**decoder))
    elif kind == "qwen3":
        model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**decoder, head_dim=4))
    elif kind == "qwen3_moe":
        model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
            **decoder, head_dim=4, num_experts=EXPERTS, num_experts_per_tok=2,
            moe_intermediate_size=HIDDEN, decoder_sparse_step=1))
    elif kind == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=layer_count - 2, n_head=HEADS,
            n_positions=64, tie_word_embeddings=is_tied, attn_implementation="sdpa",
            embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0))
    elif kind == "bert":
        model = transformers.BertForMaskedLM(transformers.BertConfig(
            **common, **no_dropout, max_position_embeddings=64, tie_word_embeddings=is_tied,
            pad_token_id=None))
        for layer in model.bert.encoder.layer:
            layer.attention.self.key.bias = None
    else:
        del common["vocab_size"]
        # 23 patches and the token of the class.
        model = transformers.ViTForImageClassification(transformers.ViTConfig(
            **common, **no_dropout, image_size=(4, 4 * (TOKENS - 1)), patch_size=4, num_channels=1,
            num_labels=CLASSES, qkv_bias=False))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Zeros, of biases for instance, would hide faults.
            if not parameter.is_meta and parameter.dim() == 1 and not parameter.any():
                parameter.normal_(std=0.1)
    return model


PLAIN = ("plain", "encoder", "experts")
CLASSES = 10


def model_of(kind: str, layer_count: int, is_tied: bool = False) -> nn.Module:
    """Returns a model of plain modules or of transformers, the same in every process."""
    torch.manual_seed(0)
    if kind in PLAIN:
        return plain_model(layer_count, is_tied, kind)
    return transformers_model(kind, layer_count, is_tied)


# Fields of the layers between embedding and head, where they differ from those of `plain`.
_GATED = {"key_value_head_count": 4, "feed_forward_size": 2 * HIDDEN,
          "feed_forward_kind": "FEED_FORWARD_KIND_SWIGLU"}
_LAYERS = {
    "plain": {}, "gpt2": {}, "llama": _GATED, "qwen3": _GATED,
    "encoder": {"kind": "LAYER_KIND_ENCODER"},
    "bert": {"kind": "LAYER_KIND_ENCODER", "feed_forward_size": 2 * HIDDEN},
    "vit": {"kind": "LAYER_KIND_ENCODER", "feed_forward_size": 2 * HIDDEN},
    "experts": {"expert_count": EXPERTS, "experts_per_token": 2,
                "expert_feed_forward_size": 2 * HIDDEN, "feed_forward_size": 0},
    "qwen3_moe": {**_GATED, "expert_count": EXPERTS, "experts_per_token": 2,
                  "expert_feed_forward_size": HIDDEN, "feed_forward_size": 0}}


def spec_of(kind: str, layer_count: int, is_tied: bool = False) -> object:
    """Returns the `ModelSpec` of a model."""
    made = plans.model_of(layer_count, is_tied=is_tied, **_LAYERS[kind])
    # GPT-2's positions; BERT's, its kinds of segments and its norm.
    rows = {"gpt2": VOCABULARY + 64, "bert": VOCABULARY + 64 + 2 + 2}.get(kind)
    if rows is not None:
        made.layer_definitions[0].parameter_count = rows * HIDDEN
    if kind == "vit":
        first, last = made.layer_definitions[0], made.layer_definitions[2]
        first.kind = 6  # LAYER_KIND_PATCH_EMBEDDING
        first.vocabulary_size, last.vocabulary_size = 16, CLASSES
    return made


def logits_of(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return model(input_ids=inputs).logits


def classes_of(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    return model(pixel_values=images).logits


# How one process calls a model, and its tensor-parallel plan unless it has one of its own.
CALLS = {**dict.fromkeys(_LAYERS, logits_of), **dict.fromkeys(PLAIN), "vit": classes_of}
TENSOR_PLANS = {**dict.fromkeys(_LAYERS), **dict.fromkeys(PLAIN, TENSOR_PLAN)}


def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.flatten(0, -2).float(), target.flatten())


def batch_of(size: int, seed: int = 0, kind: str = "plain") -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    if kind == "vit":
        return (torch.randn(size, 1, 4, 4 * (TOKENS - 1), generator=generator),
                torch.randint(0, CLASSES, (size,), generator=generator))
    tokens = torch.randint(0, VOCABULARY, (size, TOKENS + 1), generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def stages_here(stages: list[list[object]]) -> list[list[object]]:
    """Returns stages without sharding if this release of PyTorch has none on processors, where
    `apply` refuses it."""
    if SHARDS_HERE:
        return stages
    return [[dataclasses.replace(one, sharding=Sharding.NONE) for one in stage]
            for stage in stages]


def plan_of(model: object, stages: list[list[object]], *, is_run: bool = True,
            **options: object) -> parplan.Plan:
    """Returns a verified plan over stages of strategies; those of `stages_here` if it `is_run`."""
    if is_run:
        stages = stages_here(stages)
    depth = len(stages) // options.get("virtual_stage_count", 1)
    topology = plans.topology_of(stages[0][0].rank_count * depth)
    payload = plans.payload_of(model, topology, stages, **options)
    return parplan.Plan.verify(plans.sign(payload.SerializeToString(), plans.FIRST),
                               TrustBundle.from_json(plans.trust(plans.FIRST)), model, topology,
                               time=plans.ISSUE_TIME)


def worst_difference(run: object, reference: nn.Module, of: str = "grad") -> tuple[float, str]:
    """Returns the largest difference of a gradient (or of `data`) from that of one process, in
    parts of the largest value of its parameter, and the parameter's name."""
    expected = dict(reference.named_parameters())
    worst = (0.0, "")
    for name, parameter in run.named_parameters():
        ours = parameter.grad if of == "grad" else parameter.detach()
        theirs = expected[name].grad if of == "grad" else expected[name].detach()
        if theirs is None:
            # BERT has a bias that nothing uses unless its table is tied.
            assert ours is None, name
            continue
        scale = theirs.abs().max().clamp(min=1e-8)
        worst = max(worst, (((run.whole(name, ours) - theirs).abs().max() / scale).item(), name))
    return worst


def compare_one_step(plan: parplan.Plan, model: nn.Module, call=None, kind: str = "plain",
                     **options: object) -> dict:
    """Runs one step under a plan and in one process. Returns what differs."""
    reference = copy.deepcopy(model)
    inputs, targets = batch_of(plan.global_batch_size, kind=kind)
    output = call(reference, inputs) if call else reference(inputs)
    expected = loss_fn(output, targets)
    expected.backward()
    run = parplan.torch.apply(plan, model, loss_fn, device="cpu", **options)
    loss = run.step(inputs, targets)
    worst, name = worst_difference(run, reference)
    return {"loss": abs(loss.item() - expected.item()) / expected.item(), "gradient": worst,
            "name": name}


def _worker(rank: int, count: int, folder: str, work: object, arguments: tuple) -> None:
    torch.set_num_threads(1)
    answers = []
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", count), rank=rank,
                            world_size=count, timeout=PATIENCE)
    try:
        # DTensor keeps groups of a mesh in caches, so they live until the process ends.
        for one in arguments:
            answers.append(work(*one))
    except Exception:
        pathlib.Path(folder, f"error{rank}").write_text(
            f"case {len(answers)}: {traceback.format_exc()}")
        raise
    pathlib.Path(folder, f"answer{rank}").write_bytes(pickle.dumps(answers))
    dist.destroy_process_group()


def run_ranks(count: int, folder: pathlib.Path, work: object, arguments: list[tuple]) -> list:
    """Calls `work` with each of `arguments` on `count` ranks of gloo. Returns [case][rank] the
    answers. `work` is a function of a module."""
    try:
        start_ranks(_worker, (count, str(folder), work, tuple(arguments)), count)
    except multiprocessing.ProcessRaisedException:
        errors = [path.read_text() for path in sorted(folder.glob("error*"))]
        raise AssertionError("\n\n".join(errors)) from None
    answers = [pickle.loads((folder / f"answer{rank}").read_bytes()) for rank in range(count)]
    return [list(one) for one in zip(*answers)]
