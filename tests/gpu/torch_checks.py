#!/usr/bin/env python3
"""Checks of parplan.torch on one GPU: profiles, plans predicted and measured, parity, and layers of
plain PyTorch.

    prepare (where `cryptography` is; prepare_torch_checks.py):
        PYTHONPATH=clients/python:tests/clients/python python3 tests/gpu/prepare_torch_checks.py P
    measure (on the machine with the GPU, from a checkout; nothing is installed):
        python3 tests/gpu/torch_checks.py OUT --prepared P --budget 240
    predict and compare (where planctl is; or `--planctl FILE` above):
        python3 tests/gpu/torch_checks.py OUT --compare --planctl build/batches/bin/planctl

Every part is a process of its own with a limit of time, and one that fails does not keep others
from running; those that matter most come first. OUT/torch_checks.json has all results,
OUT/layers.json the layers, OUT/<part>.log what each part printed. Ends with 1 if anything that ran
failed, and with 77 where there is no GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "clients/python")]

from torch_cases import read_cases  # noqa: E402

# Targets of one GPU: relative errors of a step's time and of its peak memory.
TIME_TARGET, MEMORY_TARGET = 0.05, 0.03
# A part that is late gets so long to end by itself.
GRACE_SECONDS = 8.0
# The program `parplan-torch`, which only an installed package has.
_PARPLAN_TORCH = "import sys; from parplan.torch_program import main; sys.exit(main())"
# Of what parts print; their logs have all of it.
_LINE_LENGTH = 400
_QUERIES = ("timestamp,name,driver_version,pstate,clocks.sm,clocks.mem,clocks.max.sm,power.draw,"
            "power.limit,temperature.gpu,memory.used,clocks_event_reasons.active",
            "timestamp,name,driver_version,pstate,clocks.sm,clocks.mem,clocks.max.sm,power.draw,"
            "power.limit,temperature.gpu,memory.used,clocks_throttle_reasons.active",
            "timestamp,name,driver_version,clocks.sm,power.draw,memory.used")


def say(text: str) -> None:
    print(text, flush=True)


@dataclasses.dataclass(frozen=True)
class Part:
    """A process to run, and the seconds that it takes at most and needs at least."""
    name: str
    command: list[str]
    most: float
    least: float


class Checks:
    """The parts of one run, and what came of them."""

    def __init__(self, out: pathlib.Path, prepared: pathlib.Path, device: str,
                 budget: float, threads: str, slowness: float) -> None:
        self.out, self.prepared, self.device = out, prepared, device
        self._threads, self._slowness = threads, slowness
        self._end = time.monotonic() + budget
        self.results: dict[str, Any] = {}
        # Some systems have no virtual memory of GPUs, which the first part finds out.
        self.expands_segments = device == "cuda"

    @property
    def seconds_left(self) -> float:
        return self._end - time.monotonic()

    def run(self, part: Part) -> None:
        left = self.seconds_left
        if left < part.least:
            say(f"== {part.name}: left out, {left:.0f} s are left and it needs {part.least:.0f}")
            self.results[part.name] = {"outcome": "left out"}
            return
        limit = min(part.most * self._slowness, left)
        say(f"== {part.name}: at most {limit:.0f} s, {left:.0f} s are left")
        command = [*part.command, *(["--deadline", f"{limit:.1f}"]
                                    if "torch_parts" in part.command[1] else [])]
        begin = time.monotonic()
        outcome = self._start(part.name, command, limit + GRACE_SECONDS)
        self.results[part.name] = {"outcome": outcome,
                                   "seconds": round(time.monotonic() - begin, 1)}
        say(f"== {part.name}: {outcome} after {time.monotonic() - begin:.1f} s")

    def _start(self, name: str, command: list[str], limit: float) -> str:
        """Runs a command, prints and keeps its output, and returns how it ended."""
        environment = dict(
            os.environ, PYTHONUNBUFFERED="1", TOKENIZERS_PARALLELISM="false",
            HF_HUB_OFFLINE="1", OMP_NUM_THREADS=self._threads,
            PYTHONPATH=os.pathsep.join(
                [str(HERE), str(ROOT / "clients/python"),
                 *filter(None, [os.environ.get("PYTHONPATH")])]),
            # Caches of compilers belong to this run.
            TORCHINDUCTOR_CACHE_DIR=str(self.out / "cache-inductor"),
            TRITON_CACHE_DIR=str(self.out / "cache-triton"))
        if self.expands_segments:
            # Without gaps between segments the driver's figure is the allocator's.
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, env=environment, start_new_session=True,
                                       cwd=self.out)
        except OSError as error:
            return f"FAILED: {error}"
        timer = threading.Timer(limit, _end_group, [process])
        timer.start()
        try:
            assert process.stdout is not None
            with open(self.out / f"{name}.log", "w") as log:
                for line in process.stdout:
                    log.write(line)
                    log.flush()
                    say(line.rstrip("\n")[:_LINE_LENGTH])
            code = process.wait()
        finally:
            timer.cancel()
            _end_group(process)
        if code < 0:
            return f"FAILED: ended by signal {-code} (the limit of time is signal 9)"
        return "passed" if code == 0 else f"FAILED: exit code {code}"


def _end_group(process: subprocess.Popen[str]) -> None:
    """Ends the processes of a part that are still there."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def parts_of(checks: Checks, steps: str) -> list[Part]:
    """Returns all parts, the ones that matter most first."""
    cases = read_cases(checks.prepared)
    on_gpu = checks.device == "cuda"

    def own(name: str, most: float, least: float) -> Part:
        return Part(name, [sys.executable, str(HERE / "torch_parts.py"), name,
                           str(checks.prepared), str(checks.out), "--device", checks.device],
                    most, least)

    def profile(model: str, compiled: bool, sizes: tuple[int, ...], most: float,
                least: float) -> Part:
        kind = next(one.device_kind for one in cases.profiles if one.model == model)
        name = f"profile-{model}-compiled" if compiled else f"profile-{model}"
        folder = checks.prepared / model
        return Part(name, [
            sys.executable, "-c", _PARPLAN_TORCH, "profile",
            "--model", f"hf:{folder / 'config.json'}", "--spec", str(folder / "model.json"),
            "--device", checks.device, "--device-kind", kind, "--devices-per-node", "1",
            "--micro-batch", *map(str, sizes), "--message-size",
            "--seconds", "0.4" if on_gpu else "0.1", *(["--compile"] if compiled else []),
            # Plans recompute whole layers, and the summary has what that takes.
            *(["--recompute", "full"] if any(one.model == model for one in cases.plans)
              and not compiled else []), "--format", "json",
            "--out", str(checks.out / f"{name}.json")], most, least)

    sizes = {one.model: one.micro_batches for one in cases.profiles}

    def profiles(model: str, most: float, compiled: bool = False) -> list[Part]:
        # A bundle has the layers of plain PyTorch alone, without models to profile.
        if model not in sizes:
            return []
        return [profile(model, compiled, (1,) if compiled else sizes[model], most,
                        40 if compiled else 25)]

    made = [own("machine", 60, 5), own("layers-eager", 60, 10), own("parity", 45, 10),
            *profiles("llama-2k", 100), own("plans", 110, 25), own("layers-compiled", 90, 25),
            *profiles("gpt-2k", 60), *profiles("llama-2k", 90, compiled=True)]
    for model in sizes:
        if model not in ("llama-2k", "gpt-2k"):
            made.extend(profiles(model, 60))
    if not steps:
        return made
    wanted = steps.split(",")
    unknown = set(wanted) - {one.name for one in made}
    if unknown:
        raise SystemExit(f"--parts: {', '.join(sorted(unknown))}: known are "
                         f"{', '.join(one.name for one in made)}")
    return [one for one in made if one.name in wanted]


def read_gpu() -> str:
    """Returns what nvidia-smi says of clocks, power and what slows the GPU down."""
    for query in _QUERIES:
        try:
            made = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv"],
                                  capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"nvidia-smi: {error}"
        if made.returncode == 0:
            return made.stdout.strip()
    return made.stdout.strip() + made.stderr.strip()


def watch_gpu(out: pathlib.Path) -> subprocess.Popen[bytes] | None:
    """Starts to write clocks and power once a second to OUT/clocks.csv."""
    try:
        with open(out / "clocks.csv", "wb") as file:
            return subprocess.Popen(
                ["nvidia-smi", "--query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,"
                 "temperature.gpu,utilization.gpu,memory.used", "--format=csv", "-lms", "1000"],
                stdout=file, stderr=subprocess.STDOUT)
    except OSError:
        return None


def measure(options: argparse.Namespace) -> int:
    out: pathlib.Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if not (options.prepared / "cases.json").exists():
        say(f"{options.prepared} has no cases.json; run tests/gpu/prepare_torch_checks.py first")
        return 2
    prepared = out / "prepared"
    if options.prepared.resolve() != prepared:
        # Beside the results, for --compare.
        shutil.copytree(options.prepared, prepared, dirs_exist_ok=True)
    begin = time.monotonic()
    checks = Checks(out, prepared, options.device, options.budget, options.threads,
                    options.slowness)
    before, watcher = "", None
    if options.device == "cuda":
        before = read_gpu()
        say(before)
        watcher = watch_gpu(out)
    try:
        for part in parts_of(checks, options.parts):
            checks.run(part)
            if part.name == "machine" and checks.results["machine"]["outcome"] != "passed" \
                    and checks.expands_segments:
                say("once more without expandable segments")
                checks.expands_segments = False
                checks.run(part)
            write_results(out, checks, before, "")
    finally:
        if watcher is not None:
            watcher.terminate()
            watcher.wait()
    after = read_gpu() if options.device == "cuda" else ""
    if after:
        say(after)
    write_results(out, checks, before, after)
    for folder in ("cache-inductor", "cache-triton"):
        shutil.rmtree(out / folder, ignore_errors=True)
    code = int(any(one["outcome"].startswith("FAILED") for one in checks.results.values()))
    if options.planctl is not None:
        code = max(code, compare(out, options.planctl, options.runtime))
    say("\n== Summary")
    for name, one in checks.results.items():
        say(f"{name:<26} {one['outcome']:<12} {one.get('seconds', 0):>7} s")
    say(f"wrote {out / 'torch_checks.json'}; took {time.monotonic() - begin:.0f} s")
    return code


def write_results(out: pathlib.Path, checks: Checks, before: str, after: str) -> None:
    """Writes torch_checks.json and layers.json of the parts that ran so far."""
    parts = {name: read_json(out / f"{name}.json") for name in checks.results
             if not name.startswith("profile-")}
    document = {"device": checks.device, "python": sys.version.split()[0],
                "gpu_before": before, "gpu_after": after, "outcomes": checks.results,
                "expandable_segments": checks.expands_segments,
                "parts": {name: one for name, one in parts.items() if one is not None},
                "profiles": sorted(path.name for path in out.glob("profile-*.json"))}
    (out / "torch_checks.json").write_text(json.dumps(document, indent=1) + "\n")
    layers = [{"runtime": part["runtime"], **row} for name, part in parts.items()
              if part is not None and name.startswith("layers-") for row in part["rows"]]
    (out / "layers.json").write_text(json.dumps(layers, indent=1) + "\n")


def read_json(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


# --- Predictions.

def predict(out: pathlib.Path, planctl: pathlib.Path, runtime: str, row: dict[str, Any]) -> Any:
    """Returns what planctl says of a measured plan, with the profile of its model."""
    folder = out / "prepared" / row["model"]
    command = [str(planctl), "evaluate", str(out / "prepared" / row["plan"]),
               "--model", str(folder / "model.json"), "--cluster", str(folder / "cluster.json"),
               "--profile", str(out / f"profile-{row['model']}.json"), "--runtime", runtime,
               "--format", "json"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if made.returncode != 0:
        raise RuntimeError(made.stderr.strip() or made.stdout.strip())
    return json.loads(made.stdout)["prediction"]


def recomputed_seconds(out: pathlib.Path, row: dict[str, Any]) -> float | None:
    """Returns what full recomputation of a decoder layer adds to a micro-batch, as the profile's
    command measured it, or None if it did not."""
    try:
        lines = (out / f"profile-{row['model']}.log").read_text().splitlines()
        summary = json.loads(next(line for line in reversed(lines) if line.startswith("{")))
    except (OSError, StopIteration, ValueError):
        return None
    without = next((one for one in summary["profiles"][0]["layer_timings"]
                    if one["layer_definition_id"] == "decoder"
                    and one["micro_batch_size"] == row["micro_batch"]), None)
    with_it = next((one for one in summary["recomputation"] if one["policy"] == "full"
                    and one["layer_definition_id"] == "decoder"
                    and one["micro_batch_size"] == row["micro_batch"]), None)
    if without is None or with_it is None:
        return None
    plain = sum(float(without[f"{name}_duration"][:-1]) for name in ("forward", "backward"))
    return float(with_it["forward_seconds"] + with_it["backward_seconds"] - plain)


def with_measured_recomputation(out: pathlib.Path, row: dict[str, Any], prediction: Any
                                ) -> float | None:
    """Returns the predicted step with the measured time of recomputation in place of that of a
    forward pass: PyTorch leaves out a layer's last product."""
    again = prediction["stages"][0]["time_items"].get("recompute", 0)
    measured = recomputed_seconds(out, row)
    model = read_json(out / "prepared" / row["model"] / "model.json")
    if not again or measured is None or model is None:
        return None
    layers = next(int(run["layer_count"]) for run in model["layer_runs"]
                  if run["layer_definition_id"] == "decoder")
    count = row["micro_batch_count"]
    return float(prediction["step_seconds"] + count * (layers * measured - again))


def compare(out: pathlib.Path, planctl: pathlib.Path, runtime: str) -> int:
    """Prints predicted and measured times and peaks of the plans, and writes comparison.json.
    Returns 1 if a prediction is off by more than its target."""
    measured = read_json(out / "plans.json")
    if measured is None or not measured["rows"]:
        say(f"{out / 'plans.json'} has no measured plans")
        return 2
    rows = []
    context = measured.get("context", {})
    say(f"{'plan':<18} {'step, s':>9} {'predicted':>9} {'error':>7}  {'driver, GB':>10} "
        f"{'predicted':>9} {'error':>7}  {'allocated':>9} {'predicted':>9} {'error':>7}")
    for row in measured["rows"]:
        try:
            prediction = predict(out, planctl, runtime, row)
        except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            say(f"{row['name']}: no prediction: {error}")
            rows.append({"name": row["name"], "error": str(error)})
            continue
        items = [stage["memory_items"] for stage in prediction["stages"]]
        outside = sum(items[0].get(name, 0) for name in ("context", "communicators", "fragmentation"))
        peak = prediction["peak_memory_bytes"]
        made = {"name": row["name"], "measured_step_seconds": row["step_seconds"],
                "predicted_step_seconds": prediction["step_seconds"],
                "time_error": error_of(prediction["step_seconds"], row["step_seconds"]),
                "measured_driver_bytes": row.get("peak_driver_bytes"),
                "predicted_peak_bytes": peak,
                "memory_error": error_of(peak, row.get("peak_driver_bytes")),
                "measured_allocated_bytes": row.get("peak_allocated_bytes"),
                "predicted_allocated_bytes": peak - outside,
                "allocated_error": error_of(peak - outside, row.get("peak_allocated_bytes")),
                "step_seconds_with_measured_recomputation":
                    with_measured_recomputation(out, row, prediction),
                "confidence": prediction["confidence"], "memory_items": items[0],
                "time_items": prediction["stages"][0]["time_items"]}
        rows.append(made)
        say(f"{row['name']:<18} {row['step_seconds']:>9.4f} {prediction['step_seconds']:>9.4f} "
            f"{percent(made['time_error'])}  {giga(made['measured_driver_bytes']):>10} "
            f"{giga(peak):>9} {percent(made['memory_error'])}  "
            f"{giga(made['measured_allocated_bytes']):>9} {giga(peak - outside):>9} "
            f"{percent(made['allocated_error'])}")
        other = made["step_seconds_with_measured_recomputation"]
        if other is not None:
            say(f"{'':<18} {'':>9} {other:>9.4f} {percent(error_of(other, row['step_seconds']))}  "
                "with the measured time of recomputation")
    known = [one for one in rows if "error" not in one]
    summary: dict[str, Any] = {"runtime": runtime, "plans": len(rows), "predicted": len(known)}
    failed = len(known) < len(rows)
    for name, target in (("time_error", TIME_TARGET), ("memory_error", MEMORY_TARGET),
                         ("allocated_error", None)):
        errors = [abs(one[name]) for one in known if one[name] is not None]
        if not errors:
            continue
        summary[name] = {"median": statistics.median(errors), "worst": max(errors),
                         "target": target}
        failed = failed or (target is not None and max(errors) > target)
        say(f"{name}: median {100 * statistics.median(errors):.1f} %, worst "
            f"{100 * max(errors):.1f} %"
            + ("" if target is None else f", target {100 * target:.0f} %"))
    (out / "comparison.json").write_text(json.dumps(
        {"summary": summary, "context": context, "rows": rows}, indent=1) + "\n")
    return int(failed)


def error_of(predicted: float, measured: float | None) -> float | None:
    return None if not measured else predicted / measured - 1


def percent(value: float | None) -> str:
    return f"{'-':>7}" if value is None else f"{100 * value:>+6.1f}%"


def giga(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e9:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("--prepared", type=pathlib.Path, metavar="FOLDER",
                        help="what prepare_torch_checks.py wrote [OUT/prepared]")
    parser.add_argument("--budget", type=float, default=240.0, metavar="SECONDS",
                        help="of all parts together [240]")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="[cuda]")
    parser.add_argument("--threads", default="4", metavar="N",
                        help="threads of processors in each part [4]")
    parser.add_argument("--slowness", type=float, default=1.0, metavar="FACTOR",
                        help="lets each part take so many times its limit, on busy machines [1]")
    parser.add_argument("--parts", default="", metavar="A,B", help="run these alone [all]")
    parser.add_argument("--compare", action="store_true",
                        help="measure nothing; predict the plans that were measured in OUT")
    parser.add_argument("--planctl", type=pathlib.Path, metavar="FILE",
                        help="planctl, which predicts the measured plans")
    parser.add_argument("--runtime", default="fsdp", metavar="NAME",
                        help="runtime of the prediction [fsdp]")
    options = parser.parse_args()
    if options.planctl is not None:
        options.planctl = options.planctl.resolve()
    if options.prepared is None:
        options.prepared = options.out / "prepared"
    if options.compare:
        if options.planctl is None:
            parser.error("--compare needs --planctl")
        return compare(options.out.resolve(), options.planctl, options.runtime)
    if options.device == "cuda" and shutil.which("nvidia-smi") is None and not any(
            pathlib.Path("/dev").glob("nvidia[0-9]*")):
        say("there is no GPU here")
        return 77
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
