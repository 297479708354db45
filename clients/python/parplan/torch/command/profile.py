"""`parplan-torch profile`: measures a model and writes profiles."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

from parplan.errors import Error
from parplan.torch.command.errors import report_error
from parplan.wire import json_file

_SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 24)
# The names are those of measure/recompute.py, which is not imported here because it imports torch.
_POLICIES = ("none", "selective", "selective-op", "full")
_EAGER, _COMPILED = "torch", "torch-compile"


def add_parser(commands: Any) -> None:
    """Adds the command to those of `parplan-torch`."""
    parser = commands.add_parser("profile", help="measure a model on this machine's devices")
    parser.set_defaults(run=run)
    parser.add_argument("--model", required=True, metavar="MODEL",
                        help="hf:config.json or module:callable")
    parser.add_argument("--spec", required=True, metavar="FILE",
                        help="model file of the same layers in the same order (docs/files.md)")
    parser.add_argument("--layers", nargs="+", default=[], metavar="GLOB",
                        help="names of the layers, such as model.layers.*; names joined by + are "
                             "one layer [found]")
    parser.add_argument("--inputs", default="", metavar="MODULE:CALLABLE",
                        help="inputs and targets, called with a ModelSpec, a number of samples and "
                             "a seed; their sizes are taken [token ids; images if the "
                             "configuration takes them]")
    parser.add_argument("--with-values", action="store_true",
                        help="make the whole model on the CPU, not on the meta device")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="[cpu]")
    parser.add_argument("--device-kind", required=True, metavar="NAME",
                        help="device_kind of the cluster file")
    parser.add_argument("--devices-per-node", type=_positive, required=True, metavar="N")
    parser.add_argument("--micro-batch", type=_positive, nargs="+", default=[1], metavar="N",
                        help="samples in a micro-batch [1]")
    parser.add_argument("--tensor-parallel", type=_positive, nargs="+", default=[1], metavar="N",
                        help="ranks that share a layer, by the model's tensor-parallel plan; 1 is "
                             "always measured [1]")
    parser.add_argument("--tensor-plan", default="", metavar="PLAN",
                        help="JSON file or module:name with the way each module is split, such as "
                             '{"*.up": "colwise"} [the model\'s own]')
    parser.add_argument("--sequence-parallel", action="store_true",
                        help="tensor-parallel ranks also share tokens, and planctl plans with that")
    parser.add_argument("--recompute", nargs="+", choices=_POLICIES, default=[], metavar="POLICY",
                        help="also time layers with these policies: none, selective (attention, as "
                             "plans have it), selective-op (torchtitan's) or full [none]")
    parser.add_argument("--ranks", type=_positive, metavar="N",
                        help="processes that measure at once; collectives need two [the largest "
                             "--tensor-parallel]")
    parser.add_argument("--threads", type=_positive, metavar="N",
                        help="threads of each process [OMP_NUM_THREADS or 1; all cores for one]")
    parser.add_argument("--message-size", type=_positive, nargs="*", default=list(_SIZES),
                        metavar="BYTES",
                        help="sizes of collectives; none are measured if none is named "
                             f"[{' '.join(map(str, _SIZES))}]")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S",
                        help="repeat one time so long at most, unless its median is known to "
                             "2 %% before [5]")
    parser.add_argument("--compile", nargs="?", choices=("only", "also"), const="only",
                        help="through torch.compile, with the runtime torch-compile; `also` "
                             "measures without it too and writes a second file, FILE with "
                             ".torch-compile before its suffix")
    parser.add_argument("--out", required=True, metavar="FILE", help="profile file to write")
    parser.add_argument("--format", choices=("text", "json"), default="text",
                        help="of the summary on standard output [text]")
    parser.add_argument("--quiet", action="store_true", help="print no summary")


def run(options: argparse.Namespace) -> int:
    """Runs the command and returns its exit code: 2 for arguments, files or models that cannot be
    measured."""
    try:
        return _measure(options)
    except (Error, OSError) as error:
        return report_error(error, options.format == "json")


def _measure(options: argparse.Namespace) -> int:
    """Measures, writes and shows."""
    # torch takes seconds to import, which --help need not wait for.
    from parplan.torch.inputs import called
    from parplan.torch.measure.captures import SAMPLES, captured
    from parplan.torch.measure.models import ModelSource
    from parplan.torch.measure.profile import measure_profiles
    from parplan.torch.measure.request import Request
    from parplan.torch.measure.steady import Effort
    from parplan.torch.precision import parameter_type

    # Modules of the working directory, as `python -m` finds them.
    sys.path.insert(0, "")
    spec = json_file.parse(pathlib.Path(options.spec).read_text(), "ModelSpec", options.spec)
    dtype = parameter_type(spec.precision)
    tokens = max((one.sequence_length for one in spec.layer_definitions), default=1)
    inputs = None
    if options.inputs:
        inputs = captured(called(options.inputs, spec, SAMPLES, seed=0)[0])
    source = ModelSource(options.model, tokens, dtype, tuple(options.layers), options.with_values,
                         options.tensor_plan, inputs)
    degrees = tuple(sorted({1, *options.tensor_parallel}))
    request = Request(
        options.device_kind, options.devices_per_node, tuple(options.micro_batch),
        options.ranks if options.ranks is not None else degrees[-1], tuple(options.message_size),
        Effort(seconds=options.seconds), _runtimes(options.compile), degrees,
        options.sequence_parallel, tuple(options.recompute), options.device, options.threads)
    measured = measure_profiles(source, spec, request)
    files = {}
    for runtime, profile in measured.by_runtime.items():
        path = pathlib.Path(options.out)
        if runtime == _COMPILED and len(measured.by_runtime) > 1:
            path = path.with_suffix(f".{_COMPILED}{path.suffix}")
        files[str(path)] = json_file.to_dict(profile)
        path.write_text(json.dumps(files[str(path)], indent=2) + "\n")
    if not options.quiet:
        _show(files, measured.details, options.format == "json")
    return 0


def _runtimes(compile_option: str | None) -> tuple[str, ...]:
    if compile_option is None:
        return (_EAGER,)
    return (_COMPILED,) if compile_option == "only" else (_EAGER, _COMPILED)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _show(files: dict[str, dict[str, Any]], details: Any, is_json: bool) -> None:
    if is_json:
        profiles = [{"file": path, "runtime_id": one["runtime_id"],
                     "layer_timings": one["layer_timings"],
                     "layer_memories": one["layer_memories"],
                     "notes": one["provenance"].get("notes", [])} for path, one in files.items()]
        print(json.dumps({"profiles": profiles, **details}))
        return
    for path, profile in files.items():
        for one in profile["layer_timings"]:
            print(f"{profile['runtime_id']}: {one['layer_definition_id']}, tensor-parallel degree "
                  f"{one['tensor_parallel_degree']}, {one['micro_batch_size']} samples: forward "
                  f"{one['forward_duration']}, backward {one['backward_duration']}")
        for note in profile["provenance"].get("notes", []):
            print(f"note: {note}")
        print(f"wrote {path}")
