"""A training job under a plan: `apply` spreads a model, `Run.step` trains it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate

from parplan.errors import field_error
from parplan.plan import Plan
from parplan.program import StageProgram
from parplan.torch import checkpoint
from parplan.torch.attention import Attention, tokens_of
from parplan.torch.data_parallel import LayerGradients, local_of
from parplan.torch.grids import Grids
from parplan.torch.initialize import initialize_layer, place_positions
from parplan.torch.layers import find_layers
from parplan.torch.pipeline import Alone, Pipelined, layout_after
from parplan.torch.refusals import check_plan, tied_parameters
from parplan.torch.spans import span
from parplan.torch.stage import Layer, Stage
from parplan.torch.tensor_parallel import split_layer, tensor_plan_of

_TABLES = ("LAYER_KIND_EMBEDDING", "LAYER_KIND_PATCH_EMBEDDING", "LAYER_KIND_HEAD")
LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def apply(plan: Plan, model: nn.Module, loss_fn: LossFunction, *,
          layers: Sequence[nn.Module] | None = None,
          tensor_plan: Mapping[str, str] | None = None,
          optimizer: Callable[..., torch.optim.Optimizer] | None = None,
          max_gradient_norm: float | None = None, seed: int = 0,
          device: torch.device | str | None = None) -> Run:
    """Spreads a model over the ranks of the job as `plan` says. Every rank calls this with equal
    values of the model's parameters, or with a model on the meta device, whose layers then get the
    values of `initialize` with `seed`; after torch.distributed.init_process_group. The model
    belongs to the Run from then on, and layers of other ranks lose their memory.

    `loss_fn` takes the output of the last layer and the targets of the same samples, and returns
    their mean. `layers` are the modules of the plan's layers (`find_layers` by default),
    `tensor_plan` says how modules are split (the model's own by default; tensor_parallel.py).
    `optimizer` makes an optimizer of a list of parameters; it is called once for each set of ranks
    that parameters are spread over. Without one `Run.step` leaves gradients to the caller.
    `max_gradient_norm` clips the norm over all parameters of the model.

    Raises SpecInvalid naming the layer for what cannot be run exactly, and TopologyMismatch if the
    job has another number of ranks than the plan."""
    if dist.get_world_size() != plan.device_count:
        raise field_error("TOPOLOGY_MISMATCH", "device_count",
                          f"the plan is for {plan.device_count} ranks, the job has "
                          f"{dist.get_world_size()}")
    found = list(layers) if layers is not None else find_layers(model, plan)
    check_plan(plan, found)
    place = torch.device(device if device is not None else _default_device())
    return Run(plan, model, found, loss_fn, tensor_plan, optimizer, max_gradient_norm, seed, place)


class Run:
    """One rank's part of the job. Made by `apply`; used by one thread."""

    def __init__(self, plan: Plan, model: nn.Module, layers: Sequence[nn.Module],
                 loss_fn: LossFunction, tensor_plan: Mapping[str, str] | None,
                 optimizer: Callable[..., torch.optim.Optimizer] | None,
                 max_gradient_norm: float | None, seed: int, device: torch.device) -> None:
        self.plan = plan
        self._device = device
        self._model, self._seed = model, seed
        self._tokens = plan.model.layer_definitions[0].sequence_length
        self._max_gradient_norm = max_gradient_norm
        self._program = plan.rank(dist.get_rank())
        self._strategies: dict[int, Any] = {}
        self._grids = Grids(plan, device.type)
        dtype = next(parameter.dtype for parameter in model.parameters()
                     if parameter.is_floating_point())
        splits = tensor_plan_of(model) if tensor_plan is None else dict(tensor_plan)
        names = {id(module): name for name, module in model.named_modules()}
        parameter_names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._tied = {parameter_names[id(one)] for one in tied_parameters(layers)}
        self._names: dict[str, str] = {}
        place_positions(layers, device)
        for stage in self._program.stages:
            for layer in stage.layers:
                for name, parameter in layers[layer.layer.index].named_parameters():
                    self._names[f"{layer.layer.index}.{name}"] = parameter_names[id(parameter)]
        self._stages = [self._make_stage(stage, layers, names, splits)
                        for stage in self._program.stages]
        self._free_others(layers)
        # Each rank of the last stage has the loss of its share of every micro-batch.
        self._head = plan.layers[-1].strategy
        parts = self._head.gradient_degree * plan.micro_batch_count

        def loss_of_part(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return loss_fn(output, target) / parts

        if plan.pipeline_parallel_degree == 1:
            self._passes: Alone | Pipelined = Alone(self._stages, loss_of_part)
        else:
            self._passes = Pipelined(plan, self._stages, self._grids, loss_of_part, device, dtype,
                                     plan.model.layer_definitions[-1].vocabulary_size)
        self.optimizers = self._make_optimizers(optimizer)

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Trains one step and returns the mean loss, the same on every rank. `inputs` and
        `targets` are those of the whole global batch; a rank uses its own samples of them, and
        none if it has neither the first nor the last layer."""
        size = self.plan.global_batch_size
        if len(inputs) != size or len(targets) != size:
            raise field_error("SPEC_INVALID", "inputs",
                              f"a step has {size} samples, not {len(inputs)} and {len(targets)}")
        if inputs.dim() > 1 and inputs.shape[1] != self._tokens:
            raise field_error("SPEC_INVALID", "inputs",
                              f"a sample has {self._tokens} tokens, not {inputs.shape[1]}")
        for parameter in self.parameters():
            parameter.grad = None
        first, last = self.plan.layers[0], self.plan.layers[-1]
        losses = self._passes.step(self._shares(inputs, first.index),
                                   self._shares(targets, last.index))
        with span("gradients"):
            done: set[int] = set()
            for stage in self._stages:
                stage.finish(done)
            self._add_up_tied()
        with span("optimizer"):
            if self._max_gradient_norm is not None:
                self._clip(self._max_gradient_norm)
            for one in self.optimizers:
                one.step()
        total = torch.zeros((), device=self._device, dtype=torch.float32)
        if losses:
            # Ranks that share matrices have the same loss.
            total = torch.stack(losses).sum().float() / self._head.tensor_parallel_degree
        dist.all_reduce(total)
        return total

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yields this rank's parameters, each once, by their names in the model. One that is spread
        over ranks is a DTensor."""
        seen: set[int] = set()
        for stage in self._stages:
            for layer, program in zip(stage.bodies, stage.program.layers):
                for name, parameter in layer.named_parameters():
                    if id(parameter) not in seen:
                        seen.add(id(parameter))
                        yield self._names[f"{program.layer.index}.{name}"], parameter

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yields this rank's parameters, each once."""
        for _, parameter in self.named_parameters():
            yield parameter

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Stores parameters and optimizer states in a folder that all ranks reach. Every rank calls
        this. Learning rates and schedules are the caller's."""
        checkpoint.save(self.named_parameters(), self.optimizers, folder)

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Loads what a Run of the same model stored, under this plan or another. Every rank calls
        this. Errors are those of torch.distributed.checkpoint."""
        checkpoint.load(self.named_parameters(), self.optimizers, folder)

    def _make_stage(self, program: StageProgram, layers: Sequence[nn.Module],
                    names: Mapping[int, str], splits: Mapping[str, str]) -> Stage:
        made, gradients = [], []
        for layer in program.layers:
            index, strategy = layer.layer.index, layer.layer.strategy
            # One layer at a time is whole on this rank.
            initialize_layer(self._model, layers[index], index, self._seed, self._device)
            body = layers[index].to(self._device)
            partial: set[nn.Parameter] = set()
            if strategy.tensor_parallel_degree > 1:
                partial = split_layer(index, body, names, strategy, splits,
                                      self._grids.tensor(strategy))
            positions = tokens_of(strategy, layer.layout.first_rank, self._program.rank,
                                  layer.layout.token_count)
            if hasattr(body, "token_positions"):
                body.token_positions = positions.to(self._device)
            is_transformer = self.plan.layer_kind(index) not in _TABLES
            one = Layer(body, strategy.recompute,
                        Attention(index, layer.layout, self._program.rank, strategy.recompute,
                                  self._grids.context(layer), is_transformer))
            gradients.append(LayerGradients(one, strategy, self._grids.gradient(strategy),
                                            self._grids.tensor(strategy), partial))
            for parameter in one.parameters():
                self._strategies[id(parameter)] = strategy
            made.append(one)
        return Stage(program, made, gradients, layout_after(self.plan, program),
                     self._program.rank, self._grids)

    def _free_others(self, layers: Sequence[nn.Module]) -> None:
        mine = {layer.layer.index for stage in self._program.stages for layer in stage.layers}
        for index, layer in enumerate(layers):
            if index not in mine:
                layer.to("meta")

    def _shares(self, batch: torch.Tensor, layer: int) -> list[torch.Tensor]:
        """Returns this rank's samples and tokens of each micro-batch in the layout of a layer;
        nothing if the layer is elsewhere."""
        for stage in self._program.stages:
            for program in stage.layers:
                if program.layer.index != layer:
                    continue
                layout = program.layout
                mine = layout.samples_of(self._program.rank)
                parts = [one[mine.begin:mine.end]
                         for one in torch.split(batch, self.plan.contents.micro_batch_size)]
                if layout.strategy.context_parallel_degree > 1:
                    tokens = tokens_of(layout.strategy, layout.first_rank, self._program.rank,
                                       layout.token_count)
                    parts = [part[:, tokens] for part in parts]
                return [part.to(self._device) for part in parts]
        return []

    def _add_up_tied(self) -> None:
        """Adds up the gradients of a table that the first and the last stage each have."""
        if self._grids.tied is None:
            return
        for name, parameter in self.named_parameters():
            # A rank with both stages has one parameter, whose gradient has both parts.
            if name in self._tied and parameter.grad is not None:
                dist.all_reduce(parameter.grad, group=self._grids.tied)

    def _make_optimizers(self, make: Callable[..., torch.optim.Optimizer] | None
                         ) -> list[torch.optim.Optimizer]:
        """Makes one optimizer for each mesh: operations over many parameters at once need all of
        them on one."""
        if make is None:
            return []
        groups: dict[Any, list[nn.Parameter]] = {}
        for parameter in self.parameters():
            mesh = parameter.device_mesh if isinstance(parameter, DTensor) else None
            groups.setdefault(mesh, []).append(parameter)
        return [make(group) for group in groups.values()]

    def _clip(self, largest: float) -> None:
        """Scales all gradients down so that their norm over the model is at most `largest`."""
        total = torch.zeros((), device=self._device, dtype=torch.float32)
        gradients = [(parameter, parameter.grad) for parameter in self.parameters()
                     if parameter.grad is not None]
        for parameter, gradient in gradients:
            copies = self._strategies[id(parameter)].rank_count
            if isinstance(gradient, DTensor):
                for size, placement in zip(gradient.device_mesh.shape, gradient.placements):
                    # Matrices that are split twice have a placement that is no Shard.
                    if not isinstance(placement, Replicate):
                        copies //= size
            total += local_of(gradient).float().square().sum() / copies
        dist.all_reduce(total)
        scale = (largest / (total.sqrt() + 1e-6)).clamp(max=1.0)
        for _, gradient in gradients:
            local_of(gradient).mul_(scale)


def _default_device() -> str:
    return f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"
