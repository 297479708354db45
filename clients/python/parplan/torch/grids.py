"""Process groups of a plan: a device mesh for each way to spread a layer, and groups of stages.

Groups are made collectively, so every rank makes all of them, in one order. They live as long as the
job's own group: DTensor remembers meshes, and by them the names of groups, after the last tensor is
gone, so that a mesh that is made anew over the same ranks would be taken for one whose groups no
longer exist. A later plan therefore uses the groups of earlier plans with the same ranks and purpose
again, and a process that applies many plans has no more groups than there are ways to spread layers.
Runs that are in use at the same time therefore share groups, and every rank has to take turns in them
in the same order; behind a step that failed on some ranks, messages may be left in a group, which
failures.py finds out: then `apply` refuses the job.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from parplan.plan import Plan
from parplan.program import LayerProgram
from parplan.strategy import Place, Strategy
from parplan.torch.ring import passed

PIPELINE, GRADIENT, TENSOR = "pipeline", "gradient", "tensor"
# The two dimensions of GRADIENT if groups of its ranks share states.
REPLICATE, SHARD = "replicate", "shard"
# Ranks with the same experts, and ranks that share all experts.
EXPERT_GRADIENT, EXPERT = "expert_gradient", "expert"


@dataclasses.dataclass(frozen=True)
class _Axes:
    """The facts on which the ranks of a mesh depend."""
    tensor: int
    gradient: int
    tensor_innermost: bool
    sharding: int


def _axes_of(strategy: Strategy) -> _Axes:
    return _Axes(strategy.tensor_parallel_degree, strategy.gradient_degree,
                 strategy.tensor_innermost, strategy.sharding_degree)


class _OneRank:
    """Stands for the meshes of a plan of one device. A DeviceMesh would make process groups, of
    which nothing is asked."""

    def __getitem__(self, _: str) -> _OneRank:
        return self

    def size(self) -> int:
        return 1


class _Pool:
    """The meshes and groups that plans made under one default group. Every rank of the job applies
    the same plans in one order, so all of them have the same."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self._meshes: dict[Any, DeviceMesh] = {}
        self._groups: dict[tuple[str, tuple[int, ...]], dist.ProcessGroup | None] = {}

    def mesh(self, device_type: str, ranks: Any, names: tuple[str, ...]) -> DeviceMesh:
        """Returns the mesh of nested lists of ranks with the names of its dimensions."""
        key = (device_type, repr(ranks), names)
        if key not in self._meshes:
            self._meshes[key] = DeviceMesh(device_type, ranks, mesh_dim_names=names)
        return self._meshes[key]

    def group(self, purpose: str, ranks: tuple[int, ...]) -> dist.ProcessGroup | None:
        """Returns a group, or None if this rank is not in it."""
        if (purpose, ranks) not in self._groups:
            made = dist.new_group(list(ranks))
            self._groups[purpose, ranks] = made if isinstance(made, dist.ProcessGroup) else None
        return self._groups[purpose, ranks]

    def message_counts(self) -> dict[str, int]:
        """Returns how many collectives this rank began in each group it is in, by a name that all of
        its ranks give it."""
        found = {"all": _count_of(self.world)}
        for (purpose, ranks), group in self._groups.items():
            if group is not None:
                found[f"{purpose} {ranks}"] = _count_of(group)
        for (_, ranks, names), mesh in self._meshes.items():
            for name in names:
                group = mesh.get_group(name)
                found[f"{ranks} {name} {dist.get_process_group_ranks(group)}"] = _count_of(group)
        return found


def _count_of(group: Any) -> int:
    return int(group._get_sequence_number_for_group())


_pool: _Pool | None = None


def _pool_of_job() -> _Pool:
    """Returns what was made under the default group; nothing at first, and after another one
    began."""
    global _pool
    if _pool is None or _pool.world is not dist.group.WORLD:
        _pool = _Pool(dist.group.WORLD)
    return _pool


class Grids:
    """The meshes and groups of this rank under a plan."""

    def __init__(self, plan: Plan, device_type: str) -> None:
        """Makes the groups that no earlier plan made, none for one device; every rank of the job
        calls it at the same time."""
        self._rank_count = plan.stages[0].rank_count
        self._meshes: dict[_Axes, Any] = {}
        self._contexts: dict[tuple[int, ...], dist.ProcessGroup] = {}
        self._tied: dist.ProcessGroup | None = None
        self._stage: dist.ProcessGroup | None = None
        self._expert_meshes: dict[tuple[_Axes, int], DeviceMesh] = {}
        if plan.device_count == 1:
            self._meshes = {_axes_of(layer.strategy): _OneRank() for layer in plan.layers}
            self.pipeline: Any = _OneRank()
            return
        for layer in plan.layers:
            axes = _axes_of(layer.strategy)
            if axes not in self._meshes:
                self._meshes[axes] = self._make(plan, layer.strategy, device_type)
        for layer in plan.layers:
            key = (_axes_of(layer.strategy), layer.strategy.expert_parallel_degree)
            if key[1] > 1 and key not in self._expert_meshes:
                self._expert_meshes[key] = self._make_expert(plan, layer.strategy, device_type)
        self.pipeline = next(iter(self._meshes.values()))[PIPELINE]
        place = dist.get_rank() // self._rank_count
        for group in plan.groups():
            if group.purpose not in ("context", "stage", "tied"):
                continue
            made = _pool_of_job().group(group.purpose, group.ranks)
            if made is None:
                continue
            if group.purpose == "context":
                self._contexts[group.ranks] = made
            elif group.purpose == "tied":
                self._tied = made
            elif group.ranks[0] == place * self._rank_count:
                self._stage = made

    def message_counts(self, plan: Plan) -> dict[str, int] | None:
        """Returns how many messages this rank began in each group of the job (`_Pool`) and each ring;
        None if there is one rank, if the plan has a pipeline, whose messages nothing counts, or if the
        backend does not count."""
        if plan.pipeline_parallel_degree > 1 or plan.device_count == 1:
            return None
        try:
            return {**_pool_of_job().message_counts(),
                    **{f"ring {ranks}": count for ranks, count in passed.items()}}
        except (RuntimeError, ValueError):
            return None

    @property
    def stage(self) -> dist.ProcessGroup | None:
        """All ranks of this rank's stages, or None if it is alone."""
        return self._stage

    @property
    def tied(self) -> dist.ProcessGroup | None:
        """The ranks with the same part of a table that the first and the last stage share."""
        return self._tied

    def context(self, layer: LayerProgram) -> dist.ProcessGroup | None:
        """Returns the ranks that share the tokens of each sample, or None if this one is alone."""
        return self._contexts[layer.context.ranks] if layer.context is not None else None

    def gradient(self, strategy: Strategy) -> DeviceMesh:
        """Returns the ranks with the same part of a layer's parameters. If groups of them share
        states the mesh has the dimensions REPLICATE and SHARD."""
        names = (REPLICATE, SHARD) if strategy.sharding_degree else GRADIENT
        made: DeviceMesh = self._meshes[_axes_of(strategy)][names]
        return made

    def tensor(self, strategy: Strategy) -> DeviceMesh:
        """Returns the ranks that share a layer's matrices."""
        made: DeviceMesh = self._meshes[_axes_of(strategy)][TENSOR]
        return made

    def expert(self, strategy: Strategy) -> DeviceMesh:
        """Returns the mesh of ranks with experts of a layer that are spread over ranks, with the
        dimensions PIPELINE, EXPERT_GRADIENT, EXPERT and TENSOR."""
        return self._expert_meshes[_axes_of(strategy), strategy.expert_parallel_degree]

    def _make_expert(self, plan: Plan, strategy: Strategy, device_type: str) -> DeviceMesh:
        """Neighbours of a gradient group, by their numbers, share the experts."""
        expert = strategy.expert_parallel_degree
        ranks = []
        for place in range(plan.pipeline_parallel_degree):
            columns = [sorted(place * self._rank_count + strategy.rank_of(Place(tensor, context,
                                                                                data))
                              for data in range(strategy.data_parallel_degree)
                              for context in range(strategy.context_parallel_degree))
                       for tensor in range(strategy.tensor_parallel_degree)]
            ranks.append([[[column[first + number] for column in columns]
                           for number in range(expert)]
                          for first in range(0, strategy.gradient_degree, expert)])
        return _pool_of_job().mesh(device_type, ranks,
                                   (PIPELINE, EXPERT_GRADIENT, EXPERT, TENSOR))

    def _make(self, plan: Plan, strategy: Strategy, device_type: str) -> DeviceMesh:
        def rank_at(first: int, data: int, context: int, tensor: int) -> int:
            return first + strategy.rank_of(Place(tensor, context, data))

        if strategy.sharding_degree:
            return self._make_hybrid(plan, strategy, device_type)
        ranks = [[[rank_at(place * self._rank_count, data, context, tensor)
                   for tensor in range(strategy.tensor_parallel_degree)]
                  for data in range(strategy.data_parallel_degree)
                  for context in range(strategy.context_parallel_degree)]
                 for place in range(plan.pipeline_parallel_degree)]
        return _pool_of_job().mesh(device_type, ranks, (PIPELINE, GRADIENT, TENSOR))

    def _make_hybrid(self, plan: Plan, strategy: Strategy, device_type: str) -> DeviceMesh:
        """Groups of neighbours of a gradient group, by their numbers, share states."""
        ranks = []
        for place in range(plan.pipeline_parallel_degree):
            columns = [strategy.shard_groups([place * self._rank_count + strategy.rank_of(
                Place(tensor, context, data)) for data in range(strategy.data_parallel_degree)
                for context in range(strategy.context_parallel_degree)])
                for tensor in range(strategy.tensor_parallel_degree)]
            ranks.append([[[column[group][number] for column in columns]
                           for number in range(strategy.shard_count)]
                          for group in range(len(columns[0]))])
        return _pool_of_job().mesh(device_type, ranks, (PIPELINE, REPLICATE, SHARD, TENSOR))
