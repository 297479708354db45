"""Predicted memory beside what torch's MemTracker counts: three models, 20 plans each, on two ranks
of gloo. A command, no test:

    ./parplan-dev torch-test --study memory

Each model is measured by `parplan-torch profile`, each plan predicted by `planctl evaluate` for the
runtime `torch` from that profile alone, and then run by `parplan.torch.apply`. Compared are, of the
fullest rank: the parameters that it has between steps; what is allocated at the first backward pass
of the second step and was not at its beginning, which is what layers keep and parameters that
were gathered; and the peak of that step.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import statistics
import sys
import tempfile
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import study_models as models
import study_plans as study
import torch
import torch_jobs as jobs
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker

import parplan.torch
from parplan.strategy import Recompute, Sharding
from parplan.torch.measure.kept import constants_of
from parplan.torch.parts import local_of
from parplan.torch.stage import Stage

ADAM = functools.partial(torch.optim.AdamW, lr=1e-4)
QUANTITIES = ("parameters", "kept", "peak")
# Memory of a process that is no tensor.
OUTSIDE = ("context", "communicators", "workspace", "fragmentation")


class Tracker(MemTracker):
    """MemTracker for steps in which a module runs several times. It keeps what each module needed
    in one call, and refuses a second call of a module that no other one calls, to whose record it
    would add; that of the call before is given up here."""

    def _pre_fw_hook(self, module: nn.Module, inputs: Any) -> None:
        if not self._mod_tracker.is_bw:
            self.memory_tracking.pop(module, None)
        super()._pre_fw_hook(module, inputs)

    def _track_module_params_and_buffers(self, module: nn.Module,
                                         install_grad_hooks: bool = True) -> tuple[int, int]:
        # While a block that is split by hand runs, it has parts instead of parameters, which
        # take no hooks. Those only tell gradients from other memory.
        return super()._track_module_params_and_buffers(module, install_grad_hooks=False)


def total(tracker: Any, moment: str) -> int:
    return sum(sizes["Total"] for sizes in tracker.get_tracker_snapshot(moment).values())


def measure(kind: str, case: study.Case) -> dict[str, int]:
    """Returns the bytes of this rank."""
    plan = jobs.plan_of(models.spec_of(kind), [list(one) for one in case.stages], **case.options)
    run = parplan.torch.apply(plan, models.model_of(kind), models.loss_fn, optimizer=ADAM,
                              tensor_plan=models.tensor_plan_of(kind), device="cpu")
    batch = models.batch_of(study.BATCH)
    run.step(*batch)
    at_first_backward: list[int] = []
    begin_backward = Stage.begin_backward
    tracker = Tracker()
    bodies = [one for stage in run._spread.stages for one in stage.bodies]
    # Layers share what they made in the first step.
    constants = {id(one): one for body in bodies for one in constants_of(body)}
    tracker.track_external(*bodies, *constants.values(), *run.optimizers)

    def noted(stage: Stage, is_last: bool) -> None:
        if not at_first_backward:
            at_first_backward.append(total(tracker, "current"))
        begin_backward(stage, is_last)

    Stage.begin_backward = noted
    try:
        with tracker:
            # Gradients of the step before are freed at the beginning of a step.
            for parameter in run.parameters():
                parameter.grad = None
            before = total(tracker, "current")
            run.step(*batch)
            peak = total(tracker, "peak")
    finally:
        Stage.begin_backward = begin_backward
    parameters = sum(local_of(one).numel() * one.element_size() for one in run.parameters())
    return {"parameters": parameters, "kept": at_first_backward[0] - before, "peak": peak}


def kept_bytes(profile: dict, plan: parplan.Plan, rank: int) -> int:
    """Returns what a rank keeps at its first backward pass, from what was measured of each layer:
    activations or checkpoints of the micro-batches that went forward, outputs of stages but the
    last, the gradient that the pass gets, and parameters that ZeRO-1 and 2 gathered."""
    memories = {(one["layer_definition_id"], one["tensor_parallel_degree"]): one
                for one in profile["layer_memories"]}
    program = plan.rank(rank)
    passes = list(program.passes)
    first = next(place for place, one in enumerate(passes) if one.is_backward)
    message = plan.contents.micro_batch_size * models.TOKENS * models.HIDDEN * 4
    is_alone = plan.pipeline_parallel_degree == 1
    kept = 0 if is_alone or passes[first].stage_index + 1 == len(plan.stages) else message
    for stage in program.stages:
        in_flight = sum(one.stage_index == stage.stage_index for one in passes[:first])
        for layer in stage.layers:
            strategy = layer.layer.strategy
            memory = memories[layer.layer.layer_definition_id, strategy.tensor_parallel_degree]
            what = "checkpoint" if strategy.recompute == Recompute.FULL else "activation"
            samples = plan.contents.micro_batch_size // strategy.data_parallel_degree
            kept += in_flight * samples * int(memory[f"{what}_bytes_per_sample"])
            if (strategy.sharding in (Sharding.OPTIMIZER, Sharding.GRADIENTS)
                    and strategy.gradient_degree > 1):
                kept += 4 * int(memory["parameter_count"])
        if not is_alone and stage.stage_index + 1 < len(plan.stages):
            kept += in_flight * message
    return kept


def predicted(stage: dict) -> dict[str, int]:
    """Returns the same of a stage of a prediction, but for what is kept."""
    items = stage["memory_items"]
    return {"parameters": items["parameters"],
            "peak": sum(size for name, size in items.items() if name not in OUTSIDE)}


def study_model(kind: str, options: argparse.Namespace, folder: pathlib.Path) -> list[dict]:
    path = options.profiles / f"{kind}.profile.json" if options.profiles else None
    if path is not None and path.exists():
        (folder / "profile.json").write_text(path.read_text())
        (folder / "spec.json").write_bytes(study.plans.json_text(models.spec_of(kind)))
    else:
        study.profile(kind, folder, options.seconds)
        if path is not None:
            path.write_text((folder / "profile.json").read_text())
    profile = json.loads((folder / "profile.json").read_text())
    cases = [one for one in study.cases() if not options.plan or one.name in options.plan]
    predictions = [study.predict(options.planctl, folder, kind, case) for case in cases]
    measured = jobs.run_ranks(study.RANKS, folder, measure, [(kind, case) for case in cases])
    rows = []
    for case, prediction, ranks in zip(cases, predictions, measured):
        plan = jobs.plan_of(models.spec_of(kind), [list(one) for one in case.stages],
                            **case.options)
        stages = prediction["prediction"]["stages"]
        of_rank = [{**predicted(stages[rank * len(stages) // study.RANKS]),
                    "kept": kept_bytes(profile, plan, rank)} for rank in range(study.RANKS)]
        row: dict = {"model": kind, "plan": case.name, "items": [
            one["memory_items"] for one in stages], "ranks": ranks}
        text = f"{kind:<6} {case.name:<30}"
        for name in QUANTITIES:
            rank = max(range(study.RANKS), key=lambda one: ranks[one][name])
            row[name] = {"predicted": of_rank[rank][name], "measured": ranks[rank][name]}
            error = of_rank[rank][name] / max(ranks[rank][name], 1) - 1
            row[name]["error"] = error
            text += (f"  {name} {of_rank[rank][name] / 1e6:7.2f} for "
                     f"{ranks[rank][name] / 1e6:7.2f} MB {100 * error:+6.1f} %")
        rows.append(row)
        print(text, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--planctl", type=pathlib.Path, required=True)
    parser.add_argument("--model", nargs="+", choices=models.KINDS, default=list(models.KINDS))
    parser.add_argument("--plan", nargs="+", choices=[one.name for one in study.cases()],
                        help="by default all")
    parser.add_argument("--seconds", type=float, default=0.1,
                        help="of `parplan-torch profile`, whose times do not matter [0.1]")
    parser.add_argument("--profiles", type=pathlib.Path, metavar="FOLDER",
                        help="where profiles are kept; those that are there are not made again")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file of all rows")
    options = parser.parse_args()
    options.planctl = options.planctl.resolve()
    rows: list[dict] = []
    for kind in options.model:
        with tempfile.TemporaryDirectory() as folder:
            rows += study_model(kind, options, pathlib.Path(folder))
    for name in QUANTITIES:
        errors = [abs(row[name]["error"]) for row in rows]
        print(f"{name}: median {100 * statistics.median(errors):.1f} %, worst "
              f"{100 * max(errors):.1f} %")
    if options.out:
        options.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=2)
                               + "\n")


if __name__ == "__main__":
    main()
