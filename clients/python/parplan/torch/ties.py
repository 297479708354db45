"""A table that embedding and head share.

On one rank it is one parameter of both. On two, ranks of the same number have the same part of it,
and add up its gradients after the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from parplan.plan import Plan
from parplan.program import RankProgram
from parplan.strategy import Sharding
from parplan.torch.initialize import initialize_layer, put_parameter
from parplan.torch.layers import refused


def tied_parameters(layers: Sequence[nn.Module]) -> list[nn.Parameter]:
    """Returns the parameters that the first and the last layer share. Raises SpecInvalid if other
    layers share any."""
    owners: dict[int, int] = {}
    shared = []
    for index, layer in enumerate(layers):
        for parameter in layer.parameters():
            owner = owners.setdefault(id(parameter), index)
            if owner == index:
                continue
            if (owner, index) != (0, len(layers) - 1):
                raise refused(index, f"it shares a parameter with layer {owner}")
            shared.append(parameter)
    return shared


def check_tied(plan: Plan, layers: Sequence[nn.Module], can_leave_out: bool) -> None:
    """Raises SpecInvalid naming the layer if a shared table cannot be run. `can_leave_out` is
    whether a stage can be sharded without some of its layers."""
    shared = tied_parameters(layers)
    if not shared and not plan.has_tied_table:
        return
    first, last = plan.layers[0], plan.layers[-1]
    if bool(shared) != plan.has_tied_table:
        raise refused(last.index, "embedding and head share parameters in one of plan and model "
                      "and not in the other")
    one, other = first.strategy, last.strategy
    if (one.tensor_parallel_degree, one.gradient_degree, one.tensor_innermost) != (
            other.tensor_parallel_degree, other.gradient_degree, other.tensor_innermost):
        raise refused(last.index, "a head that shares the embedding's table must be spread as the "
                      "embedding is")
    if (one.sharding, one.sharding_degree) != (other.sharding, other.sharding_degree):
        raise refused(last.index, "a head that shares the embedding's table must be sharded as the "
                      "embedding is")
    if one.sharding == Sharding.NONE or one.gradient_degree == 1:
        return
    if first.first_rank == last.first_rank:
        if first.stage_index != last.stage_index:
            raise refused(last.index, "a table that embedding and head share in two virtual stages "
                          "of one rank is not sharded")
        if not can_leave_out and any(layer.strategy.sharding == Sharding.NONE
                                     for layer in plan.stages[first.stage_index].layers):
            raise refused(last.index, "this release of PyTorch shards a table that embedding and "
                          "head share only where all layers of their stage are sharded")


class Ties:
    """The table on this rank."""

    def __init__(self, plan: Plan, model: nn.Module, layers: Sequence[nn.Module],
                 program: RankProgram, names: Mapping[str, str]) -> None:
        self._model = model
        self._layers = layers
        self._last = len(layers) - 1
        shared = {id(one) for one in tied_parameters(layers)}
        # Names of the shared parameters within the model, and within either layer.
        in_model = {id(one): name for name, one in model.named_parameters()}
        self.names = {in_model[one] for one in shared}
        self._own: dict[int, dict[str, int]] = {
            index: {name: id(one) for name, one in layers[index].named_parameters(
                remove_duplicate=False) if id(one) in shared} for index in (0, self._last)}
        mine = {layer.layer.index for stage in program.stages for layer in stage.layers}
        self._has = {index for index in (0, self._last) if index in mine}
        self._first: dict[int, nn.Parameter] = {}

    def initialize(self, seed: int, device: torch.device) -> None:
        """Gives values to the table where only the head is, as the embedding has them: the values
        of the head depend on it if the model is on the meta device."""
        if not self.names or not self._has:
            return
        embedding, head = self._layers[0], self._layers[self._last]
        if not any(parameter.is_meta for parameter in embedding.parameters()):
            return
        initialize_layer(self._model, embedding, 0, seed, device)
        values = {self._own[0][name]: parameter for name, parameter in
                  embedding.named_parameters(remove_duplicate=False) if name in self._own[0]}
        initialize_layer(self._model, head, self._last, seed, device)
        for name, one in self._own[self._last].items():
            put_parameter(head, name, values[one])

    def tie(self, index: int, body: nn.Module) -> None:
        """Called when a layer has been split: gives the head the embedding's part of the table.
        Every rank has refused before (refusals.py) to split the two otherwise than each other."""
        if not self.names or len(self._has) < 2 or index not in self._own:
            return
        found = dict(body.named_parameters(remove_duplicate=False))
        for name, one in self._own[index].items():
            parameter = found[name]
            before = self._first.setdefault(one, parameter)
            if before is parameter:
                continue
            assert _layout(before) == _layout(parameter), name
            put_parameter(body, name, before)

    def is_joint(self, index: int) -> bool:
        """Returns whether a layer shares a parameter with another one of this rank."""
        return bool(self.names) and len(self._has) == 2 and index in self._own


def _layout(parameter: nn.Parameter) -> object:
    return tuple(parameter.placements) if isinstance(parameter, DTensor) else None


def shared_names(module: nn.Module) -> list[list[str]]:
    """Returns the names of each parameter that a module has by several."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [one for one in names.values() if len(one) > 1]


def tie_within(module: nn.Module, groups: Sequence[Sequence[str]]) -> None:
    """Makes parameters one again that a module had by several names: the one that was split, if
    one was."""
    for names in groups:
        found = dict(module.named_parameters(remove_duplicate=False))
        spread = [found[name] for name in names if isinstance(found[name], DTensor)]
        for name in names:
            put_parameter(module, name, spread[0] if spread else found[names[0]])
