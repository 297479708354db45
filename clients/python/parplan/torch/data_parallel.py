"""Data parallelism of a layer: ZeRO by `fully_shard`, in groups or over all ranks, and plain
replicas.

The loss is divided by all shares of a step before the backward pass, so gradients are added up over
the gradient group, never averaged. That is right for layers with different degrees side by side.
Experts that ranks share have fewer replicas than the rest of their layer.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

from parplan.strategy import Sharding, Strategy
from parplan.torch.parts import local_of

# Nothing changes in place what a layer or the layers of a stage return.
warnings.filterwarnings("ignore", r"FSDP2-wrapped module \(FSDP_?Layers?\) returned a view")


@dataclasses.dataclass(frozen=True)
class Replicas:
    """A module and the ranks with the same part of its parameters."""
    module: nn.Module
    mesh: DeviceMesh


def is_sharded(strategy: Strategy) -> bool:
    """Returns whether `fully_shard` is used for a layer."""
    return strategy.sharding != Sharding.NONE and strategy.gradient_degree > 1


class LayerGradients:
    """Brings the gradients of a layer together at the end of a step."""

    def __init__(self, module: nn.Module, strategy: Strategy, gradient: DeviceMesh,
                 tensor: DeviceMesh, partial: set[nn.Parameter], *,
                 experts: Replicas | None = None, dtype: torch.dtype | None = None,
                 is_joint: bool = False) -> None:
        """Shards `module` in place as the strategy says. `partial` has the parameters whose
        gradients are also to be added up over `tensor`. `experts` are those of the layer that ranks
        share. If `dtype` is given, sharded parameters are computed with in it, and their gradients
        are added up in 32 bits. A layer that `is_joint` shares a parameter with another one of the
        rank, and is sharded with the stage."""
        self.module = module
        self.mesh = gradient
        self.is_sharded = is_sharded(strategy)
        self._strategy = strategy
        self._tensor = tensor
        layer = Replicas(module, gradient)
        names = {name for name, parameter in module.named_parameters() if parameter in partial}
        self._partial_names = names
        self._experts = experts
        self._units = [layer] if experts is None else [experts, layer]
        # In the order of the forward pass; empty without sharding.
        self.sharded: list[Any] = []
        # Whether gradients of the step are averages that are to be sums.
        self._are_averages = self.is_sharded
        if self.is_sharded and not is_joint:
            if experts is not None:
                count = experts.mesh.size()
                fully_shard(experts.module, mesh=experts.mesh,
                            shard_placement_fn=lambda one: _placement(one, count),
                            **self.options(dtype))
            fully_shard(module, mesh=gradient, **self.options(dtype))
            self.sharded = [module] if experts is None else [module, experts.module]
            for one in self.sharded:
                self.let_add_up(one)

    def options(self, dtype: torch.dtype | None) -> dict[str, Any]:
        """Returns the options of `fully_shard`."""
        policy = MixedPrecisionPolicy()
        if dtype is not None:
            policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
        return {"mp_policy": policy,
                "reshard_after_forward": self._strategy.sharding == Sharding.PARAMETERS}

    def let_add_up(self, module: Any) -> None:
        """Lets a module that this layer is sharded with add up gradients instead of averaging them,
        if this release of PyTorch can; else `finish` does."""
        if all(hasattr(module, name) for name in ("set_gradient_divide_factor",
                                                  "set_force_sum_reduction_for_comms")):
            module.set_gradient_divide_factor(1.0)
            # Without it every gradient is multiplied by 1 on its way.
            module.set_force_sum_reduction_for_comms(True)
            self._are_averages = False

    def begin_backward(self, is_last: bool) -> None:
        """Called before each backward pass of a micro-batch; `is_last` for the last of a step.
        ZeRO-1 adds up gradients once a step, and so are shards added up between groups; with ZeRO-1
        and 2 parameters stay gathered until then."""
        for module in self.sharded[:1]:
            # The setters reach the experts inside as well.
            self.begin_backward_of(module, is_last, recurse=True)

    def begin_backward_of(self, module: Any, is_last: bool, *, recurse: bool) -> None:
        """The same for the module that this layer is sharded with."""
        if self._strategy.sharding == Sharding.OPTIMIZER:
            module.set_requires_gradient_sync(is_last, recurse=recurse)
        elif self._strategy.sharding_degree:
            module.set_requires_all_reduce(is_last, recurse=recurse)
        if self._strategy.sharding != Sharding.PARAMETERS:
            module.set_reshard_after_backward(is_last, recurse=recurse)

    @torch.no_grad()
    def finish(self, done: set[int]) -> None:
        """Adds up the gradients of the step that still are parts. `done` has the ids of parameters
        that are finished, and gets those of this layer: a table may be in two layers."""
        for unit, parameters in zip(self._units, self._parameters):
            gradients = []
            for parameter in parameters:
                if parameter.grad is None or id(parameter) in done:
                    continue
                done.add(id(parameter))
                gradients.append(_whole_gradient(parameter))
            count = unit.mesh.size()
            if not gradients or count == 1:
                continue
            if self._are_averages:
                # FSDP averages; the loss was divided already.
                torch._foreach_mul_(gradients, count)
            elif not self.is_sharded:
                _add_up(gradients, unit.mesh.get_group())
        if self._partial:
            _add_up([local_of(parameter.grad) for parameter in self._partial
                     if parameter.grad is not None], self._tensor.get_group())

    @functools.cached_property
    def _parameters(self) -> list[list[nn.Parameter]]:
        """The parameters of each unit. Sharding makes new ones under the same names."""
        spread = set() if self._experts is None else set(self._experts.module.parameters())
        return [[one for one in unit.module.parameters()
                 if (one in spread) == (unit is self._experts)] for unit in self._units]

    @functools.cached_property
    def _partial(self) -> list[nn.Parameter]:
        return [parameter for name, parameter in self.module.named_parameters()
                if name in self._partial_names]


def _whole_gradient(parameter: Any) -> torch.Tensor:
    """Returns this rank's part of a gradient, which lies as its parameter does afterwards."""
    gradient = parameter.grad
    if isinstance(gradient, DTensor) and isinstance(parameter, DTensor) \
            and gradient.placements != parameter.placements:
        # A gradient may be a sum that was not made yet.
        parameter.grad = gradient.redistribute(placements=parameter.placements)
    return local_of(parameter.grad)


def _placement(parameter: nn.Parameter, count: int) -> Shard:
    """Returns the dimension over which replicas of experts share a matrix: the last one that other
    ranks do not share already, if it can be divided; else that of the experts."""
    taken = {getattr(placement, "dim", None) for placement in parameter.placements} if isinstance(
        parameter, DTensor) else set()
    local = local_of(parameter)
    last = max((dimension for dimension in range(local.dim()) if dimension not in taken),
               default=0)
    return Shard(last if local.shape[last] % count == 0 else 0)


def _add_up(gradients: list[torch.Tensor], group: dist.ProcessGroup) -> None:
    """Adds up gradients over a group, in one message for each type."""
    by_type: dict[torch.dtype, list[torch.Tensor]] = {}
    for gradient in gradients:
        by_type.setdefault(gradient.dtype, []).append(gradient)
    for same in by_type.values():
        flat = torch.cat([gradient.reshape(-1) for gradient in same])
        dist.all_reduce(flat, group=group)
        # They become parts of the message, which saves copying it back.
        for gradient, part in zip(same, torch.split(flat, [one.numel() for one in same])):
            share: Any = gradient.set_
            share(part.view(gradient.shape))
