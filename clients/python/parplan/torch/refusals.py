"""Plans that this release does not run exactly; refused before the first step, with the layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from parplan.errors import field_error
from parplan.plan import Plan
from parplan.strategy import ContextKind, Recompute, Schedule, Strategy
from parplan.torch.data_parallel import is_sharded
from parplan.torch.experts import check_experts, experts_of, tensor_cuts
from parplan.torch.initialize import check_initializes
from parplan.torch.layers import check_count, refused
from parplan.torch.module_checks import (Shares, check_mixing, check_modules, check_parameters,
                                         check_rotations, module_names, name_of)
from parplan.torch.precision import parameter_type
from parplan.torch.recompute import check_policy
from parplan.torch.stage import can_leave_out_parameters
from parplan.torch.tensor_parallel import check_split, expert_styles
from parplan.torch.ties import check_tied, tied_parameters


# The runtime whose layers are compiled (measure/request.py).
COMPILED = "torch-compile"


def check_plan(plan: Plan, model: nn.Module, layers: Sequence[nn.Module], *,
               casts: bool = False) -> None:
    """Raises SpecInvalid naming the first layer that cannot be run exactly. `casts` is whether
    layers compute with copies of their parameters in another type."""
    check_count(layers, plan)
    _check_schedule(plan)
    check_parameters(model, layers)
    if plan.recompute_policy is not None:
        check_policy(plan.recompute_policy)
    parameter_type(plan.model.precision)
    definitions = {one.layer_definition_id: one for one in plan.model.layer_definitions}
    names = module_names(model)
    hidden_size = plan.definition(0).hidden_size
    checked: set[object] = set()
    for layer in plan.layers:
        strategy, definition = layer.strategy, definitions[layer.layer_definition_id]
        check_modules(layer.index, layers[layer.index], names, Shares.of(plan, strategy,
                                                                        casts=casts))
        if definition.hidden_size != hidden_size:
            raise refused(layer.index, f"its definition {definition.layer_definition_id} has the "
                          f"hidden_size {definition.hidden_size}, and layer 0 has {hidden_size}; "
                          "stages exchange activations of one size, so put the modules that change "
                          "it into one layer with those around them")
        if strategy.expert_tensor_parallel_degree:
            raise refused(layer.index, "its experts are split over other ranks than the rest of "
                          "it; plan it without expert_tensor_parallel_degree (target fsdp2)")
        if strategy.sharding_degree and strategy.expert_parallel_degree > 1:
            raise refused(layer.index, "ranks share its experts beside groups that share its "
                          "states, and this release has one group; plan it with the target fsdp2, "
                          "which keeps experts whole")
        if definition.frozen:
            raise refused(layer.index, "it is frozen, and this release trains all parameters; give "
                          "a model file without frozen layers")
        if strategy.recompute == Recompute.MODULES:
            raise refused(layer.index, "it recomputes modules by name, which only Megatron-LM "
                          "does; plan it with the target fsdp2")
        if definition.expert_count > 0:
            check_experts(layer.index, layers[layer.index], definition.expert_count, strategy)
        if is_sharded(strategy):
            _check_sharded(layer.index, layers[layer.index], strategy, casts)
        shares = strategy.tensor_parallel_degree
        if strategy.context_kind == ContextKind.ULYSSES:
            shares *= strategy.context_parallel_degree
        if any(count % shares for count in (definition.attention_head_count,
                                            definition.key_value_head_count)):
            raise refused(layer.index, f"its {definition.attention_head_count} heads with "
                          f"{definition.key_value_head_count} of keys and values cannot be shared "
                          f"by {shares} ranks; plan it with a degree that divides both, or with "
                          "rings instead of Ulysses")
        if strategy.context_parallel_degree > 1:
            _check_positions(layer.index, plan.layer_kind(layer.index), layers[layer.index])
            check_mixing(layer.index, layers[layer.index].modules(), names, "context")
            check_rotations(layer.index, layers[layer.index], names, strategy,
                            definition.sequence_length, checked)
        if (strategy.context_parallel_degree > 1 or strategy.sequence_parallel) and getattr(
                layers[layer.index], "needs_all_tokens", False):
            raise refused(layer.index, "it needs all tokens of a sample, which ranks share; plan "
                          "it without context and sequence parallelism")
    check_tied(plan, layers, can_leave_out_parameters())
    for layer in plan.layers:
        if plan.layer_kind(layer.index) == "LAYER_KIND_ENCODER":
            continue
        for module, way in _ways_of_attention(layers[layer.index]):
            if way not in ("sdpa", "flash_attention_2", "flash_attention_3"):
                raise refused(layer.index, f"{name_of(module, names)} computes attention by {way}, "
                              "which is not causal without a mask; load the model with "
                              "attn_implementation=\"sdpa\"")


def _check_schedule(plan: Plan) -> None:
    """Raises SpecInvalid naming the first layer that does not go with split backward passes. torch
    adds the gradients of a weight pass up itself, past the hooks by which FSDP2 exchanges them, and
    recomputation frees in the first part what the second one needs."""
    if plan.schedule != Schedule.ZERO_BUBBLE:
        return
    if plan.pipeline_parallel_degree == 1:
        raise field_error("SPEC_INVALID", "schedule", "is ZB-H1, which needs several stages; plan "
                          "it with another schedule")
    for layer in plan.layers:
        if is_sharded(layer.strategy):
            raise refused(layer.index, "it is sharded, and the schedule ZB-H1 splits backward "
                          "passes; plan it without ZeRO, or without zero-bubble")
        if layer.strategy.recompute != Recompute.NONE:
            raise refused(layer.index, "it recomputes, and the schedule ZB-H1 splits backward "
                          "passes; plan it without recomputation, or without zero-bubble")


def check_compiles(plan: Plan) -> None:
    """Raises SpecInvalid naming the first layer that does not run through torch.compile as it runs
    without. What surrounds it stays as it is: sharding, full recomputation, changes of layout."""
    if plan.schedule == Schedule.ZERO_BUBBLE:
        raise field_error("SPEC_INVALID", "compile", "is not known with the schedule ZB-H1, which "
                          "splits backward passes; give compile=False, or plan without zero-bubble")
    for layer in plan.layers:
        why = ""
        if layer.strategy.context_parallel_degree > 1:
            why = "its ranks share the tokens of a sample, for which its attention is taken over"
        elif layer.strategy.recompute == Recompute.SELECTIVE:
            why = "it recomputes selectively, which is around what would be compiled"
        elif plan.definition(layer.index).expert_count > 0:
            why = "it has experts, which get other numbers of tokens in each pass"
        if why:
            raise refused(layer.index, f"{why}, so it is not compiled; give compile=False, or plan "
                          "for the runtime torch")


def check_spreads(plan: Plan, model: nn.Module, layers: Sequence[nn.Module],
                  splits: Mapping[str, str]) -> None:
    """Raises SpecInvalid naming the first layer that cannot be split as `splits` says, a
    tensor-parallel plan by names of styles, or that is on the meta device and gets no values. Every
    rank asks for all layers: if a rank asked for its own alone, those of other stages would go on
    and wait for it. `layers` were checked by `check_plan`."""
    names = module_names(model)
    shared: list[dict[int, object]] = []
    for layer in plan.layers:
        strategy, module = layer.strategy, layers[layer.index]
        shared.append({})
        check_initializes(model, module, layer.index)
        if strategy.tensor_parallel_degree == 1:
            continue
        experts = experts_of(module)
        if experts is not None and plan.definition(layer.index).expert_count > 0:
            tensor_cuts(layer.index, experts, expert_styles(names[id(experts)], experts, splits),
                        strategy.tensor_parallel_degree)
        shared[-1] = check_split(layer.index, module, names, strategy, splits)
    for parameter in tied_parameters(layers):
        if shared[0].get(id(parameter)) != shared[-1].get(id(parameter)):
            raise refused(len(layers) - 1, "the model's tensor-parallel plan splits the table that "
                          "it shares with the embedding otherwise than there; give both as "
                          "`tensor_plan`, by rows (embedding_rowwise, colwise_gather_output)")


def check_release(plan: Plan, device: torch.device) -> None:
    """Raises SpecInvalid naming the first layer that the installed release of PyTorch cannot shard
    on the device."""
    # FSDP2 calls this on its streams. Releases without it, such as 2.6, do not have it for
    # processors, and would not average gradients there.
    if device.type != "cpu" or hasattr(torch.cpu.Stream, "record_event"):
        return
    for layer in plan.layers:
        if is_sharded(layer.strategy):
            raise refused(layer.index, f"PyTorch {torch.__version__} shards no layers on "
                          "processors; install a later release")


def _check_sharded(index: int, layer: nn.Module, strategy: Strategy, casts: bool) -> None:
    """Refuses parameters that `fully_shard` does not take. Experts that ranks share are sharded by
    themselves. `casts` as for check_plan: all parameters then have 32 bits."""
    for name, parameter in layer.named_parameters():
        if parameter.dim() == 0:
            raise refused(index, f"its parameter {name} is one number without a dimension, which is "
                          "not sharded; give it the shape [1], or plan the layer without sharding")
        if not parameter.is_contiguous():
            raise refused(index, f"its parameter {name} is not contiguous, and such are not "
                          "sharded; make it so, or plan the layer without sharding")
    experts = experts_of(layer) if strategy.expert_parallel_degree > 1 else None
    spread = set() if experts is None else set(experts.parameters())
    first: dict[bool, tuple[str, torch.dtype]] = {}
    for name, parameter in layer.named_parameters():
        if casts or not parameter.requires_grad:
            continue
        other, dtype = first.setdefault(parameter in spread, (name, parameter.dtype))
        if parameter.dtype != dtype:
            raise refused(index, f"its parameters {other} and {name} have the types {dtype} and "
                          f"{parameter.dtype}, which are not sharded together; give them one type, "
                          "or `precision`, or plan the layer without sharding")


def _check_positions(index: int, kind: str, module: nn.Module) -> None:
    """Refuses a layer that could take the first token of a rank for that of the sample."""
    if kind == "LAYER_KIND_HEAD" or isinstance(module, nn.Embedding):
        return
    if not hasattr(module, "token_positions"):
        raise refused(index, "ranks share the tokens of a sample, and it has no attribute "
                      "token_positions, which says which tokens it gets; give it one (None until "
                      "`apply` sets it), or plan it without context parallelism")


def _ways_of_attention(layer: nn.Module) -> list[tuple[nn.Module, str]]:
    """Returns modules with a configuration of transformers that says how attention is computed."""
    found = []
    for module in layer.modules():
        way = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if way is not None:
            found.append((module, str(way)))
    return found
