"""Measures a step on every rank and writes it as one file."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from parplan.errors import field_error
from parplan.torch.ranks import gather_objects, this_rank, wait_for_all
from parplan.torch.run import Run
from parplan.torch.spans import Recorder, Span, span

# Processes of a trace; planctl writes the first.
PREDICTED, MEASURED = 1, 2
_PASS = re.compile(r"([0-9+]+)([FBIW])[0-9]+")
_CATEGORIES = {"F": "forward", "B": "backward", "I": "backward", "W": "backward"}


@dataclasses.dataclass(frozen=True)
class Measured:
    """The spans of each rank in the step whose time is the median of those measured, and that time
    in seconds: from when all ranks were ready to the end of the last."""
    ranks: tuple[tuple[Span, ...], ...]
    step: float


@dataclasses.dataclass(frozen=True)
class Difference:
    """What a name of spans takes, in seconds: `1F` for a forward pass of stage 1, the mean over
    micro-batches of the median over ranks. `predicted` is None if no prediction has it."""
    name: str
    measured: float
    predicted: float | None


def record(run: Run, inputs: torch.Tensor, targets: torch.Tensor, path: str | os.PathLike[str], *,
           predicted: str | os.PathLike[str] | None = None, steps: int = 5,
           warm_ups: int = 2, begin: Callable[[str], None] = lambda _: None) -> Measured | None:
    """Trains `warm_ups` and `steps` steps of one batch, and writes the step whose time is their
    median to `path`, with the trace of `planctl trace` in `predicted` beside it. Every rank calls
    this; rank 0 writes and returns the result, others return None. `begin` is told of each step.
    Raises SpecInvalid on rank 0 if `predicted` is no trace, and OSError."""
    # A rank may have layers without parameters.
    device = run.device
    other = _read_trace(predicted) if predicted is not None and this_rank() == 0 else None
    own: list[tuple[Span, ...]] = []
    for number in range(warm_ups + steps):
        begin("warm-up" if number < warm_ups else f"step {number - warm_ups + 1} of {steps}")
        # Ranks have clocks of their own, which begin here.
        wait_for_all()
        recorder = Recorder(device)
        with recorder, span("step"):
            run.step(inputs, targets)
        if number >= warm_ups:
            own.append(tuple(recorder.spans))
    gathered = gather_objects(own)
    if this_rank() != 0:
        return None
    times = [max(_end(rank[number]) for rank in gathered) for number in range(steps)]
    chosen = sorted(range(steps), key=times.__getitem__)[steps // 2]
    measured = Measured(tuple(rank[chosen] for rank in gathered), times[chosen] / 1e6)
    document = _document(run, measured, other)
    pathlib.Path(path).write_text(json.dumps(document, allow_nan=False) + "\n")
    return measured


def differences(measured: Measured, predicted: str | os.PathLike[str] | None) -> list[Difference]:
    """Returns where a measured step and the trace of a predicted one part, by names of spans."""
    ours = _means([[(one.name, one.duration) for one in rank] for rank in measured.ranks])
    theirs: dict[str, float] = {}
    if predicted is not None:
        events = [one for one in _read_trace(predicted)["traceEvents"]
                  if one.get("ph") == "X" and one.get("pid") == PREDICTED]
        rows = dict.fromkeys(one.get("tid") for one in events)
        theirs = _means([[(str(one["name"]), float(one["dur"])) for one in events
                          if one.get("tid") == row] for row in rows])
    return [Difference(name, ours[name] / 1e6, theirs[name] / 1e6 if name in theirs else None)
            for name in sorted(ours, key=_order)]


def _means(rows: Sequence[Sequence[tuple[str, float]]]) -> dict[str, float]:
    """Returns the median over rows of the mean over spans with the same name, whatever their
    micro-batch."""
    found: dict[str, list[float]] = {}
    for row in rows:
        of_row: dict[str, list[float]] = {}
        for name, duration in row:
            of_row.setdefault(_without_micro_batch(name), []).append(duration)
        for name, durations in of_row.items():
            found.setdefault(name, []).append(statistics.fmean(durations))
    return {name: statistics.median(durations) for name, durations in found.items()}


def _without_micro_batch(name: str) -> str:
    matched = _PASS.fullmatch(name)
    return matched[1] + matched[2] if matched else name


def _order(name: str) -> tuple[int, int, str]:
    if name[-1:] in _CATEGORIES and name[:1].isdigit():
        return 0, int(re.split(r"[+FBIW]", name)[0]), str("FBIW".index(name[-1]))
    return 1, 0, name


def _end(spans: Sequence[Span]) -> float:
    return max(one.start + one.duration for one in spans)


def _document(run: Run, measured: Measured, other: Any) -> dict[str, Any]:
    """Returns the trace: microseconds, a row for each rank in a process of its own."""
    events: list[dict[str, Any]] = list(other["traceEvents"]) if other is not None else []
    events += [_metadata("process_name", 0, {"name": "measured"}),
               _metadata("process_sort_index", 0, {"sort_index": MEASURED})]
    for rank, spans in enumerate(measured.ranks):
        # The row above is for the whole step, as in predicted traces.
        events += [_metadata("thread_name", rank + 1, {"name": f"rank {rank}"}),
                   _metadata("thread_sort_index", rank + 1, {"sort_index": rank + 1})]
        events += [_event(one, rank + 1) for one in spans]
    facts: dict[str, Any] = dict(other.get("otherData", {})) if other is not None else {}
    facts.update(plan=run.plan.name, measured_step_seconds=measured.step,
                 torch=torch.__version__)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": facts}


def _metadata(name: str, row: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": MEASURED, "tid": row, "args": arguments}


def _event(one: Span, row: int) -> dict[str, Any]:
    made: dict[str, Any] = {"ph": "X", "name": one.name, "cat": one.name, "pid": MEASURED,
                            "tid": row, "ts": one.start, "dur": one.duration}
    matched = _PASS.fullmatch(one.name)
    if matched:
        made["cat"] = _CATEGORIES[matched[2]]
        made["args"] = {"stage": int(matched[1].split("+")[-1]),
                        "micro_batch": int(one.name.partition(matched[2])[2])}
    return made


def _read_trace(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns a trace in a file. Raises SpecInvalid if its events are none of planctl's."""
    name = os.fspath(path)
    try:
        document = json.loads(pathlib.Path(path).read_bytes())
    except ValueError:
        document = None
    events = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(events, list) or not all(
            isinstance(one, dict) and {"ph", "name", "pid"} <= one.keys() for one in events):
        raise field_error("SPEC_INVALID", name, "is no trace; write it with planctl trace")
    found: dict[str, Any] = document
    return found
