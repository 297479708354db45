"""`parplan-torch check PLAN`: a plan on processors before it gets GPUs."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from typing import Any

from parplan.errors import Error, field_error
from parplan.torch.command.errors import CHECK_FAILED, PASSED, report_error


def add_command(commands: Any) -> None:
    """Adds the command to the subparsers of `parplan-torch`."""
    check = commands.add_parser(
        "check", help="run a small copy of a plan on processors and compare it with one process",
        description="Runs a small copy of a plan on processes of this machine, compares the loss "
        "and every gradient with one process, and counts the collectives of a step of the whole "
        "plan against those that the cost model prices. Exit code 0 if all are equal, 8 if not, 2 "
        "for wrong arguments or files and plans that PyTorch cannot run, 5 for plans that are not "
        "verified.")
    check.set_defaults(run=run)
    check.add_argument("plan", metavar="PLAN", help="signed plan (DSSE, JSON)")
    check.add_argument("--trust", required=True, metavar="FILE", help="trust bundle (JWKS)")
    check.add_argument("--spec", required=True, metavar="FILE", help="model file of the plan")
    check.add_argument("--cluster", required=True, metavar="FILE", help="cluster file of the plan")
    check.add_argument("--model", required=True, metavar="MODEL",
                       help="hf:config.json, or module:callable, which makes the layers of the "
                            "ModelSpec that it is called with, or takes no argument")
    check.add_argument("--layers", nargs="+", default=[], metavar="GLOB",
                       help="names of the layers in the order of the plan, such as tokens "
                            "blocks.* norm+output, each from activations to activations; names "
                            "joined by + are one layer [those of an nn.Sequential, or of "
                            "transformers]")
    check.add_argument("--job", default="", metavar="ID", help="refuse plans for another job")
    check.add_argument("--tensor-plan", default="", metavar="FILE",
                       help="JSON object from patterns of names to colwise, rowwise, ... [the "
                            "model's own]")
    check.add_argument("--loss", default="", metavar="MODULE:CALLABLE",
                       help="loss of an output and its targets, a mean [cross entropy]")
    check.add_argument("--inputs", default="", metavar="MODULE:CALLABLE",
                       help="inputs and targets, called with a ModelSpec, a number of samples and "
                            "a seed [random tokens; images if the configuration takes them]")
    check.add_argument("--max-ranks", type=_positive, default=8, metavar="N",
                       help="processes of the small copy; ranks are left out only above it [8]")
    check.add_argument("--tolerance", type=float, default=1e-4, metavar="X",
                       help="largest difference, relative [1e-4]")
    check.add_argument("--seconds", type=float, default=300.0, metavar="S",
                       help="a rank waits so long for the others [300]")
    check.add_argument("--memory", action="store_true",
                       help="also simulate what PyTorch's allocator of GPUs takes in three steps of "
                            "the whole plan")
    check.add_argument("--key", default="", metavar="FILE",
                       help="Ed25519 private key (PEM) that signs the evidence")
    check.add_argument("--out", default="", metavar="FILE",
                       help="evidence to write, for `planctl verify --evidence`")
    check.add_argument("--format", choices=("text", "json"), default="text",
                       help="of the result on standard output [text]")


def run(options: argparse.Namespace) -> int:
    """Runs the command and returns its exit code."""
    try:
        return _check(options)
    except (Error, OSError) as error:
        return report_error(error, options.format == "json")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _check(options: argparse.Namespace) -> int:
    from parplan.plan import Plan
    from parplan.wire import json_file

    # Modules of the working directory, as `python -m` finds them.
    sys.path.insert(0, "")
    contents = [pathlib.Path(path).read_bytes()
                for path in (options.plan, options.trust, options.spec, options.cluster)]
    plan = Plan.load(*contents, job_id=options.job)
    topology = json_file.parse(contents[3], "ClusterTopology", options.cluster)
    tensor_plan = read_tensor_plan(options.tensor_plan)

    # torch takes seconds to import, which --help and a plan that is refused need not wait for.
    from parplan.torch.check.evidence import SigningKey, envelope_of, predicate_of
    from parplan.torch.check.memory import simulate_step
    from parplan.torch.check.models import Source
    from parplan.torch.check.numerics import compare
    from parplan.torch.check.shrink import shrink
    from parplan.torch.check.steps import count_step, ranks_that_differ
    from parplan.torch.command.progress import Progress

    key = SigningKey(pathlib.Path(options.key).read_bytes()) if options.key else None
    source = Source(options.model, options.loss, options.inputs, tuple(options.layers))
    small = shrink(plan, max_ranks=options.max_ranks, keep_widths=source.has_own_widths)
    progress = Progress(1 + len(ranks_that_differ(plan)) * (2 if options.memory else 1))
    simulated = None
    try:
        progress.begin(f"{small.plan.device_count} ranks against one process")
        compared = compare(small, source, tensor_plan, options.seconds)
        counted = count_step(plan, topology, source, tensor_plan, progress.begin)
        if options.memory:
            simulated = simulate_step(plan, topology, source, tensor_plan, progress.begin)
    finally:
        progress.end()
    predicate = predicate_of(plan, small, compared, counted, options.tolerance, time.time())
    if options.out:
        pathlib.Path(options.out).write_text(envelope_of(plan, predicate, key).to_json())
    if options.format == "json":
        memory = {} if simulated is None else {"memory": _memory_of(simulated)}
        print(json.dumps({"plan": plan.name, **predicate, **memory,
                          "key_id": key.key_id if key else "", "evidence": options.out}, indent=2))
    else:
        policy = plan.recompute_policy
        _show(plan.name, predicate, options.out, key is not None,
              "" if policy is None else str(policy))
        if simulated is not None:
            _show_memory(_memory_of(simulated))
    return PASSED if predicate["passed"] else CHECK_FAILED


def _memory_of(simulated: Any) -> dict[str, Any]:
    """Returns a `Simulated` as the result has it, in bytes."""
    return {"left_out": simulated.left_out, "rows": [
        {"rank": one.rank, "peak_allocated_bytes": one.allocated,
         "peak_reserved_bytes": one.reserved,
         "peak_reserved_bytes_expandable_segments": one.reserved_expandable}
        for one in simulated.peaks]}


def _show_memory(memory: dict[str, Any]) -> None:
    if memory["left_out"]:
        print(f"memory       not simulated: {memory['left_out']}")
    for row in memory["rows"]:
        print(f"memory       rank {row['rank']}: tensors "
              f"{row['peak_allocated_bytes'] / 1e9:.3f} GB, with free blocks "
              f"{row['peak_reserved_bytes'] / 1e9:.3f} GB, or "
              f"{row['peak_reserved_bytes_expandable_segments'] / 1e9:.3f} GB with "
              "expandable_segments:True; context and communicators come in addition")


def read_tensor_plan(path: str) -> dict[str, str] | None:
    """Returns the tensor-parallel plan in a file, or None for an empty path. Raises SpecInvalid."""
    if not path:
        return None
    from parplan.envelope import strict_json
    found = strict_json.parse(pathlib.Path(path).read_bytes(), path, max_bytes=1 << 20,
                              reason="SPEC_INVALID")
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise field_error("SPEC_INVALID", "--tensor-plan",
                          "must be a JSON object from patterns of names to styles")
    return found


def _show(name: str, predicate: dict[str, Any], out: str, is_signed: bool, policy: str) -> None:
    numbers, collectives = predicate["numbers"], predicate["collectives"]
    print(f"plan         {name}")
    print(f"small copy   {', '.join(predicate['small_copy']['notes'])}")
    if policy:
        print(f"recompute    {policy}")
    if numbers["fault"]:
        print(f"numbers      FAILED: {numbers['fault']}")
    else:
        print(f"loss         differs by {float(numbers['worst_loss_difference']):.1e}")
        where = f" ({numbers['worst_gradient']})" if numbers["worst_gradient"] else ""
        worst = float(numbers["worst_gradient_difference"])
        print(f"gradients    {numbers['gradient_count']}, the worst differs by {worst:.1e}{where}")
    ranks = ", ".join(map(str, collectives["counted_ranks"]))
    if collectives["left_out"]:
        print(f"collectives  not counted: {collectives['left_out']}")
    else:
        print(f"collectives  of a step of {collectives['device_count']} ranks; those of ranks "
              f"{ranks} stand for all")
    if collectives["fault"]:
        print(f"  FAILED: {collectives['fault']}")
    for row in collectives["rows"]:
        mark = "" if row["equal"] else "   NOT EQUAL"
        norms = f", {row['not_priced']} of them not priced" if row["not_priced"] else ""
        print(f"  rank {row['rank']:<5} {row['collective']:<14} {row['ranks']:<14} "
              f"priced {row['priced']:<6} counted {row['counted']}{norms}"
              f"   {', '.join(row['purposes'])}{mark}")
    if collectives["predicted_for_runtime"] not in ("", collectives["priced_for_runtime"]):
        print(f"note: the plan was predicted for runtime {collectives['predicted_for_runtime']}, "
              f"and is priced here for {collectives['priced_for_runtime']}")
    for note in collectives["not_priced"]:
        print(f"not priced: {note}")
    print(f"{'passed' if predicate['passed'] else 'FAILED'}: {predicate['summary']}")
    if out:
        print(f"wrote {out}{'' if is_signed else ', not signed'}")
