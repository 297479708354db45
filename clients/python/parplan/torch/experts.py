"""Layers with experts: tokens go to the ranks of their experts and come back.

A layer has a module `experts` with stacked parameters, whose first dimension counts the experts,
that is called with the tokens, the numbers of their experts and the weights of these:

    experts(tokens, numbers, weights)       # [tokens, hidden], [tokens, k], [tokens, k]

and returns the weighted sum, `[tokens, hidden]`. Those of transformers 5 are of this form (Mixtral,
Qwen3-MoE, ...). While experts are spread over ranks or split by tensor parallelism, the module runs
with its rank's parts of its parameters, and computes what it always does.

Tokens are never dropped, so which rank computes an expert changes nothing but the order of sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from parplan.strategy import Strategy
from parplan.torch.layers import refused
from parplan.torch.parts import Cut, cut_parameter, entered, left, local_of, swapped

# Attributes in which modules keep the number of their experts.
_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "expert_count")


def experts_of(layer: nn.Module) -> nn.Module | None:
    """Returns the module `experts` of a layer, or None."""
    return next((module for name, module in layer.named_modules()
                 if name.rpartition(".")[2] == "experts"), None)


def is_stacked(experts: nn.Module, expert_count: int) -> bool:
    """Returns whether the first dimension of all parameters counts the experts."""
    own = dict(experts.named_parameters(recurse=False))
    return bool(own) and len(own) == len(list(experts.parameters())) and all(
        parameter.shape[0] == expert_count for parameter in own.values())


def tensor_cuts(index: int, experts: nn.Module, styles: Mapping[str, str],
                degree: int) -> dict[str, Cut]:
    """Returns how tensor parallelism cuts each parameter of the experts, by the styles of the
    model's plan. Raises SpecInvalid naming the layer for one that it does not cut."""
    cuts = {}
    if getattr(experts, "is_transposed", False) or not getattr(experts, "is_concatenated", True):
        raise refused(index, "the matrices of its experts are transposed or interleaved, which "
                      "tensor parallelism does not split")
    known = {"colwise": Cut(1), "packed_colwise": Cut(1, 2), "rowwise": Cut(2)}
    for name, parameter in experts.named_parameters(recurse=False):
        style = styles.get(name, "")
        if style not in known or parameter.dim() != 3:
            raise refused(index, f"{name} of its experts is to be split by tensor parallelism, and "
                          f"the model's plan says {style or 'nothing'}; a matrix "
                          f"[experts, outputs, inputs] is split by {', '.join(known)}")
        cuts[name] = known[style]
        if not cuts[name].divides(parameter.shape, degree):
            raise refused(index, f"{name} of its experts cannot be shared by {degree} ranks")
    return cuts


class SpreadExperts:
    """The call of experts of which each rank has a part. Takes the place of `experts.forward`."""

    def __init__(self, experts: nn.Module, expert_count: int, mesh: DeviceMesh,
                 cuts: Mapping[str, Sequence[Cut]], group: dist.ProcessGroup | None,
                 tensor: DeviceMesh | None, by_tokens: bool) -> None:
        """Cuts the parameters over `mesh` (`cut_parameter`). `group` has the ranks that share the
        experts, `tensor` those that share each expert's matrices; either may be None. With
        `by_tokens` the latter share the tokens as well."""
        names = list(cuts)
        for name in names:
            parameter = experts._parameters[name]
            assert parameter is not None
            experts._parameters[name] = cut_parameter(parameter, mesh, cuts[name])
        self._places = [(experts, name, local_of) for name in names]
        self._forward: Any = experts.forward
        self._group, self._tensor = group, tensor
        self._dimension = 0 if by_tokens else None
        self._share = expert_count // (group.size() if group is not None else 1)
        for name in _COUNTS:
            if getattr(experts, name, None) == expert_count:
                setattr(experts, name, self._share)
        vars(experts)["forward"] = self

    def __call__(self, tokens: torch.Tensor, numbers: torch.Tensor,
                 weights: torch.Tensor) -> torch.Tensor:
        if self._tensor is None:
            return self._sum(tokens, numbers, weights)
        # Each rank has a summand of what the experts return, and so of the gradient of a weight.
        tokens, numbers, weights = (entered(one, self._tensor, self._dimension)
                                    for one in (tokens, numbers, weights))
        made = left(self._sum(tokens, numbers, weights), self._tensor, self._dimension)
        # Callers may add to it in place, which hooks of FSDP on a view would not see.
        return made.clone()

    def _sum(self, tokens: torch.Tensor, numbers: torch.Tensor,
             weights: torch.Tensor) -> torch.Tensor:
        with swapped(self._places):
            if self._group is not None:
                return self._exchange(self._group, tokens, numbers, weights)
            made: torch.Tensor = self._forward(tokens, numbers, weights)
            return made

    def _exchange(self, group: dist.ProcessGroup, tokens: torch.Tensor, numbers: torch.Tensor,
                  weights: torch.Tensor) -> torch.Tensor:
        flat = numbers.reshape(-1)
        # Sorted by expert, and so by the rank that has it.
        order = torch.argsort(flat, stable=True)
        senders = order // numbers.shape[1]
        leaving = rows_for(flat // self._share, group.size())
        arriving = torch.empty_like(leaving)
        dist.all_to_all_single(arriving, leaving, group=group)
        sizes_out, sizes_in = numbers_of(leaving, flat), numbers_of(arriving, flat)
        local = flat.new_empty(sum(sizes_in))
        dist.all_to_all_single(local, flat[order] % self._share, sizes_in, sizes_out, group=group)
        rows = _Exchanged.apply(tokens[senders], sizes_in, sizes_out, group)
        made = self._compute(rows, local)
        back = _Exchanged.apply(made, sizes_out, sizes_in, group)
        weighed = back * weights.reshape(-1)[order].unsqueeze(1)
        return torch.zeros_like(tokens).index_add(0, senders, weighed.to(tokens.dtype))

    def _compute(self, rows: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        count = rows.shape[0]
        if count == 0:
            # A row without effect: all ranks add up gradients, so all have some.
            rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
            numbers = numbers.new_zeros(1)
        made: torch.Tensor = self._forward(rows, numbers.unsqueeze(1),
                                           rows.new_ones(rows.shape[0], 1))
        return made[:count]


def rows_for(ranks: torch.Tensor, count: int) -> torch.Tensor:
    """Returns how many of the rows go to each of `count` ranks. `parplan.torch.check` puts another
    function in the place of this and the next one, for tensors without contents."""
    return torch.bincount(ranks, minlength=count)


def numbers_of(sizes: torch.Tensor, rows: torch.Tensor) -> list[int]:
    """Returns the numbers in a tensor. `rows` are those that they count on this rank."""
    return [int(one) for one in sizes.tolist()]


class _Exchanged(torch.autograd.Function):
    """Rows that go to other ranks; their gradients come back."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, sizes_in: list[int], sizes_out: list[int],
                group: dist.ProcessGroup) -> torch.Tensor:
        ctx.arguments = sizes_out, sizes_in, group
        return _sent(rows, sizes_in, sizes_out, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return _sent(gradient, *ctx.arguments), None, None, None


def _sent(rows: torch.Tensor, sizes_in: list[int], sizes_out: list[int],
          group: dist.ProcessGroup) -> torch.Tensor:
    incoming = rows.new_empty((sum(sizes_in), *rows.shape[1:]))
    dist.all_to_all_single(incoming, rows.contiguous(), sizes_in, sizes_out, group=group)
    return incoming


def spread_experts(index: int, experts: nn.Module, expert_count: int, strategy: Strategy,
                   styles: Mapping[str, str], mesh: DeviceMesh, expert: DeviceMesh | None,
                   tensor: DeviceMesh | None) -> None:
    """Spreads the experts of a layer over `mesh`, whose dimensions are those of `expert` and
    `tensor` that are not None. `styles` has those of its parameters in the model's tensor-parallel
    plan. Raises SpecInvalid naming the layer."""
    by_tensor = (tensor_cuts(index, experts, styles, tensor.size()) if tensor is not None else {})
    cuts = {}
    for name, _ in experts.named_parameters(recurse=False):
        cuts[name] = [*([Cut(0)] if expert is not None else []),
                      *([by_tensor[name]] if tensor is not None else [])]
    SpreadExperts(experts, expert_count, mesh, cuts,
                  expert.get_group() if expert is not None else None, tensor,
                  strategy.sequence_parallel)


def check_experts(index: int, layer: nn.Module, expert_count: int, strategy: Strategy) -> None:
    """Raises SpecInvalid naming the layer if its experts cannot be run exactly."""
    experts = experts_of(layer)
    if experts is None:
        raise refused(index, "the plan's model has experts there, and no module of it is named "
                      "experts")
    for module in layer.modules():
        noise = getattr(module, "jitter_noise", 0.0)
        if isinstance(noise, float) and noise > 0:
            raise refused(index, "ranks would draw other noise for their router; set "
                          "router_jitter_noise to 0")
    if is_stacked(experts, expert_count):
        if expert_count % strategy.expert_parallel_degree:
            raise refused(index, f"its {expert_count} experts cannot be shared by "
                          f"{strategy.expert_parallel_degree} ranks")
        return
    if strategy.expert_parallel_degree * strategy.tensor_parallel_degree > 1:
        raise refused(index, f"its experts are no {expert_count} stacked matrices in one module, "
                      "which is needed to share them; transformers 5 has such, and "
                      "parplan.torch.stack_experts makes them of those of transformers 4")
    if strategy.gradient_degree > 1:
        raise refused(index, "its experts are modules of their own, which have no gradient on a "
                      "rank that sends them no token; stack their matrices in one module "
                      "(parplan.torch.stack_experts)")
