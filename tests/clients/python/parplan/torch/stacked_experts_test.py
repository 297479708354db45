"""Lists of experts, as transformers 4 has them, stacked and shared by ranks."""

import copy
import dataclasses

import pytest
import torch
import torch_jobs as jobs
from torch import nn

import parplan
import parplan.torch
from parplan.strategy import Sharding, Strategy
from parplan.torch.initialize import initialize
from parplan.torch.stacked_experts import StackedExperts, stack_experts
from parplan.torch.tensor_parallel import tensor_plan_of

transformers = pytest.importorskip("transformers")


class Expert(nn.Module):
    def __init__(self, gate, up, down, width=2 * jobs.HIDDEN):
        super().__init__()
        self.names = gate, up, down
        setattr(self, gate, nn.Linear(jobs.HIDDEN, width, bias=False))
        setattr(self, up, nn.Linear(jobs.HIDDEN, width, bias=False))
        setattr(self, down, nn.Linear(width, jobs.HIDDEN, bias=False))
        self.act_fn = nn.SiLU()

    def forward(self, x):
        gate, up, down = (getattr(self, name) for name in self.names)
        return down(self.act_fn(gate(x)) * up(x))


class MixtralSparseMoeBlock(nn.Module):
    """The block of transformers 4.57, by its name and in what it computes."""
    names = "w1", "w3", "w2"
    norm_topk_prob = True

    def __init__(self):
        super().__init__()
        self.top_k, self.num_experts = 2, jobs.EXPERTS
        self.gate = nn.Linear(jobs.HIDDEN, jobs.EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert(*self.names) for _ in range(jobs.EXPERTS))

    def forward(self, hidden_states):
        shape = hidden_states.shape
        hidden_states = hidden_states.view(-1, shape[-1])
        logits = self.gate(hidden_states)
        weights = torch.softmax(logits, dim=1, dtype=torch.float)
        weights, selected = torch.topk(weights, self.top_k, dim=-1)
        if self.norm_topk_prob:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        weights = weights.to(hidden_states.dtype)
        answer = torch.zeros_like(hidden_states)
        mask = nn.functional.one_hot(selected, num_classes=self.num_experts).permute(2, 1, 0)
        for expert in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            places, rows = torch.where(mask[expert].squeeze(0))
            state = hidden_states[None, rows].reshape(-1, shape[-1])
            made = self.experts[expert](state) * weights[rows, places, None]
            answer.index_add_(0, rows, made.to(hidden_states.dtype))
        return answer.reshape(shape), logits


class Qwen2MoeSparseMoeBlock(MixtralSparseMoeBlock):
    """One with an expert for all tokens, whose weights do not add up to one."""
    names = "gate_proj", "up_proj", "down_proj"
    norm_topk_prob = False

    def __init__(self):
        super().__init__()
        self.shared_expert = Expert(*self.names)
        self.shared_expert_gate = nn.Linear(jobs.HIDDEN, 1, bias=False)

    def forward(self, hidden_states):
        answer, logits = super().forward(hidden_states)
        shared = self.shared_expert(hidden_states)
        return answer + torch.sigmoid(self.shared_expert_gate(hidden_states)) * shared, logits


class ListBlock(jobs.ExpertBlock):
    def __init__(self, kind):
        super().__init__()
        del self.router, self.experts
        self.mlp = kind()

    def forward(self, x):
        x = x + self.attention(self.first_norm(x), self.token_positions)
        return x + self.mlp(self.second_norm(x))[0]


BLOCKS = (MixtralSparseMoeBlock, Qwen2MoeSparseMoeBlock)
TENSOR_PLAN = {**jobs.TENSOR_PLAN, "*.mlp.shared_expert.gate_proj": "colwise",
               "*.mlp.shared_expert.up_proj": "colwise",
               "*.mlp.shared_expert.down_proj": "rowwise",
               "*.mlp.experts.gate_up_proj": "packed_colwise",
               "*.mlp.experts.down_proj": "rowwise"}


def model_of(kind, layer_count):
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(jobs.VOCABULARY, jobs.HIDDEN),
                         *(ListBlock(kind) for _ in range(layer_count - 2)), jobs.Head())


@pytest.mark.parametrize("kind", BLOCKS)
def test_stacked_experts_compute_what_the_list_does(kind):
    listed = model_of(kind, 4)
    stacked = stack_experts(copy.deepcopy(listed))
    inputs, targets = jobs.batch_of(4)
    losses = []
    for model in (listed, stacked):
        loss = jobs.loss_fn(model(inputs), targets)
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    theirs = dict(listed.named_parameters())
    gate, up, down = kind.names
    for name, one in stacked.named_parameters():
        place, _, own = name.rpartition(".experts.")
        if not place:
            torch.testing.assert_close(one.grad, theirs[name].grad)
            continue
        for number in range(jobs.EXPERTS):
            def gradient(matrix):
                found = theirs[f"{place}.experts.{number}.{matrix}.weight"]
                return torch.zeros_like(found) if found.grad is None else found.grad
            expected = (gradient(down) if own == "down_proj"
                        else torch.cat([gradient(gate), gradient(up)]))
            torch.testing.assert_close(one.grad[number], expected)


def run_case(kind, stages):
    layer_count = sum(map(len, stages))
    plan = jobs.plan_of(jobs.spec_of("experts", layer_count), stages, batch=8,
                        micro_batch_count=2)
    return jobs.compare_one_step(plan, stack_experts(model_of(BLOCKS[kind], layer_count)),
                                 kind="experts", tensor_plan=TENSOR_PLAN)


def test_ranks_share_them_with_the_gradients_of_one_process(tmp_path):
    wide = Strategy(1, 4)
    spread = Strategy(1, 4, expert_parallel_degree=2)
    stages = [[wide, spread, dataclasses.replace(spread, sharding=Sharding.PARAMETERS),
               Strategy(2, 2, expert_parallel_degree=2), Strategy(1, 4, expert_parallel_degree=4),
               Strategy(2, 2, sequence_parallel=True), wide]]
    cases = [(number, stages) for number in range(len(BLOCKS))]
    for case, ranks in zip(cases, jobs.run_ranks(4, tmp_path, run_case, cases)):
        for found in ranks:
            assert found["loss"] <= 1e-4 and found["gradient"] <= 1e-4, (case, found)


def test_values_of_the_meta_device_are_drawn():
    with torch.device("meta"):
        model = stack_experts(model_of(MixtralSparseMoeBlock, 3))
    initialize(model, list(model), seed=3)
    experts = model[1].mlp.experts
    assert 0.018 < experts.down_proj.std().item() < 0.022
    assert not any(one.is_meta for one in model.parameters())


def test_a_list_of_another_form_is_refused_by_name():
    class OtherSparseMoeBlock(MixtralSparseMoeBlock):
        pass

    for kind in (OtherSparseMoeBlock, MixtralSparseMoeBlock):
        model = model_of(kind, 3)
        if kind is MixtralSparseMoeBlock:
            model[1].mlp.experts[1].w1 = nn.Linear(jobs.HIDDEN, 2 * jobs.HIDDEN, bias=True)
        with pytest.raises(parplan.errors.SpecInvalid, match="is not known") as raised:
            stack_experts(model)
        assert raised.value.metadata["field"] == "1.mlp"
    plain = jobs.plain_model(4, False)
    assert stack_experts(plain) is plain


@pytest.mark.skipif(int(transformers.__version__.partition(".")[0]) > 4,
                    reason="transformers 5 has stacked experts of its own")
@pytest.mark.parametrize(("name", "more"), [
    ("Mixtral", {"num_local_experts": 4, "sliding_window": None}),
    ("Qwen3Moe", {"num_experts": 4, "moe_intermediate_size": 48, "norm_topk_prob": True}),
    ("Qwen2Moe", {"num_experts": 4, "moe_intermediate_size": 48,
                  "shared_expert_intermediate_size": 48})])
def test_models_of_transformers_4_are_those_without_stacking(name, more):
    config = getattr(transformers, f"{name}Config")(
        vocab_size=96, hidden_size=48, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        num_experts_per_tok=2, attn_implementation="sdpa", **more)
    torch.manual_seed(0)
    listed = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    stacked = stack_experts(copy.deepcopy(listed))
    assert any(isinstance(module, StackedExperts) for module in stacked.modules())
    assert "packed_colwise" in tensor_plan_of(stacked).values()
    tokens = torch.randint(0, 96, (2, 16))
    with torch.no_grad():
        expected, found = (model(input_ids=tokens).logits for model in (listed, stacked))
        hidden = tokens
        for layer in parplan.torch.layers.layers_of(stacked):
            hidden = layer(hidden)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(hidden, expected)
