"""A model spread over the ranks of a job: this rank's layers, split, sharded and in stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn

from parplan.plan import Plan
from parplan.program import LayerProgram, StageProgram
from parplan.strategy import Recompute, Strategy
from parplan.torch.attention import Attention, tokens_of
from parplan.torch.data_parallel import LayerGradients, Replicas, is_sharded
from parplan.torch.experts import experts_of, spread_experts
from parplan.torch.first_pass import FirstPass
from parplan.torch.grids import EXPERT, EXPERT_GRADIENT, TENSOR, Grids
from parplan.torch.initialize import initialize_layer, place_positions
from parplan.torch.layers import refused
from parplan.torch.measure.compiled import compile_layers
from parplan.torch.module_checks import Shares
from parplan.torch.parts import local_of
from parplan.torch.pipeline import layout_after
from parplan.torch.ranks import this_rank
from parplan.torch.recompute import contexts_of
from parplan.torch.stage import Layer, Stage
from parplan.torch.tensor_parallel import expert_styles, pieces_of_parameters, split_layer
from parplan.torch.ties import Ties, shared_names, tie_within

_TABLES = ("LAYER_KIND_EMBEDDING", "LAYER_KIND_PATCH_EMBEDDING", "LAYER_KIND_HEAD")


class Spread:
    """See the head of the file. Made by all ranks at the same time."""

    def __init__(self, plan: Plan, model: nn.Module, layers: Sequence[nn.Module],
                 splits: Mapping[str, str], grids: Grids, device: torch.device,
                 dtype: torch.dtype | None, seed: int) -> None:
        """`layers` were checked (refusals.py), so what is raised here for a layer of this rank was
        raised there on all ranks. `splits` is the tensor-parallel plan by names of styles. With
        `dtype` parameters become those of 32 bits."""
        self.grids = grids
        self.rank = this_rank()
        self._plan, self._model, self._device, self._dtype = plan, model, device, dtype
        self._seed = seed
        self._program = plan.rank(self.rank)
        self._splits = splits
        self._modules = dict(model.named_modules())
        self._module_names = {id(module): name for name, module in self._modules.items()}
        self.pieces = pieces_of_parameters(self._modules, self._splits)
        self.activation_type = dtype or next(
            parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())
        policy = plan.recompute_policy
        self._operators = (contexts_of(policy) if policy is not None
                           and policy.selective_ac_option == "op" else None)
        self._names = self._name_parameters(layers)
        self._ties = Ties(plan, model, layers, self._program, self._names)
        place_positions(layers, device)
        self._ties.initialize(seed, device)
        self.stages = [self._make_stage(stage, layers) for stage in self._program.stages]
        mine = {layer.layer.index for stage in self._program.stages for layer in stage.layers}
        for index, layer in enumerate(layers):
            if index not in mine:
                layer.to("meta")
        # Found by `copies_of`: the parameters that both ends of a tied table share.
        self._tied: set[int] | None = None
        self._strategies = {id(parameter): program.layer.strategy
                            for stage in self.stages
                            for layer, program in zip(stage.bodies, stage.program.layers)
                            for parameter in layer.parameters()}

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yields this rank's parameters, each once, by their names in the model."""
        seen: set[int] = set()
        for stage in self.stages:
            for layer, program in zip(stage.bodies, stage.program.layers):
                for name, parameter in layer.named_parameters():
                    if id(parameter) not in seen:
                        seen.add(id(parameter))
                        yield self._names[f"{program.layer.index}.{name}"], parameter

    def copies_of(self, parameter: nn.Parameter) -> int:
        """Returns the number of ranks of the layer of a parameter, and of both layers of a table that
        two of them share in different stages."""
        strategy: Strategy = self._strategies[id(parameter)]
        if self.grids.tied is None:
            return strategy.rank_count
        if self._tied is None:
            self._tied = {id(one) for name, one in self.named_parameters()
                          if name in self._ties.names}
        ends = dist.get_world_size(self.grids.tied) if id(parameter) in self._tied else 1
        return strategy.rank_count * ends

    def program_of(self, layer: int) -> LayerProgram | None:
        """Returns the program of a layer on this rank, or None if it is elsewhere."""
        return next((program for stage in self._program.stages for program in stage.layers
                     if program.layer.index == layer), None)

    def compile(self) -> None:
        """Compiles the layers of this rank, each when it is called next."""
        bodies = [body for stage in self.stages for body in stage.bodies]
        compile_layers(bodies, len(bodies), forgets=False)

    def finish(self) -> None:
        """Brings the gradients of a step together."""
        done: set[int] = set()
        for stage in self.stages:
            stage.finish(done)
        if self.grids.tied is not None:
            # A rank with both ends has one parameter, whose gradient has both parts.
            for name, parameter in self.named_parameters():
                if name in self._ties.names and parameter.grad is not None:
                    dist.all_reduce(local_of(parameter.grad), group=self.grids.tied)

    def _name_parameters(self, layers: Sequence[nn.Module]) -> dict[str, str]:
        """Returns the name within the model of each parameter of this rank's layers."""
        in_model = {id(one): name for name, one in self._model.named_parameters()}
        return {f"{layer.layer.index}.{name}": in_model[id(parameter)]
                for stage in self._program.stages for layer in stage.layers
                for name, parameter in layers[layer.layer.index].named_parameters()}

    def _make_stage(self, program: StageProgram, layers: Sequence[nn.Module]) -> Stage:
        made, gradients = [], []
        for layer in program.layers:
            one, gradient = self._make_layer(layer, layers[layer.layer.index])
            made.append(one)
            gradients.append(gradient)
        return Stage(program, made, gradients, layout_after(self._plan, program), self.rank,
                     self.grids, self._dtype)

    def _make_layer(self, program: LayerProgram, body: nn.Module) -> tuple[Layer, LayerGradients]:
        index, strategy = program.layer.index, program.layer.strategy
        shared = shared_names(body)
        # One layer at a time is whole on this rank.
        initialize_layer(self._model, body, index, self._seed, self._device)
        body = body.to(self._device)
        tie_within(body, shared)
        if self._dtype is not None:
            body = body.float()
        experts = self._spread_experts(index, body, strategy)
        partial: set[nn.Parameter] = set()
        if strategy.tensor_parallel_degree > 1:
            partial = split_layer(index, body, self._module_names, strategy, self._splits,
                                  self.grids.tensor(strategy))
        tie_within(body, shared)
        self._ties.tie(index, body)
        positions = tokens_of(strategy, program.layout.first_rank, self.rank,
                              program.layout.token_count)
        if hasattr(body, "token_positions"):
            body.token_positions = positions.to(self._device)
        is_transformer = self._plan.layer_kind(index) not in _TABLES
        attention = Attention(index, strategy.context_kind,
                              strategy.recompute if self._operators is None else Recompute.NONE,
                              self.grids.context(program), is_transformer)
        layer = Layer(body, strategy.recompute, attention,
                      None if is_sharded(strategy) else self._dtype, self._operators,
                      FirstPass(index, self._module_names, Shares.of(
                          self._plan, strategy, casts=self._dtype is not None)))
        return layer, LayerGradients(
            layer, strategy, self.grids.gradient(strategy), self.grids.tensor(strategy), partial,
            experts=experts, dtype=self._dtype, is_joint=self._ties.is_joint(index))

    def _spread_experts(self, index: int, body: nn.Module, strategy: Strategy) -> Replicas | None:
        """Spreads the experts of a layer. Returns them with their replicas if ranks share them."""
        count = self._plan.definition(index).expert_count
        degree = strategy.expert_parallel_degree
        has_tensor = strategy.tensor_parallel_degree > 1
        if count == 0 or (degree == 1 and not has_tensor):
            return None
        experts = experts_of(body)
        if experts is None:
            raise refused(index, "no module of it is named experts")
        styles = expert_styles(self._module_names[id(experts)], experts, self._splits)
        tensor = self.grids.tensor(strategy) if has_tensor else None
        if degree == 1:
            spread_experts(index, experts, count, strategy, styles, self.grids.tensor(strategy),
                           None, tensor)
            return None
        whole = self.grids.expert(strategy)
        spread_experts(index, experts, count, strategy, styles,
                       whole[EXPERT, TENSOR] if has_tensor else whole[EXPERT], whole[EXPERT],
                       tensor)
        return Replicas(experts, whole[EXPERT_GRADIENT])
