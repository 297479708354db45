"""The command line of `parplan-torch`."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from parplan.errors import Error
from parplan.torch.check.command import add_command as add_check
from parplan.torch.trace.command import add_command as add_trace
from parplan.wire import json_file


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        return code
    except (Error, OSError) as error:
        print(f"parplan-torch: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="parplan-torch", description="parplan in PyTorch")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    profile = commands.add_parser("profile", help="measure a model on this machine's processors")
    profile.set_defaults(run=_profile)
    profile.add_argument("--model", required=True, metavar="MODEL",
                         help="hf:config.json or module:callable")
    profile.add_argument("--spec", required=True, metavar="FILE",
                         help="model file of the same layers in the same order (docs/files.md)")
    profile.add_argument("--layers", default="", metavar="GLOB",
                         help="names of the layers, such as model.layers.* [found]")
    profile.add_argument("--with-values", action="store_true",
                         help="make the whole model on the CPU, not on the meta device")
    profile.add_argument("--device-kind", required=True, metavar="NAME",
                         help="device_kind of the cluster file")
    profile.add_argument("--devices-per-node", type=_positive, required=True, metavar="N")
    profile.add_argument("--micro-batch", type=_positive, nargs="+", default=[1], metavar="N",
                         help="samples in a micro-batch [1]")
    profile.add_argument("--ranks", type=_positive, default=1, metavar="N",
                         help="processes that measure gloo's collectives; 1 measures none [1]")
    profile.add_argument("--message-size", type=_positive, nargs="+",
                         default=[1 << 12, 1 << 16, 1 << 20, 1 << 24], metavar="BYTES",
                         help="[4096 65536 1048576 16777216]")
    profile.add_argument("--seconds", type=float, default=5.0, metavar="S",
                         help="repeat one time so long at most, unless its median is known to "
                              "2 %% before [5]")
    profile.add_argument("--compile", action="store_true",
                         help="through torch.compile; the runtime is torch-compile then")
    profile.add_argument("--out", required=True, metavar="FILE", help="profile file to write")
    profile.add_argument("--format", choices=("text", "json"), default="text",
                         help="of the summary on standard output [text]")
    add_check(commands)
    add_trace(commands)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _profile(options: argparse.Namespace) -> int:
    # torch takes seconds to import, which --help need not wait for.
    import torch

    from parplan.torch.measure.models import load_model
    from parplan.torch.measure.profile import Request, measure_profile
    from parplan.torch.measure.steady import Effort
    from parplan.wire import messages

    # Modules of the working directory, as `python -m` finds them.
    sys.path.insert(0, "")
    spec = json_file.parse(pathlib.Path(options.spec).read_text(), "ModelSpec", options.spec)
    precision = messages.enum_name("Precision", spec.precision)
    dtype = {"PRECISION_BF16": torch.bfloat16, "PRECISION_FP16": torch.float16}.get(
        precision, torch.float32)
    tokens = max((one.sequence_length for one in spec.layer_definitions), default=1)
    model = load_model(options.model, tokens, dtype=dtype, layers=options.layers,
                       with_values=options.with_values)
    request = Request(options.device_kind, options.devices_per_node, tuple(options.micro_batch),
                      options.ranks, tuple(options.message_size), Effort(seconds=options.seconds),
                      options.compile)
    profile = json_file.to_dict(measure_profile(model, spec, request, torch.device("cpu")))
    pathlib.Path(options.out).write_text(json.dumps(profile, indent=2) + "\n")
    _show(profile, options)
    return 0


def _show(profile: dict[str, Any], options: argparse.Namespace) -> None:
    notes = profile["provenance"].get("notes", [])
    if options.format == "json":
        print(json.dumps({"profile": options.out, "runtime_id": profile["runtime_id"],
                          "layer_timings": profile["layer_timings"],
                          "layer_memories": profile["layer_memories"], "notes": notes}))
        return
    for one in profile["layer_timings"]:
        print(f"{one['layer_definition_id']}, {one['micro_batch_size']} samples: forward "
              f"{one['forward_duration']}, backward {one['backward_duration']}")
    for note in notes:
        print(f"note: {note}")
    print(f"wrote {options.out}")
