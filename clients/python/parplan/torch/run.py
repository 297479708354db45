"""A training job under a plan: `apply` spreads a model, `Run.step` trains it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from parplan.client import Client
from parplan.errors import Error, field_error
from parplan.plan import Plan
from parplan.torch import checkpoint
from parplan.torch.attention import tokens_of
from parplan.torch.failures import Failure, Failures, RunFailed, failures_of_job, text_of
from parplan.torch.grids import Grids
from parplan.torch.heap import keep_freed_memory
from parplan.torch.layers import find_layers
from parplan.torch.losses import LossFunction, Losses, Reduction
from parplan.torch.parts import whole_of
from parplan.torch.pipeline import Alone, Pipelined
from parplan.torch.precision import dtype_of
from parplan.torch.ranks import add_up, rank_count
from parplan.torch.refusals import (COMPILED, check_compiles, check_plan, check_release,
                                    check_spreads)
from parplan.torch.report import Windows
from parplan.torch.spans import span
from parplan.torch.spread import Spread
from parplan.torch.tensor_parallel import splits_of
from parplan.torch.updates import MakeOptimizer, MakeSchedule, Updates, clip

# Phases of a step: arguments are checked; passes run and gradients are added up; parameters change.
_CHECKING, _PASSING, _UPDATING = range(3)


def apply(plan: Plan, model: nn.Module, loss_fn: LossFunction, *,
          layers: Sequence[nn.Module] | None = None,
          tensor_plan: Mapping[str, Any] | None = None,
          optimizer: MakeOptimizer | None = None,
          schedule: MakeSchedule | None = None,
          max_gradient_norm: float | None = None, precision: str | None = None,
          reduction: Reduction = "mean", compile: bool | None = None, seed: int = 0,
          device: torch.device | str | None = None,
          report_to: str | Client | None = None, window_steps: int = 10) -> Run:
    """Spreads a model over the ranks of the job as `plan` says. Every rank calls this with equal
    values of the model's parameters, or with a model on the meta device, whose layers then get the
    values of `initialize` with `seed`; after torch.distributed.init_process_group, which a plan of
    one device does not need. The model belongs to the Run from then on, and layers of other ranks
    lose their memory.

    `loss_fn` takes the output of the last layer and the targets of the same samples, and returns
    their mean over targets that are not -100 (`reduction` "mean"), their sum ("sum"), or a mean by
    weights, where `reduction` is a function that returns the weight of targets. It is called a few
    times more with parts of two samples, without gradients, to see that it does (losses.py).
    `layers` are the modules of the plan's layers (`find_layers` by default), `tensor_plan` says how
    modules are split (the model's own by default; tensor_parallel.py), by names of styles or styles
    of torch.distributed.tensor.parallel.
    `optimizer` makes an optimizer of a list of tensors, this rank's parts of the parameters; one of
    torch that treats elements one by one. Without it `Run.step` leaves gradients to the caller.
    `schedule` makes a schedule of torch.optim.lr_scheduler of that optimizer; it advances once a
    step. `max_gradient_norm` clips the norm over all parameters of the model. `precision` is
    "bf16", "fp32", or None for the types of the model (precision.py). With `compile` layers run
    through torch.compile from the second step on; by default if the plan was predicted for the
    runtime `torch-compile`. From then on functions with more compiled variants than torch's limit
    raise an error in this process, as a layer does that is also called with other sizes.

    `report_to` is the address of a server or sidecar (`HOST:PORT`, `unix:PATH`), or a client of it:
    rank 0 then reports the steps of all ranks, in windows of `window_steps` (report.py).

    Raises SpecInvalid naming the layer, option or optimizer for what cannot be run exactly,
    TopologyMismatch if the job has another number of ranks than the plan, and RunFailed if messages
    are left in the groups of the job behind a step that failed."""
    if rank_count() != plan.device_count:
        raise field_error("TOPOLOGY_MISMATCH", "device_count",
                          f"the plan is for {plan.device_count} ranks, the job has "
                          f"{rank_count()}; {_how_to_start(plan.device_count)}")
    failures = failures_of_job()
    if failures is not None:
        failures.check()
    found = list(layers) if layers is not None else find_layers(model, plan)
    dtype = dtype_of(precision)
    check_plan(plan, model, found, casts=dtype is not None)
    compiles = plan.payload.runtime_id == COMPILED if compile is None else compile
    if compiles:
        check_compiles(plan)
    if max_gradient_norm is not None and not max_gradient_norm > 0:
        raise field_error("SPEC_INVALID", "max_gradient_norm",
                          f"must be a number above 0, or None; {max_gradient_norm} is not")
    if window_steps < 1:
        raise field_error("SPEC_INVALID", "window_steps", "must be at least 1")
    # Each rank of the last stage has the loss of its share of every micro-batch.
    losses = Losses(loss_fn, reduction,
                    plan.layers[-1].strategy.gradient_degree * plan.micro_batch_count,
                    plan.layers[-1].strategy.context_parallel_degree > 1)
    place = torch.device(device if device is not None else _default_device())
    if place.type == "cpu":
        keep_freed_memory()
    check_release(plan, place)
    splits = splits_of(model, tensor_plan)
    check_spreads(plan, model, found, splits)
    grids = Grids(plan, place.type)
    spread = Spread(plan, model, found, splits, grids, place, dtype, seed)
    updates = Updates(spread.named_parameters(), optimizer, schedule, place)
    windows = Windows(plan, place, report_to, window_steps)
    if failures is not None:
        failures.announce(place.type)
    return Run(plan, spread, updates, windows, losses, max_gradient_norm, place,
               optimizer is not None, failures, compiles)


class Run:
    """One rank's part of the job. Made by `apply`; used by one thread. A context manager that
    closes it."""

    def __init__(self, plan: Plan, spread: Spread, updates: Updates, windows: Windows,
                 losses: Losses, max_gradient_norm: float | None,
                 device: torch.device, has_optimizer: bool,
                 failures: Failures | None, compiles: bool = False) -> None:
        """`has_optimizer` is whether `apply` got one; a rank without parameters makes none."""
        self.plan = plan
        self._spread, self._updates, self._windows = spread, updates, windows
        self._device = device
        self._max_gradient_norm = max_gradient_norm
        self._passes: Alone | Pipelined | None = None
        # This rank's parameters, which stay the same from the first step on.
        self._parameters: list[nn.Parameter] = []
        self._head = plan.layers[-1].strategy
        self._losses = losses
        self._is_first_step = True
        # Whether it was asked if the states that the first step made can be stored.
        self._knows_states = not has_optimizer
        # Whether layers are to be compiled, which the first step is over, whose passes are watched.
        self._compiles = compiles
        self._failures = failures
        self._step_number = 0
        # How far the current step is, and what failed after which the run is not used on.
        self._phase = _CHECKING
        self._failure = ""

    def __enter__(self) -> Run:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and self._failures is not None and not self._failure:
            # Ranks that wait for this one in a step learn why.
            self._failures.tell(error)
        self.close("" if error is None else f"{type(error).__name__}: {error}")

    @property
    def device(self) -> torch.device:
        """The device of this rank's layers."""
        return self._device

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """The optimizer of this rank's parameters; none if `apply` got none."""
        return [] if self._updates.optimizer is None else [self._updates.optimizer]

    @property
    def schedule(self) -> Any:
        """The schedule of the learning rate, or None."""
        return self._updates.schedule

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Trains one step and returns the mean loss, the same on every rank. `inputs` and
        `targets` are those of the whole global batch; a rank uses its own samples of them, the
        numbers of targets that count of all of them, and nothing if it has neither the first nor
        the last layer. Raises SpecInvalid if they have another number of samples or tokens than the
        plan. The first step warns if `save` will refuse the states that it made.

        If a rank fails in a step, each rank raises: that one its own error, one that waits for it
        RankFailed, which names it. Later calls raise RunFailed unless the run is as before the step:
        in a job of one rank until the update begins, and if all ranks refuse inputs and targets."""
        self._check_usable()
        try:
            return self._step(inputs, targets)
        except BaseException as error:
            reason = self._settle(error)
            if reason is None:
                raise
            raise reason from error

    def _step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self._phase = _CHECKING
        self._check(inputs, targets)
        self._phase = _PASSING
        self._windows.begin_step()
        if self._passes is None:
            self._passes = self._make_passes(inputs[0])
            self._parameters = list(self.parameters())
        for parameter in self._parameters:
            parameter.grad = None
        first, last = self.plan.layers[0], self.plan.layers[-1]
        shares = self._shares(targets, last.index)
        self._losses.begin_step(targets, shares)
        losses = self._passes.step(*([one.to(self._device) for one in parts] for parts in (
            self._shares(inputs, first.index), shares)))
        with span("gradients"):
            self._spread.finish()
        total = self._total(losses)
        with span("optimizer"):
            if self._max_gradient_norm is not None:
                clip(self._parameters, self._spread.copies_of, self._max_gradient_norm,
                     self._device)
            self._phase = _UPDATING
            self._updates.step(total)
        if not self._knows_states:
            self._warn_of_states()
        if self._compiles:
            self._compiles = False
            self._spread.compile()
        self._windows.end_step()
        self._step_number += 1
        return total

    def _check_usable(self) -> None:
        if self._failures is not None:
            self._failures.check()
        if self._failure:
            raise RunFailed(self._failure, (
                "apply the plan again and load the last checkpoint" if self._failures is not None
                else "parameters may be half updated; load the last checkpoint"))

    def _settle(self, error: BaseException) -> Error | None:
        """Notes a step that failed. Returns the error to raise instead, or None."""
        reason = None
        if self._failures is None:
            is_as_before = self._phase != _UPDATING
            for parameter in self._parameters:
                parameter.grad = None
        else:
            is_whole, reason = self._failures.settle(Failure(
                self._step_number, error, self._phase != _CHECKING,
                self._spread.grids.message_counts(self.plan)))
            is_as_before = is_whole and self._phase == _CHECKING
        if not is_as_before:
            self._failure = f"step {self._step_number} failed ({text_of(reason or error)})"
        return reason

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yields this rank's parameters, each once, by their names in the model. One that is spread
        over ranks is a DTensor."""
        yield from self._spread.named_parameters()

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yields this rank's parameters, each once."""
        for _, parameter in self.named_parameters():
            yield parameter

    def whole(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the whole of a parameter or of its gradient; `name` is that of `named_parameters`.
        All ranks that have the parameter call this. `DTensor.full_tensor` does the same, but
        PyTorch 2.11 refuses it for matrices whose pieces ranks share, such as GPT-2's of queries,
        keys and values."""
        return whole_of(tensor, self._spread.pieces.get(name))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Stores parameters and the states of optimizer and schedule in a folder that all ranks
        reach. Every rank calls this. Raises SpecInvalid on every rank, and writes nothing, if the
        optimizer or schedule of one has a state that is not stored; `step` warned of it; and
        RunFailed behind a step that failed, as `step` does."""
        self._check_usable()
        checkpoint.save(self.named_parameters(), self._updates, self._spread.pieces, folder)

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Loads what a Run of the same model stored, under this plan or another. Every rank calls
        this. Errors are those of torch.distributed.checkpoint, and SpecInvalid for states of another
        optimizer. A run of one rank whose step failed goes on from there; in a job of several this
        raises RunFailed then."""
        if self._failures is not None:
            self._check_usable()
        checkpoint.load(self.named_parameters(), self._updates, self._spread.pieces, folder)
        self._failure = ""

    def close(self, failure: str = "") -> Any:
        """Reports the steps that were not yet, and how the job ended: well, unless `failure` says
        why not. Every rank calls this, unless the job failed. Returns the `ReportSummary` of rank 0
        if it reports, else None."""
        return self._windows.close(failure or self._failure)

    def _make_passes(self, sample: torch.Tensor) -> Alone | Pipelined:
        if self.plan.pipeline_parallel_degree == 1:
            return Alone(self._spread.stages, self._losses.of_part)
        return Pipelined(self.plan, self._spread.stages, self._spread.grids, self._losses.of_part,
                         self._device, self._spread.activation_type, sample)

    def _warn_of_states(self) -> None:
        """Warns on every rank if `save` will refuse what a rank's optimizer or schedule has, while
        little was trained. A job that saves nothing goes on."""
        self._knows_states = True
        if type(torch.empty(0)) is not torch.Tensor:
            return  # Tensors without contents are not gathered.
        refusal = checkpoint.refusal_of_any(self._updates, self._device)
        if refusal is not None:
            warnings.warn(f"Run.save will refuse to store this job: {refusal.message}",
                          stacklevel=3)

    def _total(self, losses: list[torch.Tensor]) -> torch.Tensor:
        """Returns the loss of the step on every rank."""
        sums = torch.zeros(2, device=self._device, dtype=torch.float32)
        if losses:
            # Ranks that share matrices have the same loss.
            copies = self._head.tensor_parallel_degree
            sums[0] = torch.stack(losses).sum().float() / copies
            if self._losses.share is not None:
                sums[1] = self._losses.share / copies
        add_up(sums)
        # A GPU is asked once, because that waits for it.
        if self._losses.share is not None and (self._is_first_step or sums.device.type == "cpu") \
                and not abs(sums[1].item() - 1.0) < 1e-3:
            raise field_error("SPEC_INVALID", "targets", "ranks got different targets of this step; "
                              "each that has the last layer needs those of the whole global batch, "
                              "to weigh its own")
        self._is_first_step = False
        return sums[0]

    def _check(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        size = self.plan.global_batch_size
        for name, batch in (("inputs", inputs), ("targets", targets)):
            if not isinstance(batch, torch.Tensor):
                raise field_error("SPEC_INVALID", name, f"must be a tensor, not {type(batch).__name__}"
                                  "; of a batch of transformers give batch[\"input_ids\"], and as "
                                  "targets the token that follows each one, or -100")
        if len(inputs) != size or len(targets) != size:
            raise field_error("SPEC_INVALID", "inputs",
                              f"a step has {size} samples, not {len(inputs)} and {len(targets)}; each "
                              "rank gives the whole global batch, and uses its own samples of it")
        tokens = self.plan.model.layer_definitions[0].sequence_length
        if not inputs.is_floating_point() and inputs.dim() == 2 and inputs.shape[1] != tokens:
            raise field_error("SPEC_INVALID", "inputs",
                              f"a sample has {tokens} tokens, not {inputs.shape[1]}")
        for name, batch, layer in (("inputs", inputs, self.plan.layers[0]),
                                   ("targets", targets, self.plan.layers[-1])):
            tokens = self.plan.definition(layer.index).sequence_length
            # Ranks would take their tokens of the first ones.
            if layer.strategy.context_parallel_degree > 1 and (
                    batch.dim() < 2 or batch.shape[1] != tokens):
                raise field_error(
                    "SPEC_INVALID", name, f"ranks share the tokens of layer {layer.index}, so "
                    f"they are [samples, {tokens}, ...] there, not {list(batch.shape)}; pad or cut "
                    f"samples to {tokens} tokens, with targets of -100 where they are padded, or "
                    "plan the layer without context parallelism")

    def _shares(self, batch: torch.Tensor, layer: int) -> list[torch.Tensor]:
        """Returns this rank's samples and tokens of each micro-batch in the layout of a layer;
        nothing if the layer is elsewhere."""
        program = self._spread.program_of(layer)
        if program is None:
            return []
        layout, rank = program.layout, self._spread.rank
        mine = layout.samples_of(rank)
        parts = [one[mine.begin:mine.end]
                 for one in torch.split(batch, self.plan.contents.micro_batch_size)]
        if layout.strategy.context_parallel_degree > 1:
            tokens = tokens_of(layout.strategy, layout.first_rank, rank, layout.token_count)
            parts = [part[:, tokens] for part in parts]
        return parts


def _how_to_start(count: int) -> str:
    """Returns what to do for a job of as many ranks as a plan has."""
    if count > 1 and not dist.is_initialized():
        return (f"start {count} processes (torchrun --nproc-per-node ...), and call "
                "torch.distributed.init_process_group in each before `apply`")
    return "start as many processes, or plan for the devices of this job"


def _default_device() -> str:
    """Returns the GPU that the program chose or, if it chose none, that of the number that torchrun
    gives each process of a node. Without it all of them would be on the first."""
    if not torch.cuda.is_available():
        return "cpu"
    chosen = torch.cuda.current_device()
    local_rank = os.environ.get("LOCAL_RANK", "")
    # A process that sees its own GPU alone has no other to choose.
    if chosen == 0 and local_rank.isdigit() and int(local_rank) < torch.cuda.device_count():
        chosen = int(local_rank)
        torch.cuda.set_device(chosen)
    return f"cuda:{chosen}"
