"""The parts of `torch_checks.py`, each of which runs in a process of its own.

    python3 torch_parts.py PART PREPARED OUT --device cuda --deadline SECONDS

Every part writes OUT/<part>.json after each case, so that what was measured before a failure stays.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import gc
import importlib
import importlib.util
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch_cases import Cases, LayerCase, ParityCase, PlanCase, Shape, read_cases
from torch_layers import build_layer

import parplan.torch
from parplan.envelope import SignedPlan, TrustBundle, VerifiedPlan
from parplan.plan import Plan
from parplan.torch.measure.devices import Gpu
from parplan.torch.measure.models import build_from, read_configuration
from parplan.torch.spans import Recorder
from parplan.wire import json_file, messages

MEBI = 1 << 20
# A second of load before times are taken: a GPU that was idle runs at another clock.
LOAD_SECONDS = {"cuda": 1.0, "cpu": 0.05}
# Times of layers: at least so many repetitions, and for so long.
FEWEST, SECONDS = 20, {"cuda": 0.6, "cpu": 0.1}
# Steps of a plan: the first allocates memory and makes the optimizer's states.
WARM_UP_STEPS, STEP_COUNT = 1, 5
TOLERANCE = 1e-4


def say(text: str) -> None:
    print(text, flush=True)


class Job:
    """What a part works with."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device_type: str = options.device
        self.device = torch.device("cuda", 0) if options.device == "cuda" else torch.device("cpu")
        self.prepared = pathlib.Path(options.prepared)
        self.cases: Cases = read_cases(self.prepared)
        self.out = pathlib.Path(options.out)
        self._path = self.out / f"{options.part}.json"
        self._end: float = time.monotonic() + options.deadline
        self.result: dict[str, Any] = {"rows": [], "failures": [], "skipped": []}
        self.gpu = Gpu(0) if options.device == "cuda" else None

    @property
    def seconds_left(self) -> float:
        return self._end - time.monotonic()

    @property
    def is_on_gpu(self) -> bool:
        return self.device_type == "cuda"

    def save(self) -> None:
        self._path.write_text(json.dumps(self.result, indent=1) + "\n")

    def run(self, name: str, work: Callable[[], dict[str, Any]], seconds: float) -> None:
        """Adds what `work` returns as the row `name`, if `seconds` are left for it. An error is a
        row of `failures`, and the next case runs."""
        if self.seconds_left < seconds:
            say(f"{name}: left out, {self.seconds_left:.0f} s are left and it takes about "
                f"{seconds:.0f}")
            self.result["skipped"].append(name)
            self.save()
            return
        begin = time.monotonic()
        try:
            row = {"name": name, **work()}
        except Exception as error:  # The other cases are worth as much.
            say(f"{name}: FAILED: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
            traceback.print_exc()
            self.result["failures"].append({"name": name, "error": traceback.format_exc()})
        else:
            row["took_seconds"] = round(time.monotonic() - begin, 2)
            say("  ".join(f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
                          for key, value in row.items()
                          if isinstance(value, (str, int, float))))
            self.result["rows"].append(row)
        self.save()
        self.free()

    def free(self) -> None:
        gc.collect()
        if self.is_on_gpu:
            with contextlib.suppress(RuntimeError):
                torch.cuda.empty_cache()

    def synchronize(self) -> None:
        if self.is_on_gpu:
            torch.cuda.synchronize()

    def clocks(self) -> dict[str, Any]:
        """Reads the clock and what slows it down, right behind load."""
        if self.gpu is None:
            return {}
        read = self.gpu.clocks()
        return {"sm_megahertz": read.megahertz, "throttled_by": list(read.throttled_by)}

    def mark(self) -> Any:
        """Returns a point on the time of the device."""
        if not self.is_on_gpu:
            return time.perf_counter()
        make: Any = torch.cuda.Event
        event = make(enable_timing=True)
        event.record()
        return event

    def milliseconds(self, first: Any, second: Any) -> float:
        if not self.is_on_gpu:
            return float(second - first) * 1e3
        return float(first.elapsed_time(second))

    def driver_bytes(self) -> int | None:
        """Returns the bytes in use on the GPU, whoever uses them, as the driver counts them."""
        if not self.is_on_gpu:
            return None
        free, total = torch.cuda.mem_get_info()
        return int(total) - int(free)


# --- Layers of plain PyTorch.

def time_layer(job: Job, layer: nn.Module, shape: Shape, samples: int) -> dict[str, Any]:
    """Times a layer's passes on the device, one behind the other without a gap, as a long step runs
    them: gradients of parameters are added up, as from the second micro-batch of a step."""
    given = torch.randn(samples, shape.tokens, shape.hidden, device=job.device,
                        dtype=torch.bfloat16).requires_grad_()
    gradient = torch.randn_like(given)

    def passes() -> tuple[Any, Any, Any]:
        given.grad = None
        first = job.mark()
        made = layer(given)
        middle = job.mark()
        torch.autograd.backward(made, gradient)
        return first, middle, job.mark()

    begin = time.monotonic()
    passes()
    job.synchronize()
    first_seconds = time.monotonic() - begin
    end = time.monotonic() + LOAD_SECONDS[job.device_type]
    while time.monotonic() < end:
        passes()
        job.synchronize()
    marks: list[tuple[Any, Any, Any]] = []
    begin = time.monotonic()
    while len(marks) < FEWEST or time.monotonic() - begin < SECONDS[job.device_type]:
        # A GPU falls behind the host by ten passes at most.
        marks.extend(passes() for _ in range(10))
        job.synchronize()
    clocks = job.clocks()
    forward = [job.milliseconds(first, middle) for first, middle, _ in marks]
    backward = [job.milliseconds(middle, last) for _, middle, last in marks]
    forward_ms, backward_ms = statistics.median(forward), statistics.median(backward)
    flops = layer_flops(shape, samples)
    return {"forward_ms": forward_ms, "backward_ms": backward_ms,
            "forward_p90_ms": quantile(forward, 0.9), "backward_p90_ms": quantile(backward, 0.9),
            "repetitions": len(marks), "first_pass_seconds": first_seconds,
            "forward_teraflops": flops / forward_ms / 1e9,
            "backward_teraflops": 2 * flops / backward_ms / 1e9, **clocks}


def layer_flops(shape: Shape, samples: int) -> float:
    """Returns the multiplications and additions of a forward pass; of causal attention half."""
    head = shape.hidden // shape.heads
    matrices = (2 * shape.hidden * shape.hidden + 2 * shape.hidden * head * shape.key_value_heads
                + (3 if shape.kind == "llama" else 2) * shape.hidden * shape.feed_forward)
    attention = 2 * shape.hidden * shape.tokens / 2
    return 2.0 * samples * shape.tokens * (matrices + attention)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def measure_layers(job: Job, compiled: bool) -> None:
    """Times each layer in eager mode, or through torch.compile."""
    job.result["runtime"] = "compiled" if compiled else "eager"
    for case in job.cases.layers:
        def work(case: LayerCase = case) -> dict[str, Any]:
            torch.manual_seed(0)
            layer = build_layer(case.shape).to(job.device, torch.bfloat16)
            if compiled:
                dynamo: Any = importlib.import_module("torch._dynamo")
                dynamo.reset()
                layer.compile(dynamic=False)
            return {"samples": case.samples, "tokens": case.shape.tokens,
                    **time_layer(job, layer, case.shape, case.samples)}

        job.run(case.name, work, seconds=25 if compiled else 5)


# --- Plans.

def load_plan(job: Job, model: str, path: str) -> Plan:
    """Returns a plan that was verified here, or where it was prepared if `cryptography`, which
    verifies signatures, is not installed here."""
    folder = job.prepared / model
    files = [job.prepared / path, folder / "trust.json", folder / "model.json",
             folder / "cluster.json"]
    try:
        import cryptography  # noqa: F401
    except ImportError:
        envelope = SignedPlan.from_json(files[0].read_bytes())
        payload = messages.PlanPayload.FromString(envelope.payload)
        key_id = TrustBundle.from_json(files[1].read_bytes()).keys[0].key_id
        job.result["signatures"] = "not verified here: cryptography is not installed"
        return Plan(VerifiedPlan(envelope.payload, payload, key_id),
                    json_file.parse(files[2].read_bytes(), "ModelSpec", "model"),
                    json_file.parse(files[3].read_bytes(), "ClusterTopology", "cluster"))
    job.result["signatures"] = "verified"
    return Plan.load_files(*files)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def batch_of(plan: Plan) -> tuple[torch.Tensor, torch.Tensor]:
    definition = plan.model.layer_definitions[0]
    made = torch.randint(0, definition.vocabulary_size,
                         (plan.global_batch_size, definition.sequence_length + 1),
                         generator=torch.Generator().manual_seed(1))
    return made[:, :-1].contiguous(), made[:, 1:].contiguous()


def model_on_meta(job: Job, model: str) -> nn.Module:
    configuration = read_configuration(str(job.prepared / model / "config.json"))
    with torch.device("meta"):
        return build_from(configuration)


def measure_plans(job: Job) -> None:
    """Trains some steps under each plan and measures time and memory."""
    torch.zeros(1, device=job.device)
    job.result["context"] = {"driver_bytes": job.driver_bytes()}
    for case in job.cases.plans:
        job.run(case.name, lambda case=case: measure_plan(job, case),  # type: ignore[misc]
                seconds=12 if job.is_on_gpu else 1)


def measure_plan(job: Job, case: PlanCase) -> dict[str, Any]:
    job.free()
    before = {"driver_bytes_before": job.driver_bytes()}
    if job.is_on_gpu:
        before["allocated_bytes_before"] = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    plan = load_plan(job, case.model, case.path)
    # As profiles measure it.
    optimizer = functools.partial(torch.optim.AdamW, fused=job.is_on_gpu)
    run = parplan.torch.apply(plan, model_on_meta(job, case.model), loss_of, seed=1,
                              optimizer=optimizer, device=job.device, precision="bf16")
    inputs, targets = (one.to(job.device) for one in batch_of(plan))
    losses = []
    for _ in range(WARM_UP_STEPS):
        losses.append(run.step(inputs, targets).item())
    job.synchronize()
    times = []
    for _ in range(STEP_COUNT):
        first = job.mark()
        begin = time.perf_counter()
        loss = run.step(inputs, targets)
        last = job.mark()
        job.synchronize()
        times.append((job.milliseconds(first, last) / 1e3, time.perf_counter() - begin))
        losses.append(loss.item())
    clocks = job.clocks()
    memory: dict[str, Any] = {}
    if job.is_on_gpu:
        memory = {"peak_allocated_bytes": torch.cuda.max_memory_allocated(),
                  "allocated_between_steps_bytes": torch.cuda.memory_allocated(),
                  "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
                  # The allocator gives nothing back, so this is the highest.
                  "peak_driver_bytes": job.driver_bytes()}
    if not all(map(math.isfinite, losses)):
        raise ArithmeticError(f"losses are {losses}")
    device_seconds = [one for one, _ in times]
    parts = parts_of_step(job, run, inputs, targets)
    return {"micro_batch": case.micro_batch, "micro_batch_count": plan.micro_batch_count,
            "recompute": case.recompute, "plan": case.path,
            "model": case.model, "step_seconds": statistics.median(device_seconds),
            "step_seconds_least": min(device_seconds), "step_seconds_most": max(device_seconds),
            "host_step_seconds": statistics.median(one for _, one in times), **memory, **before,
            "parameters": sum(one.numel() for one in run.parameters()),
            "first_loss": losses[0], "last_loss": losses[-1], "parts": parts, **clocks}


def parts_of_step(job: Job, run: parplan.torch.Run, inputs: torch.Tensor,
                  targets: torch.Tensor) -> dict[str, Any]:
    """Returns what one more step is made of: seconds of all forward passes, of all backward passes,
    and of the rest, and on a GPU the peaks of tensors before and within the optimizer's step."""
    made: dict[str, Any] = {}

    def before(*_: Any) -> None:
        made["peak_of_passes_bytes"] = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()

    def after(*_: Any) -> None:
        made["peak_of_optimizer_bytes"] = torch.cuda.max_memory_allocated()

    if job.is_on_gpu:
        torch.cuda.reset_peak_memory_stats()
        run.optimizers[0].register_step_pre_hook(before)
        run.optimizers[0].register_step_post_hook(after)
    recorder = Recorder(job.device)
    with recorder:
        run.step(inputs, targets)
    for one in recorder.spans:
        found = re.fullmatch(r"[0-9+]+([FB])[0-9]+", one.name)
        name = {"F": "forward", "B": "backward"}[found[1]] if found else one.name
        made[f"{name}_seconds"] = made.get(f"{name}_seconds", 0.0) + one.duration / 1e6
    return made


# --- Parity.

def measure_parity(job: Job) -> None:
    """Compares loss and gradients of small models under a plan with plain PyTorch in fp32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    for case in job.cases.parity:
        job.run(case.name, lambda case=case: compare(job, case),  # type: ignore[misc]
                seconds=5)


def compare(job: Job, case: ParityCase) -> dict[str, Any]:
    plan = load_plan(job, case.model, case.path)
    configuration = read_configuration(str(job.prepared / case.model / "config.json"))
    torch.manual_seed(3)
    reference = build_from(configuration)
    model = copy.deepcopy(reference)
    reference.to(job.device)
    inputs, targets = (one.to(job.device) for one in batch_of(plan))
    expected = loss_of(reference(input_ids=inputs).logits, targets)
    torch.autograd.backward(expected)
    run = parplan.torch.apply(plan, model, loss_of, device=job.device)
    loss = run.step(inputs, targets)
    worst, where, compared = 0.0, "", 0
    theirs = dict(reference.named_parameters())
    for name, parameter in run.named_parameters():
        other = theirs[name].grad
        if parameter.grad is None or other is None:
            raise AssertionError(f"{name} has no gradient")
        scale = other.abs().max().clamp(min=1e-12)
        difference = ((parameter.grad - other).abs().max() / scale).item()
        compared += 1
        if not difference <= worst:  # Also if it is not a number.
            worst, where = difference, name
    loss_difference = abs(loss.item() - expected.item()) / abs(expected.item())
    row = {"loss_difference": loss_difference, "gradient_difference": worst, "where": where,
           "parameters_compared": compared, "tolerance": TOLERANCE,
           "passed": bool(compared == len(theirs) and worst <= TOLERANCE
                          and loss_difference <= TOLERANCE)}
    # The same values on the meta device and in one process, as `apply` promises for a seed.
    torch.manual_seed(4)
    meta = model_on_meta(job, case.model)
    started = parplan.torch.apply(plan, meta, loss_of, seed=7, device=job.device)
    alone = model_on_meta(job, case.model)
    from parplan.torch.initialize import initialize
    from parplan.torch.layers import layers_of
    initialize(alone, layers_of(alone), 7, job.device)
    values = dict(alone.named_parameters())
    unequal = [name for name, one in started.named_parameters()
               if not torch.equal(one.detach(), values[name].detach())]
    row["unequal_initial_values"] = unequal[:5]
    row["passed"] = row["passed"] and not unequal
    return row


# --- The machine.

def look(job: Job) -> None:
    """Says what is installed, and uses the GPU once in each way that the other parts need."""
    transformers: Any = importlib.import_module("transformers")
    job.result["versions"]["transformers"] = str(transformers.__version__)
    if job.is_on_gpu:
        properties = torch.cuda.get_device_properties(0)
        job.result["gpu_memory_bytes"] = properties.total_memory
        job.result["has_nvml"] = job.clocks() != {"sm_megahertz": None, "throttled_by": []}
    job.result["has_cryptography"] = importlib.util.find_spec("cryptography") is not None
    job.result["has_compiler"] = any(shutil.which(name) for name in ("cc", "gcc", "clang"))

    def work() -> dict[str, Any]:
        rows = torch.randn(2, 4, 64, 32, device=job.device, dtype=torch.bfloat16,
                           requires_grad=True)
        made = nn.functional.scaled_dot_product_attention(rows, rows, rows, is_causal=True)
        torch.autograd.backward((made @ made.transpose(-1, -2)).float().sum())
        # More than one segment of the allocator.
        torch.zeros(512 << 20, dtype=torch.uint8, device=job.device)
        job.synchronize()
        return {"driver_bytes": job.driver_bytes()}

    job.run("first work", work, seconds=0)
    for key in ("versions", "gpu", "has_nvml", "has_cryptography", "has_compiler"):
        say(f"{key}: {job.result.get(key)}")


PARTS: dict[str, Callable[[Job], None]] = {
    "machine": look,
    "layers-eager": lambda job: measure_layers(job, False),
    "layers-compiled": lambda job: measure_layers(job, True),
    "parity": measure_parity,
    "plans": measure_plans,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("prepared")
    parser.add_argument("out")
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--deadline", type=float, required=True)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        say("torch finds no GPU")
        return 1
    if options.device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    job = Job(options)
    job.result["versions"] = {"torch": str(torch.__version__), "cuda": str(torch.version.cuda)}
    if job.is_on_gpu:
        job.result["gpu"] = torch.cuda.get_device_name(0)
        cudnn: Any = torch.backends.cudnn
        job.result["versions"]["cudnn"] = str(cudnn.version())
    job.save()
    PARTS[options.part](job)
    job.save()
    return 1 if job.result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
