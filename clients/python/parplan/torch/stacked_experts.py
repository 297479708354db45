"""Lists of experts as one module with stacked matrices, which ranks can share.

transformers before 5 has a module for each expert, in a ModuleList that the block walks through:

    model = parplan.torch.stack_experts(MixtralForCausalLM(config))

gives each block the experts of transformers 5 (`gate_up_proj`, `down_proj`), whose first dimension
counts them, and a forward pass that computes what the block's own does.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import nn

from parplan.errors import field_error


@dataclasses.dataclass(frozen=True)
class _Form:
    """A class of blocks: the names of an expert's gate, up and down matrices, and whether the
    weights of a token's experts add up to one; None: the block says it (`norm_topk_prob`)."""
    gate: str
    up: str
    down: str
    normalizes: bool | None


_GATED = _Form("gate_proj", "up_proj", "down_proj", None)
# By the name of the class in transformers 4.51 to 4.57.
_FORMS = {
    "MixtralSparseMoeBlock": _Form("w1", "w3", "w2", True),
    "OlmoeSparseMoeBlock": _GATED, "Qwen2MoeSparseMoeBlock": _GATED,
    "Qwen3MoeSparseMoeBlock": _GATED,
}
# How tensor parallelism splits stacked matrices (tensor_parallel.py).
STYLES = {"gate_up_proj": "packed_colwise", "down_proj": "rowwise"}


class StackedExperts(nn.Module):
    """Gated feed-forward experts, called as `experts(tokens, numbers, weights)` (experts.py)."""

    def __init__(self, experts: nn.ModuleList, form: _Form, deviation: float) -> None:
        """`deviation` is that of initial values."""
        super().__init__()
        self.num_experts = len(experts)
        self.act_fn: Any = experts[0].act_fn
        self._deviation = deviation

        def weights(name: str) -> list[torch.Tensor]:
            return [expert.get_parameter(f"{name}.weight") for expert in experts]

        with torch.no_grad():
            self.gate_up_proj = nn.Parameter(torch.stack(
                [torch.cat(pair) for pair in zip(weights(form.gate), weights(form.up))]))
            self.down_proj = nn.Parameter(torch.stack(weights(form.down)))

    def forward(self, tokens: torch.Tensor, numbers: torch.Tensor,
                weights: torch.Tensor) -> torch.Tensor:
        answer = torch.zeros_like(tokens)
        # Experts without tokens run too, so that every matrix has a gradient on every rank.
        for expert in range(self.num_experts):
            rows, places = torch.where(numbers == expert)
            gate, up = nn.functional.linear(tokens[rows], self.gate_up_proj[expert]).chunk(2, -1)
            made = nn.functional.linear(self.act_fn(gate) * up, self.down_proj[expert])
            made = made * weights[rows, places].unsqueeze(1)
            answer = answer.index_add(0, rows, made.to(answer.dtype))
        return answer

    def reset_parameters(self) -> None:
        """Draws new values as transformers does for an expert of its own."""
        for one in self.parameters():
            nn.init.normal_(one, std=self._deviation)


class _Routed:
    """The call of a block. Takes the place of its `forward`."""

    def __init__(self, block: nn.Module, normalizes: bool) -> None:
        self._block: Any = block
        self._normalizes = normalizes

    def __call__(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        block = self._block
        tokens = hidden_states.reshape(-1, hidden_states.shape[-1])
        logits = block.gate(tokens)
        weights = torch.softmax(logits, -1, dtype=torch.float)
        weights, numbers = torch.topk(weights, block.top_k, -1)
        if self._normalizes:
            weights = weights / weights.sum(-1, keepdim=True)
        answer = block.experts(tokens, numbers, weights.to(tokens.dtype)).view_as(hidden_states)
        if hasattr(block, "shared_expert"):
            # With the tokens in a dimension of their own, as sequence parallelism shares them.
            answer = answer + (torch.sigmoid(block.shared_expert_gate(hidden_states))
                               * block.shared_expert(hidden_states))
        return answer, logits


def stack_experts(model: nn.Module) -> nn.Module:
    """Stacks the experts of a model of transformers 4, in place, and returns the model. A model
    without lists of experts stays as it is. Call it before anything refers to the parameters.
    Raises SpecInvalid naming the module for a list of experts of an unknown form."""
    deviation = getattr(getattr(model, "config", None), "initializer_range", None)
    for name, block in list(model.named_modules()):
        experts = getattr(block, "experts", None)
        if not isinstance(experts, nn.ModuleList):
            continue
        form = _FORMS.get(type(block).__name__)
        if form is None or not _is_of_form(block, experts, form):
            raise field_error("SPEC_INVALID", name or "model",
                              f"{type(block).__name__} has a list of experts of a form that is not "
                              f"known; known are those of transformers 4 of {', '.join(_FORMS)}. "
                              "Stack their matrices in a module of your own")
        normalizes = form.normalizes
        if normalizes is None:
            normalizes = bool(getattr(block, "norm_topk_prob", False))
        block.experts = StackedExperts(experts, form, 0.02 if deviation is None else deviation)
        vars(block)["forward"] = _Routed(block, normalizes)
    return model


def has_stacked_experts(model: nn.Module) -> bool:
    """Returns whether `stack_experts` has made experts of the model."""
    return any(isinstance(module, StackedExperts) for module in model.modules())


def _is_of_form(block: nn.Module, experts: nn.ModuleList, form: _Form) -> bool:
    matrices = {form.gate, form.up, form.down}
    shapes = {tuple((name, tuple(one.shape)) for name, one in expert.named_parameters())
              for expert in experts}
    return (hasattr(block, "gate") and hasattr(block, "top_k") and len(shapes) == 1
            and all(hasattr(expert, "act_fn") and {name for name, _ in expert.named_parameters()}
                    == {f"{matrix}.weight" for matrix in matrices} for expert in experts))
