"""`parplan-torch trace PLAN`: a measured step beside the predicted one."""

from __future__ import annotations

import argparse
import datetime
import functools
import io
import json
import os
import pathlib
import pickle
import sys
import tempfile
from typing import Any

from parplan.errors import Error, field_error
from parplan.torch.command.errors import report_error

_PATIENCE = datetime.timedelta(seconds=600)
_WARM_UPS = 2


def add_command(commands: Any) -> None:
    """Adds the command to the subparsers of `parplan-torch`."""
    trace = commands.add_parser(
        "trace", help="measure a step of a plan and write it beside the predicted one",
        description="Trains some steps of a plan on random inputs and writes one as a trace of "
        "Chrome and Perfetto. Started by torchrun on all ranks of the plan it runs on their "
        "devices; started alone it starts a process for each rank on this machine's processors.")
    trace.set_defaults(run=run)
    trace.add_argument("plan", metavar="PLAN", help="signed plan (DSSE, JSON)")
    trace.add_argument("--trust", required=True, metavar="FILE", help="trust bundle (JWKS)")
    trace.add_argument("--spec", required=True, metavar="FILE", help="model file of the plan")
    trace.add_argument("--cluster", required=True, metavar="FILE", help="cluster file of the plan")
    trace.add_argument("--model", required=True, metavar="MODEL",
                       help="hf:config.json, or module:callable, as of check")
    trace.add_argument("--layers", nargs="+", default=[], metavar="GLOB",
                       help="names of the layers in the order of the plan, as of check [found]")
    trace.add_argument("--job", default="", metavar="ID", help="refuse plans for another job")
    trace.add_argument("--tensor-plan", default="", metavar="FILE",
                       help="JSON object from patterns of names to styles [the model's own]")
    trace.add_argument("--loss", default="", metavar="MODULE:CALLABLE",
                       help="loss of an output and its targets, a mean [cross entropy]")
    trace.add_argument("--inputs", default="", metavar="MODULE:CALLABLE",
                       help="inputs and targets, as of check [random tokens, or images]")
    trace.add_argument("--steps", type=_positive, default=5, metavar="N",
                       help="steps to measure; the one of median time is written [5]")
    trace.add_argument("--max-ranks", type=_positive, default=8, metavar="N",
                       help="processes to start on this machine at most [8]")
    trace.add_argument("--predicted", default="", metavar="FILE",
                       help="trace of planctl trace, to put beside the measured step")
    trace.add_argument("--out", required=True, metavar="FILE", help="trace to write")
    trace.add_argument("--format", choices=("text", "json"), default="text",
                       help="of the result on standard output [text]")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def run(options: argparse.Namespace) -> int:
    """Runs the command and returns its exit code."""
    try:
        return _trace(options)
    except (Error, OSError) as error:
        return report_error(error, options.format == "json")


def _trace(options: argparse.Namespace) -> int:
    # Modules of the working directory, as `python -m` finds them.
    sys.path.insert(0, "")
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        import torch
        import torch.distributed as dist
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group(timeout=_PATIENCE)
        _report(_measure(options), options)
        dist.destroy_process_group()
        return 0
    plan = _plan(options)
    if plan.device_count > options.max_ranks:
        raise field_error("SPEC_INVALID", "--max-ranks",
                          f"the plan has {plan.device_count} ranks; start them with torchrun, or "
                          "allow as many processes here")
    from parplan.torch.check.numerics import start_processes
    with tempfile.TemporaryDirectory() as folder:
        start_processes(_rank, (plan.device_count, folder, options_of(options)), plan.device_count)
        found = [pathlib.Path(folder, f"found{rank}") for rank in range(plan.device_count)]
        results: list[Any] = [
            pickle.loads(path.read_bytes()) if path.exists() else None for path in found]
    for result in results:
        if isinstance(result, Exception):
            raise result
    if None in results:
        print(f"parplan-torch: rank {results.index(None)} ended without a result", file=sys.stderr)
        return 1
    _report(results[0][0], options)
    return 0


def options_of(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options in a form that goes to other processes."""
    return {name: value for name, value in vars(options).items() if name != "run"}


def _rank(rank: int, count: int, folder: str, options: dict[str, Any]) -> None:
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                            world_size=count, timeout=_PATIENCE)
    place = pathlib.Path(folder, f"found{rank}")
    try:
        # In a list: other ranks than the first have no result.
        place.write_bytes(pickle.dumps([_measure(argparse.Namespace(**options))]))
    except Exception as error:
        place.write_bytes(pickle.dumps(error))
        raise
    dist.barrier()
    dist.destroy_process_group()


def _plan(options: argparse.Namespace) -> Any:
    from parplan.plan import Plan
    return Plan.load_files(options.plan, options.trust, options.spec, options.cluster,
                           job_id=options.job)


def _measure(options: argparse.Namespace) -> Any:
    """Returns what rank 0 measured, and None on other ranks."""
    import torch

    from parplan.torch.check.command import read_tensor_plan
    from parplan.torch.check.models import Source
    from parplan.torch.check.steps import dtype_of
    from parplan.torch.command.progress import Progress
    from parplan.torch.measure.optimizers import OPTIMIZERS
    from parplan.torch.run import apply
    from parplan.torch.trace.record import record
    from parplan.wire import messages

    plan = _plan(options)
    source = Source(options.model, options.loss, options.inputs, tuple(options.layers))
    dtype = dtype_of(plan)
    # Profiles measure layers so: parameters have 32 bits, and each pass makes copies of 16.
    precision = "bf16" if dtype == torch.bfloat16 else None
    torch.manual_seed(1)
    # A table that two layers share must have values.
    with torch.device("cpu" if plan.has_tied_table else "meta"):
        model = source.whole(plan.model, dtype)
    name = messages.enum_name("Optimizer", plan.model.optimizer)
    if name not in OPTIMIZERS:
        raise field_error("SPEC_INVALID", "--spec", f"{name} is not known to this release")
    device = "cpu" if torch.distributed.get_backend() == "gloo" else None
    optimizer: Any = OPTIMIZERS[name]
    if device is None and torch.cuda.is_available():
        # Profiles measure the fused one there (measure/optimizers.py).
        optimizer = functools.partial(optimizer, fused=True)
    started = apply(plan, model, source.loss_function(), optimizer=optimizer, seed=1,
                    tensor_plan=read_tensor_plan(options.tensor_plan), device=device,
                    layers=source.layers_in(model, plan), precision=precision)
    inputs, targets = source.batch(plan, 0)
    # Other ranks show nothing.
    progress = Progress(_WARM_UPS + options.steps,
                        None if torch.distributed.get_rank() == 0 else io.StringIO())
    try:
        return record(started, inputs, targets, options.out, predicted=options.predicted or None,
                      steps=options.steps, warm_ups=_WARM_UPS, begin=progress.begin)
    finally:
        progress.end()


def _report(measured: Any, options: argparse.Namespace) -> None:
    if measured is None:
        return
    from parplan.torch.trace.record import differences
    found = differences(measured, options.predicted or None)
    if options.format == "json":
        print(json.dumps({
            "trace": options.out, "step_seconds": measured.step,
            "spans": [{"name": one.name, "measured_seconds": one.measured,
                       "predicted_seconds": one.predicted} for one in found]}, indent=2))
        return
    print(f"{'span':<12} {'measured':>12} {'predicted':>12}")
    for one in found:
        predicted = "" if one.predicted is None else f"{one.predicted * 1e3:.3f} ms"
        print(f"{one.name:<12} {one.measured * 1e3:>9.3f} ms {predicted:>12}")
    print(f"wrote {options.out}")
