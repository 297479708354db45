"""The passes of a step: alone, or through torch's pipeline schedules in the order of the plan."""

from __future__ import annotations

import csv
import inspect
import pathlib
import re
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (PipelineScheduleMulti,
                                                    _PipelineScheduleRuntime)

from parplan.plan import Plan
from parplan.program import ActivationLayout, StageProgram
from parplan.strategy import Schedule
from parplan.torch.grids import Grids
from parplan.torch.spans import span
from parplan.torch.stage import Stage

# A loss takes an output, its targets and the number of the micro-batch.
LossOfPart = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
# torch's schedules wrap what a stage raises, such as a refusal, in an error that tells its arguments.
_WRAPPED = re.compile(r"\s*\[Stage \d+\] failed to run")


class _Stage(PipelineStage):
    """A stage of torch's that says before each backward pass whether it is the last. The last stage
    returns losses: torch holds on to what a stage returns, which would be logits."""

    def __init__(self, stage: Stage, plan: Plan, loss_of_part: LossOfPart, *args: Any,
                 **kwargs: Any) -> None:
        super().__init__(stage, stage.program.stage_index, len(plan.stages), *args, **kwargs)
        self._stage = stage
        self._loss_of_part = loss_of_part
        self._last_micro_batch = plan.micro_batch_count - 1
        self._splits_backward = plan.schedule == Schedule.ZERO_BUBBLE
        self._micro_batch = 0
        # One entry for each micro-batch; the last stage reads them.
        self.targets: Sequence[torch.Tensor] = ()

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        self._micro_batch = fwd_chunk_id
        with span(f"{self.stage_index}F{fwd_chunk_id}"):
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def forward_maybe_with_nosync(self, *args: Any, **kwargs: Any) -> Any:
        run: Any = super().forward_maybe_with_nosync
        made = run(*args, **kwargs)
        if not self.is_last:
            # The first part of a split backward pass detaches it in place, which a view refuses.
            return made.clone() if self._splits_backward and made._is_view() else made
        # torch puts what micro-batches return side by side, and PyTorch 2.6 detaches it in place,
        # which a view refuses.
        number = self._micro_batch
        return torch.stack([self._loss_of_part(made, self.targets[number], number)])

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        self._stage.begin_backward(bwd_chunk_id == self._last_micro_batch)
        with span(f"{self.stage_index}{'I' if self._splits_backward else 'B'}{bwd_chunk_id}"):
            return super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        with span(f"{self.stage_index}W{bwd_chunk_id}"):
            return super().backward_weight_one_chunk(bwd_chunk_id, *args, **kwargs)

    # The loss is sent to no rank. The names are those of PyTorch 2.15 and 2.6.

    def _validate_stage_tensors(self, desc: str, expected: Any, actual: Any) -> None:
        if not (self.is_last and "output" in desc.lower()):
            super()._validate_stage_tensors(desc, expected, actual)

    def _validate_fwd_outputs(self, outputs: Any) -> None:
        if not self.is_last:
            super()._validate_fwd_outputs(outputs)  # type: ignore[misc]


class Alone:
    """All stages on the ranks of one: micro-batch by micro-batch."""

    def __init__(self, stages: Sequence[Stage], loss_of_part: LossOfPart) -> None:
        self._stages = stages
        self._loss_of_part = loss_of_part

    def step(self, inputs: list[torch.Tensor], targets: list[torch.Tensor]) -> list[torch.Tensor]:
        losses = []
        for number, (one, target) in enumerate(zip(inputs, targets)):
            hidden = one
            for stage in self._stages:
                with span(f"{stage.program.stage_index}F{number}"):
                    hidden = stage(hidden)
            loss = self._loss_of_part(hidden, target, number)
            # What the backward pass needs of it is saved in the graph.
            hidden = one
            for stage in self._stages:
                stage.begin_backward(number + 1 == len(inputs))
            # Autograd goes through all stages at once.
            with span(f"{'+'.join(str(one.program.stage_index) for one in self._stages)}B{number}"):
                torch.autograd.backward(loss)
            losses.append(loss.detach())
        return losses


class Pipelined:
    """Stages on several ranks, in the plan's order of passes, run by torch."""

    def __init__(self, plan: Plan, stages: Sequence[Stage], grids: Grids,
                 loss_of_part: LossOfPart, device: torch.device, dtype: torch.dtype,
                 sample: torch.Tensor) -> None:
        """`dtype` is that of activations; `sample` is like one of the inputs."""
        self._is_first = stages[0].program.stage_index == 0
        self._is_last = stages[-1].program.stage_index + 1 == len(plan.stages)
        hidden_size = plan.model.layer_definitions[0].hidden_size

        def example(layout: ActivationLayout, width: int) -> torch.Tensor:
            # Gradients are sent for what requires them.
            return torch.empty((layout.samples_per_rank, layout.tokens_per_sample, width),
                               dtype=dtype, device="meta", requires_grad=True)

        made = []
        for stage in stages:
            index = stage.program.stage_index
            first = stage.program.layers[0].layout
            given = example(first, hidden_size)
            if index == 0:
                shape = ((_tokens_of(first),) if sample.dim() == 1 else tuple(sample.shape))
                given = torch.empty((first.samples_per_rank, *shape), dtype=sample.dtype,
                                    device="meta")
            following = layout_after(plan, stage.program)
            returned = (example(following, hidden_size) if following is not None
                        else torch.empty(1, device="meta", requires_grad=True))
            made.append(_Stage(stage, plan, loss_of_part, device, input_args=given,
                               output_args=returned, group=grids.pipeline.get_group()))
        # Gradients are those of a loss that was divided; PyTorch 2.6 never scales them.
        parameters = inspect.signature(PipelineScheduleMulti.__init__).parameters
        options: dict[str, Any] = {"scale_grads": False} if "scale_grads" in parameters else {}
        self._schedule: Any = _PipelineScheduleRuntime(  # type: ignore[no-untyped-call]
            made, n_microbatches=plan.micro_batch_count, loss_fn=_loss_of, **options)
        # PyTorch 2.6 has no such option, and returns the losses.
        self._options: dict[str, Any] = {}
        if "return_outputs" in inspect.signature(self._schedule.step).parameters:
            self._options["return_outputs"] = False
        self._last_stage = made[-1] if self._is_last else None
        self._load(plan)

    def step(self, inputs: list[torch.Tensor], targets: list[torch.Tensor]) -> list[torch.Tensor]:
        losses: list[torch.Tensor] = []
        arguments = [torch.cat(inputs)] if self._is_first else []
        options = dict(self._options)
        if self._last_stage is not None:
            self._last_stage.targets = targets
            # torch asks for targets of a whole batch, and for a loss function of them.
            options |= {"target": torch.empty(len(targets)), "losses": losses}
        try:
            self._schedule.step(*arguments, **options)
        except RuntimeError as error:
            cause = error.__cause__
            if cause is not None and _WRAPPED.match(str(error)):
                raise cause
            raise
        return [loss.detach() for loss in losses]

    def _load(self, plan: Plan) -> None:
        per_place = plan.device_count // plan.pipeline_parallel_degree
        rows = [[f"{one.stage_index}{one.kind.value}{one.micro_batch}"
                 for one in plan.rank(place * per_place).passes]
                for place in range(plan.pipeline_parallel_degree)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "passes.csv")
            with open(path, "w", newline="") as file:
                csv.writer(file).writerows(rows)
            self._schedule._load_csv(str(path))


def _loss_of(output: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    # The sum of one number is no view: the first part of a split backward pass detaches it in
    # place, which PyTorch refuses for views.
    return output.sum()


def layout_after(plan: Plan, program: StageProgram) -> ActivationLayout | None:
    """Returns the layout of the next stage's first layer, as if it was on the ranks of this one;
    None for the last stage."""
    if program.stage_index + 1 == len(plan.stages):
        return None
    layer = plan.stages[program.stage_index + 1].layers[0]
    here = program.layers[-1].layout
    return ActivationLayout(here.first_rank, layer.strategy, here.sample_count, here.token_count)


def _tokens_of(layout: ActivationLayout) -> int:
    """Returns the number of tokens of a sample that a rank has, before tensor-parallel ranks share
    them."""
    return layout.token_count // layout.strategy.context_parallel_degree
