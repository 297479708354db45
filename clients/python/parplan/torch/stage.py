"""A stage of a pipeline as a module: its layers and the moves between their layouts."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from parplan.program import ActivationLayout, StageProgram
from parplan.strategy import Recompute
from parplan.torch.attention import Attention
from parplan.torch.data_parallel import LayerGradients
from parplan.torch.grids import Grids
from parplan.torch.reshard import Move


class Layer(nn.Module):
    """A layer of the plan with its attention and recomputation. Data parallelism is around it."""

    def __init__(self, body: nn.Module, level: Recompute, attention: Attention) -> None:
        super().__init__()
        self.body = body
        self._level = level
        self._attention = attention

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self._level == Recompute.FULL:
            made: torch.Tensor = checkpoint(self._run, hidden, use_reentrant=False)
            return made
        return self._run(hidden)

    def _run(self, hidden: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self._attention.run(self.body, hidden)
        return made


class Stage(nn.Module):
    """Takes activations in the layout of its first layer, and returns them in the layout of the
    next stage's first layer, so that each rank sends to the one at its place there."""

    def __init__(self, program: StageProgram, layers: list[Layer],
                 gradients: list[LayerGradients], following: ActivationLayout | None, rank: int,
                 grids: Grids) -> None:
        """`following` is the layout of the next stage, as if it was on the ranks of this one; None
        for the last stage."""
        super().__init__()
        self.program = program
        self.layers = nn.ModuleList(layers)
        self._layers = layers
        self._gradients = gradients
        self._moves: list[Move | None] = []
        layouts = [layer.layout for layer in program.layers]
        for source, target in zip(layouts, [*layouts[1:], following]):
            moves = target is not None and not source.is_same_as(target)
            self._moves.append(Move(source, target, rank, grids.stage)
                               if moves and target is not None else None)

    @property
    def bodies(self) -> list[nn.Module]:
        """The modules of the model, in order."""
        return [layer.body for layer in self._layers]

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for layer, move in zip(self.layers, self._moves):
            hidden = layer(hidden)
            if move is not None:
                hidden = move(hidden)
        return hidden

    def begin_backward(self, is_last: bool) -> None:
        """Called before each backward pass of a micro-batch; `is_last` for the last of a step."""
        for one in self._gradients:
            one.begin_backward(is_last)

    def finish(self, done: set[int]) -> None:
        """Brings the gradients of a step together. `done` as in LayerGradients.finish."""
        for one in self._gradients:
            one.finish(done)
