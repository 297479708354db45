"""The losses of a rank's shares of a step, weighed so that their sum over ranks and micro-batches is
the loss of the whole batch.

A mean over targets weighs each share by the number of its targets. Targets of -100 count for nothing,
as torch's cross entropy has it, so that shares with more of them weigh less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from parplan.errors import Error, field_error

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# "mean", "sum", or a function from targets to their weight in a mean.
Reduction = str | Callable[[torch.Tensor], Any]

IGNORED = -100
# Values that the check of a loss function looks at, at most.
_CHECKED_VALUES = 1 << 22
# Half of the tokens that are asked where ranks share them, at most. Two halves lack one pair of the
# whole, which among thousands of tokens is below the tolerance. Not measured for other values.
_HALF = 4
# The namespaces in which PyTorch dispatches collectives.
_COLLECTIVES = ("c10d::", "_c10d_functional::")


class Losses:
    """The losses of one rank. Used by one thread."""

    def __init__(self, loss_fn: LossFunction, reduction: Reduction, part_count: int,
                 splits_tokens: bool = False) -> None:
        """`part_count` shares make a step; with `splits_tokens` they have parts of the tokens of a
        sample. Raises SpecInvalid naming a reduction that is none."""
        if not callable(reduction) and reduction not in ("mean", "sum"):
            raise field_error("SPEC_INVALID", "reduction", f"{reduction} is not known; known are "
                              "mean, sum, and a function from targets to their weight in the mean")
        self._loss_fn, self._reduction, self._part_count = loss_fn, reduction, part_count
        self._splits_tokens = splits_tokens
        # The factor of each share; None if all are equal.
        self._factors: list[float] | None = None
        # Whether each share has targets that count for nothing; empty if that is not known.
        self._masked: list[bool] = []
        # Whether the loss function was checked, and with targets that count for nothing.
        self._checked: set[bool] = set()
        self._was_called = False

    def begin_step(self, whole: torch.Tensor, shares: Sequence[torch.Tensor]) -> None:
        """Takes the targets of the whole batch, and of each micro-batch those of this rank. Waits
        for a GPU if they are there."""
        self._factors, self._masked = None, []
        if self._reduction == "sum" or not shares or not self._counts(whole):
            return
        total, *own = torch.stack([self._weight(one) for one in (whole, *shares)]).tolist()
        if not callable(self._reduction):
            self._masked = [count < one.numel() for count, one in zip(own, shares)]
        if total > 0:
            self._factors = [one / total for one in own]

    @property
    def share(self) -> float | None:
        """The part of the batch that this rank has the losses of; None if it was not counted."""
        return None if self._factors is None else sum(self._factors)

    def of_part(self, output: torch.Tensor, target: torch.Tensor, number: int) -> torch.Tensor:
        """Returns the loss of a share, the `number`-th micro-batch, as a summand of that of the
        step. Raises SpecInvalid if the loss function turns out not to be what `reduction` says, or
        calls a collective the first time."""
        self._check(output, target, number)
        if self._reduction == "sum":
            return self._call(output, target)
        if self._factors is None:
            return self._call(output, target) / self._part_count
        factor = self._factors[number]
        if factor == 0:
            # The mean of nothing is no number, and gradients still go through all layers.
            return output.flatten()[:1].sum() * 0.0
        if factor * self._part_count == 1:
            return self._call(output, target) / self._part_count
        return self._call(output, target) * factor

    def _call(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Returns what the loss function returns. Up to its first return on this rank it must make
        no collective, which would wait for ranks that have other shares or none."""
        if self._was_called or not _is_plain(output):
            return self._loss_fn(output, target)
        with _NoCollectives():  # type: ignore[no-untyped-call,unused-ignore]
            loss = self._loss_fn(output, target)
        # One that takes whole shares alone has failed before with parts of them.
        self._was_called = True
        return loss

    def _counts(self, targets: torch.Tensor) -> bool:
        """Returns whether targets are counted. Tensors without contents are not."""
        if type(targets) is not torch.Tensor or targets.is_meta:
            return False
        return callable(self._reduction) or not targets.is_floating_point()

    def _weight(self, targets: torch.Tensor) -> torch.Tensor:
        if callable(self._reduction):
            weight = self._reduction(targets)
        elif targets.is_floating_point():
            weight = len(targets)
        else:
            weight = (targets != IGNORED).sum()
        return torch.as_tensor(weight).detach().double()

    def _check(self, output: torch.Tensor, target: torch.Tensor, number: int) -> None:
        """Compares the loss of two samples with those of each, on few of their tokens: at the first
        share, and at the first that has targets that count for nothing."""
        is_masked = bool(self._masked) and self._masked[number]
        if is_masked in self._checked or not _is_plain(output):
            return
        if output.dim() > 1 and output.shape[0] == target.shape[0]:
            with torch.no_grad():
                # First: it says of a sum or of weights what to do.
                self._compare(*_two_samples(output.detach(), target, is_masked))
                if self._splits_tokens and not self._checked:
                    self._compare_halves(output.detach(), target)
        # One that was refused is checked again.
        self._checked.add(is_masked)

    def _compare(self, output: torch.Tensor, target: torch.Tensor) -> None:
        found = self._other_than_parts(
            [(output, target), (output[:1], target[:1]), (output[1:], target[1:])], (2, 1, 1))
        if found is None:
            return
        (both, one, other), tolerance = found
        if self._reduction == "sum":
            why = "give reduction=\"mean\" if it is their mean"
        elif abs(both - one - other) <= tolerance * (abs(one) + abs(other)):
            why = "it is a sum, so give reduction=\"sum\""
        else:
            why = ("give `reduction` a function that returns the weight of targets in it, such as "
                   "lambda targets: class_weights[targets].sum(), or return the mean over targets "
                   "that are not -100")
        kind = ("mean by the weights of `reduction`" if callable(self._reduction)
                else f"{self._reduction} over targets")
        raise field_error("SPEC_INVALID", "loss_fn",
                          f"the loss of the last layer is no {kind}: for two samples it returns "
                          f"{both:.6g}, and for each of them {one:.6g} and {other:.6g}; {why}")

    def _compare_halves(self, output: torch.Tensor, target: torch.Tensor) -> None:
        """Raises SpecInvalid for a loss that pairs tokens of a sample, as one that shifts targets
        within it: ranks have parts of the tokens."""
        if output.dim() < 3 or target.dim() < 2 or output.shape[1] != target.shape[1]:
            return
        half = min(output.shape[1] // 2, _HALF)
        if half == 0:
            return
        begin = min(_first_counted(target[:1]), output.shape[1] - 2 * half)
        places = [slice(begin + first * half, begin + end * half)
                  for first, end in ((0, 2), (0, 1), (1, 2))]
        # In 16 bits the missing pair would be below the tolerance.
        wide = torch.promote_types(output.dtype, torch.float32)
        found = self._other_than_parts(
            [(output[:1, one].to(wide), target[:1, one]) for one in places], (2, 1, 1))
        if found is None:
            return
        (both, one, other), _ = found
        raise field_error("SPEC_INVALID", "loss_fn", "ranks share the tokens of the last layer, and "
                          f"its loss is not that of single tokens: for {2 * half} tokens of a sample "
                          f"it returns {both:.6g}, and for either half {one:.6g} and {other:.6g}; "
                          "shift targets before `run.step`, and not within the loss, or plan the "
                          "last layer without context parallelism")

    def _other_than_parts(self, parts: Sequence[tuple[torch.Tensor, torch.Tensor]],
                          sizes: Sequence[int]) -> tuple[list[float], float] | None:
        """Returns the losses of a whole and its two parts, with the tolerance, unless that of the
        whole is that of the parts by their weights; `sizes` are weights of targets that nothing
        counts. None also for a loss function that takes whole shares alone."""
        is_exact = parts[0][0].dtype in (torch.float32, torch.float64)
        losses, summands = [], []
        try:
            for (output, target), size in zip(parts, sizes):
                weight = 1.0
                if self._reduction != "sum":
                    is_counted = callable(self._reduction) or not target.is_floating_point()
                    weight = float(self._weight(target)) if is_counted else float(size)
                loss = torch.zeros(()) if weight == 0 else self._call(output, target)
                is_exact = is_exact and loss.dtype in (torch.float32, torch.float64)
                losses.append(float(loss))
                summands.append(float(loss) * weight)
        except Error:
            raise
        except Exception:
            return None
        tolerance = 1e-4 if is_exact else 3e-2
        together, first, second = summands
        # Also if it is not a number.
        if not abs(together - first - second) > tolerance * (abs(first) + abs(second)):
            return None
        return losses, tolerance


class _NoCollectives(TorchDispatchMode):  # type: ignore[no-untyped-call,unused-ignore]
    """Refuses collectives before they begin."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        name = function._schema.name
        if name.startswith(_COLLECTIVES) and not name.endswith("wait_tensor"):
            raise field_error(
                "SPEC_INVALID", "loss_fn", f"calls the collective {name.partition('::')[2]}: ranks "
                "call a loss as often as they have shares with targets, and once more with parts of "
                "them, so others would wait for ever; return the loss of the share alone, and "
                "exchange numbers behind `run.step`, which returns the loss of the whole batch")
        return function(*args, **(kwargs or {}))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor has contents and is all there: it is no DTensor."""
    return type(tensor) is torch.Tensor and not tensor.is_meta


def _two_samples(output: torch.Tensor, target: torch.Tensor,
                 is_masked: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns two samples and their targets, or one of them twice, with a few of their tokens. If
    `is_masked` other numbers of their targets count."""
    output, target = output[:2], target[:2]
    if output.dim() > 2 and target.dim() > 1 and output.shape[1] == target.shape[1]:
        count = max(_CHECKED_VALUES // max(output[:, 0].numel(), 1), 2)
        begin = _first_counted(target)
        output, target = output[:, begin:begin + count], target[:, begin:begin + count]
    if len(target) == 1:
        output, target = torch.cat([output, output]), torch.cat([target, target])
    if is_masked and target.dim() > 1:
        target = target.clone()
        target[1, target.shape[1] // 2:] = IGNORED
    return output, target


def _first_counted(target: torch.Tensor) -> int:
    """Returns the first token with a target that counts in one of the samples; 0 without any."""
    counts = torch.ones_like(target) if target.is_floating_point() else target != IGNORED
    has = counts.flatten(2).any(-1) if counts.dim() > 2 else counts
    return int(has.any(0).int().argmax())
