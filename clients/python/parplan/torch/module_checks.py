"""Modules that compute otherwise over shares of a batch than over all of it; refused before the first
step, by the layer and the module's name in the model. What shows in the first pass alone is in
first_pass.py."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from parplan.errors import field_error
from parplan.plan import Plan
from parplan.strategy import Place, Recompute, Strategy
from parplan.torch.attention import tokens_of
from parplan.torch.layers import Decoder, refused


@dataclasses.dataclass(frozen=True)
class Shares:
    """How a layer gets a batch in another way than one process does."""
    # Forward passes of a step, over all micro-batches and replicas.
    passes: int
    # Whether its ranks have parts of the tokens of a sample.
    has_split_tokens: bool
    # Whether its ranks work on the same samples.
    has_shared_samples: bool
    # Whether what a pass computes with is no parameter itself, but a part or a copy of it.
    has_copies: bool
    # Whether the backward pass runs its modules again.
    runs_again: bool

    @classmethod
    def of(cls, plan: Plan, strategy: Strategy, *, casts: bool) -> Shares:
        """`casts` is whether layers compute with copies of their parameters in another type."""
        by_operator = (plan.recompute_policy is not None
                       and plan.recompute_policy.selective_ac_option == "op")
        return cls(strategy.gradient_degree * plan.micro_batch_count,
                   strategy.sequence_parallel or strategy.context_parallel_degree > 1,
                   strategy.tensor_parallel_degree * strategy.context_parallel_degree > 1,
                   casts or strategy.rank_count > 1,
                   strategy.recompute == Recompute.FULL
                   or (strategy.recompute == Recompute.SELECTIVE and by_operator))

    @property
    def splits_batch(self) -> bool:
        """Whether a pass sees a part of the batch alone."""
        return self.passes > 1 or self.has_split_tokens


def module_names(model: nn.Module) -> dict[int, str]:
    """Returns the name within the model for the id of a module."""
    return {id(module): name for name, module in model.named_modules()}


def check_modules(index: int, layer: nn.Module, names: Mapping[int, str], shares: Shares) -> None:
    """Raises SpecInvalid naming the layer and its first module that shares of a batch change."""
    for module in layer.modules():
        why = (_norm_of_batch(module, shares) or _table(module, shares)
               or _dropout(module, shares))
        if why:
            raise refused(index, f"{name_of(module, names)} {why}")


def name_of(module: nn.Module, names: Mapping[int, str]) -> str:
    """Returns what an error calls a module: its name within the model and its class."""
    kind = type(module).__name__
    name = names.get(id(module), "")
    return f"{name} ({kind})" if name else kind


def _norm_of_batch(module: nn.Module, shares: Shares) -> str:
    is_of_batch = isinstance(module, nn.modules.batchnorm._BatchNorm)
    if not is_of_batch and not isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return ""
    changes = module.training and module.track_running_stats
    mixes = is_of_batch and (module.training or not module.track_running_stats)
    if (mixes or changes) and shares.splits_batch:
        return ("takes statistics of the samples that it gets, which micro-batches and replicas "
                "would take of their own; call eval() on it to use those that it has, or replace "
                "it by a norm of single samples or tokens (GroupNorm, LayerNorm)")
    if changes and shares.runs_again:
        return ("keeps running statistics, which recomputation would update twice; plan the layer "
                "without recomputation, or call eval() on it")
    if not mixes and shares.has_split_tokens and not (module.track_running_stats
                                                      and not module.training):
        return ("takes statistics over the tokens of a sample, which ranks share; plan the layer "
                "without context and sequence parallelism")
    return ""


def _table(module: nn.Module, shares: Shares) -> str:
    if not isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return ""
    if module.sparse:
        return "makes sparse gradients, which ranks do not add up; set sparse=False"
    if module.scale_grad_by_freq and (shares.splits_batch or shares.has_shared_samples):
        return ("divides gradients by how often a token is in what a pass sees, which is a part of "
                "the batch; set scale_grad_by_freq=False")
    if module.max_norm is not None and (shares.splits_batch or shares.has_copies):
        return ("changes the rows of its table as it looks them up (max_norm), which each rank and "
                "micro-batch would do for its own; set max_norm=None")
    return ""


def _dropout(module: nn.Module, shares: Shares) -> str:
    """Ranks with the same activations would drop other values of them. Modules keep how much they
    drop, of attention for instance, under many names."""
    if not shares.has_shared_samples:
        return ""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        drops = {"p": module.p}
    else:
        drops = {name: value for name, value in vars(module).items()
                 if "drop" in name.lower() and isinstance(value, float)}
    for name, value in drops.items():
        if 0 < value <= 1:
            return (f"has dropout ({name} is {value:g}), and ranks that share activations cannot "
                    "drop the same of them yet; set it to 0")
    return ""


# Recurrent modules and cells, pools, and modules that take windows apart or put them together.
_MIXING = (nn.RNNBase, nn.RNNCellBase, nn.Unfold, nn.Fold, nn.FractionalMaxPool2d,
           nn.FractionalMaxPool3d, *(getattr(nn.modules.pooling, name) for name in (
               "_AvgPoolNd", "_MaxPoolNd", "_LPPoolNd", "_MaxUnpoolNd", "_AdaptiveAvgPoolNd",
               "_AdaptiveMaxPoolNd")))
# The attribute by which a module says whether it, with the modules in it, mixes tokens.
_MIXES = "mixes_tokens"


def mixes_tokens(module: nn.Module) -> bool:
    """Returns whether a module of PyTorch that is no attention can compute a token from others.
    Which dimension it gets the tokens in is not known here: a convolution over the hidden dimension
    mixes none, and says so by an attribute `mixes_tokens` that is False."""
    said = getattr(module, _MIXES, None)
    if isinstance(said, bool):
        return said
    if isinstance(module, nn.modules.conv._ConvNd):
        return any(size > 1 for size in module.kernel_size)
    return isinstance(module, _MIXING)


def check_mixing(index: int, modules: Iterable[nn.Module], names: Mapping[int, str],
                 how: str) -> None:
    """Raises SpecInvalid naming the layer and the first of its `modules` that mixes tokens, of
    which ranks have parts by `how`. One that says that it does not speaks for those in it."""
    given = list(modules)
    without = {id(inner) for module in given if getattr(module, _MIXES, None) is False
               for inner in module.modules()}
    for module in given:
        if id(module) not in without and mixes_tokens(module):
            raise refused(index, f"{name_of(module, names)} computes tokens from others of their "
                          f"sample, of which a rank has a part, and only attention exchanges them; "
                          f"plan the layer without {how} parallelism, or set its attribute "
                          f"{_MIXES} to False if it works within single tokens")


def check_rotations(index: int, layer: nn.Module, names: Mapping[int, str], strategy: Strategy,
                    token_count: int, checked: set[object]) -> None:
    """Raises SpecInvalid naming the layer if rotations of positions depend on which tokens of a
    sample of `token_count` a rank has. Computes them for all ranks that share a sample, once for
    all layers: `checked` has what earlier calls found good."""
    if not isinstance(layer, Decoder) or layer.rotations is None:
        return
    rotary: Any = layer.rotations.module
    key = id(rotary), strategy.context_kind, strategy.context_parallel_degree, token_count
    if key in checked or type(torch.empty(0)) is not torch.Tensor:
        return  # If it is another type, tensors have no contents.

    def made(positions: torch.Tensor) -> list[torch.Tensor]:
        # Results of earlier passes may change those of later ones.
        own = (type(rotary)(rotary.config) if any(one.is_meta for one in rotary.buffers())
               else copy.deepcopy(rotary).cpu())
        answer = own(torch.zeros(1, 1, 1), positions.unsqueeze(0))
        return list(answer) if isinstance(answer, tuple) else [answer]

    with torch.no_grad():
        whole = made(torch.arange(token_count))
        for context in range(strategy.context_parallel_degree):
            tokens = tokens_of(strategy, 0, strategy.rank_of(Place(0, context, 0)), token_count)
            for part, one in zip(made(tokens), whole):
                if not torch.allclose(part, one[:, tokens], rtol=0, atol=1e-4):
                    kind = getattr(rotary, "rope_type", "")
                    raise refused(index, f"{name_of(rotary, names)} turns positions by frequencies "
                                  "that depend on the last one that it gets"
                                  f"{f' (rope_type {kind})' if kind else ''}, and ranks get other "
                                  "parts of a sample; plan it without context parallelism, or "
                                  "give it frequencies that do not (such as yarn's)")
    checked.add(key)


def check_parameters(model: nn.Module, layers: Sequence[nn.Module]) -> None:
    """Raises SpecInvalid naming a parameter that is in the model and in no layer, which would be
    neither moved nor trained, or the layer of one that is not in the model."""
    in_model = {id(parameter) for parameter in model.parameters()}
    in_layers: set[int] = set()
    for index, layer in enumerate(layers):
        for name, parameter in layer.named_parameters():
            if id(parameter) not in in_model:
                raise refused(index, f"its parameter {name} is none of the model; give the model "
                              "that the layers are of")
            in_layers.add(id(parameter))
    loose = [name for name, parameter in model.named_parameters()
             if id(parameter) not in in_layers]
    if loose:
        others = f" and {len(loose) - 1} more" if len(loose) > 1 else ""
        raise field_error("SPEC_INVALID", "layers", f"the parameter {loose[0]}{others} of the model "
                          "lies in none of the plan's layers, so it would not be trained; give "
                          "`layers` that hold and use it, or take it out of the model")
