"""Data parallelism of a layer: ZeRO by `fully_shard`, and plain replicas.

The loss is divided by all shares of a step before the backward pass, so gradients are added up over
the gradient group, never averaged. That is right for layers with different degrees side by side.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from parplan.strategy import Sharding, Strategy


class LayerGradients:
    """Brings the gradients of a layer together at the end of a step."""

    def __init__(self, module: nn.Module, strategy: Strategy, gradient: DeviceMesh,
                 tensor: DeviceMesh, partial: set[nn.Parameter]) -> None:
        """Shards `module` in place as the strategy says. `partial` has the parameters whose
        gradients are also to be added up over `tensor`."""
        self._strategy = strategy
        self._gradient, self._tensor = gradient, tensor
        names = {name for name, parameter in module.named_parameters() if parameter in partial}
        self.is_sharded = (strategy.sharding != Sharding.NONE and strategy.gradient_degree > 1)
        self._module: Any = module
        if self.is_sharded:
            self._module = fully_shard(
                module, mesh=gradient,
                reshard_after_forward=strategy.sharding == Sharding.PARAMETERS)
        # Sharding makes new parameters under the same names.
        self._partial = [parameter for name, parameter in module.named_parameters()
                         if name in names]

    def begin_backward(self, is_last: bool) -> None:
        """Called before each backward pass of a micro-batch; `is_last` for the last of a step.
        ZeRO-1 adds up gradients once a step; with ZeRO-1 and 2 parameters stay gathered until
        then."""
        if not self.is_sharded:
            return
        module = self._module
        if self._strategy.sharding == Sharding.OPTIMIZER:
            module.set_requires_gradient_sync(is_last)
        if self._strategy.sharding != Sharding.PARAMETERS:
            module.set_reshard_after_backward(is_last)

    def finish(self, done: set[int]) -> None:
        """Adds up the gradients of the step that still are parts. `done` has the ids of parameters
        that are finished, and gets those of this layer: a table may be in two layers."""
        strategy = self._strategy
        parameters: list[Any] = [
            parameter for parameter in self._module.parameters()
            if parameter.grad is not None and id(parameter) not in done]
        for parameter in parameters:
            done.add(id(parameter))
            if isinstance(parameter.grad, DTensor) and isinstance(parameter, DTensor):
                # A gradient may be a sum that was not made yet.
                parameter.grad = parameter.grad.redistribute(placements=parameter.placements)
            if self.is_sharded:
                # FSDP averages; the loss was divided already.
                local_of(parameter.grad).mul_(strategy.gradient_degree)
        if not self.is_sharded and strategy.gradient_degree > 1:
            _add_up([local_of(parameter.grad) for parameter in parameters],
                    self._gradient.get_group())
        if strategy.tensor_parallel_degree > 1:
            wanted = {id(parameter) for parameter in self._partial}
            _add_up([local_of(parameter.grad) for parameter in parameters
                     if id(parameter) in wanted], self._tensor.get_group())


def local_of(tensor: Any) -> torch.Tensor:
    """Returns this rank's part of a tensor."""
    part: torch.Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return part


def _add_up(gradients: list[torch.Tensor], group: dist.ProcessGroup) -> None:
    """Adds up gradients over a group, in one message for each type."""
    by_type: dict[torch.dtype, list[torch.Tensor]] = {}
    for gradient in gradients:
        by_type.setdefault(gradient.dtype, []).append(gradient)
    for same in by_type.values():
        flat = torch.cat([gradient.reshape(-1) for gradient in same])
        dist.all_reduce(flat, group=group)
        passed = 0
        for gradient in same:
            gradient.copy_(flat[passed:passed + gradient.numel()].view(gradient.shape))
            passed += gradient.numel()
