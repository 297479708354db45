"""A stage of a pipeline as a module: its layers and the moves between their layouts."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from parplan.program import ActivationLayout, StageProgram
from parplan.strategy import Recompute
from parplan.torch.attention import Attention
from parplan.torch.data_parallel import LayerGradients
from parplan.torch.first_pass import FirstPass
from parplan.torch.grids import Grids
from parplan.torch.precision import Cast
from parplan.torch.recompute import MakeContexts
from parplan.torch.reshard import Move


class Layer(nn.Module):
    """A layer of the plan with its attention and recomputation. Data parallelism is around it."""

    def __init__(self, body: nn.Module, level: Recompute, attention: Attention,
                 dtype: torch.dtype | None, operators: MakeContexts | None = None,
                 first_pass: FirstPass | None = None) -> None:
        """`first_pass` watches the first one. With `dtype` the layer computes with copies of its
        parameters of that type. `operators` are the contexts of selective recomputation by operator
        (recompute.py), None if attention alone is computed again, which is then up to
        `attention`."""
        super().__init__()
        self.body = body
        self._level = level
        self._attention = attention
        self._cast = None if dtype is None else Cast(body, dtype)
        self._operators = operators
        self._first_pass = first_pass

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self._level == Recompute.FULL:
            made: torch.Tensor = checkpoint(self._run, hidden, use_reentrant=False)
            return made
        if self._level == Recompute.SELECTIVE and self._operators is not None:
            made = checkpoint(self._run, hidden, use_reentrant=False, context_fn=self._operators)
            return made
        return self._run(hidden)

    def _run(self, hidden: torch.Tensor) -> torch.Tensor:
        watch = self._first_pass
        if watch is not None:
            self._first_pass = None
            try:
                with watch.over(self.body):
                    return self._run(hidden)
            except BaseException:
                # A pass that failed is followed by another first one.
                self._first_pass = watch
                raise
        made: torch.Tensor = self._attention.run(self._cast or self.body, hidden)
        return made


class _Layers(nn.Module):
    """The layers of a stage, one after the other. `fully_shard` of it is the root of those of its
    layers, so that each can gather parameters for the next."""

    def __init__(self, layers: list[Layer], moves: list[Move | None]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self._moves = moves

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for layer, move in zip(self.layers, self._moves):
            hidden = layer(hidden)
            if move is not None:
                hidden = move(hidden)
        return hidden


class Stage(nn.Module):
    """Takes activations in the layout of its first layer, and returns them in the layout of the
    next stage's first layer, so that each rank sends to the one at its place there."""

    def __init__(self, program: StageProgram, layers: list[Layer],
                 gradients: list[LayerGradients], following: ActivationLayout | None, rank: int,
                 grids: Grids, dtype: torch.dtype | None) -> None:
        """`following` is the layout of the next stage, as if it was on the ranks of this one; None
        for the last stage. `dtype` as for LayerGradients."""
        super().__init__()
        self.program = program
        self._layers = layers
        self._gradients = gradients
        moves: list[Move | None] = []
        layouts = [layer.layout for layer in program.layers]
        for source, target in zip(layouts, [*layouts[1:], following]):
            is_moved = target is not None and not source.is_same_as(target)
            moves.append(Move(source, target, rank, grids.stage)
                         if is_moved and target is not None else None)
        self.layers: Any = _Layers(layers, moves)
        # Layers that share a parameter are sharded as a part of the stage.
        self._joint = next((one for one in gradients if one.is_sharded and not one.sharded), None)
        self._shard(dtype)

    @property
    def bodies(self) -> list[nn.Module]:
        """The modules of the model, in order."""
        return [layer.body for layer in self._layers]

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layers(hidden)
        return made

    def begin_backward(self, is_last: bool) -> None:
        """Called before each backward pass of a micro-batch; `is_last` for the last of a step."""
        for one in self._gradients:
            one.begin_backward(is_last)
        if self._joint is not None:
            self._joint.begin_backward_of(self.layers, is_last, recurse=False)

    def finish(self, done: set[int]) -> None:
        """Brings the gradients of a step together. `done` as in LayerGradients.finish."""
        for one in self._gradients:
            one.finish(done)

    def _shard(self, dtype: torch.dtype | None) -> None:
        """Lets each sharded layer gather the parameters of the next while it computes, and of the
        one before in the backward pass."""
        sharded = [module for one in self._gradients for module in one.sharded]
        if len(sharded) < 2 and self._joint is None:
            return
        rest = {parameter for one in self._gradients if not one.is_sharded
                for parameter in one.module.parameters()}
        if rest and not can_leave_out_parameters():
            # Sharded layers then gather their parameters themselves.
            assert self._joint is None
            return
        options: dict[str, Any] = {"ignored_params": rest} if rest else {}
        pattern = self._joint or next(one for one in self._gradients if one.sharded)
        # They share streams and buffers from here on.
        fully_shard(self.layers, mesh=pattern.mesh, **pattern.options(dtype), **options)
        for one in self._gradients:
            if one.is_sharded and not one.sharded:
                one.let_add_up(self.layers)
        # Going back, a layer comes before the experts within it.
        gather_ahead(sharded, [module for one in reversed(self._gradients)
                               for module in one.sharded])


def gather_ahead(forward: Sequence[Any], backward: Sequence[Any]) -> None:
    """Lets each sharded module gather the parameters of the next one in a pass, by their orders."""
    for module, following in zip(forward, forward[1:]):
        module.set_modules_to_forward_prefetch([following])
    for module, following in zip(backward, backward[1:]):
        module.set_modules_to_backward_prefetch([following])


def can_leave_out_parameters() -> bool:
    """Returns whether `fully_shard` of a stage can leave out the layers that are not sharded, which
    PyTorch 2.6 cannot."""
    return "ignored_params" in inspect.signature(fully_shard).parameters
