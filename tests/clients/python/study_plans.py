"""Twenty plans for two ranks, and what `planctl` predicts for them from a measured profile. Used by
the studies in parplan/torch."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import signed_plans as plans
import study_models as models

import parplan
from parplan.strategy import Recompute, Schedule, Sharding, Strategy

RANKS, BATCH = 2, 8
DEVICE_KIND = "CPU of the study"


@dataclasses.dataclass(frozen=True)
class Case:
    """A plan by its name."""
    name: str
    stages: tuple[tuple[Strategy, ...], ...]
    micro_batches: int
    schedule: Schedule = Schedule.ONE_FORWARD_ONE_BACKWARD
    virtual_stages: int = 1

    @property
    def options(self) -> dict[str, object]:
        return {"batch": BATCH, "micro_batch_count": self.micro_batches,
                "schedule": self.schedule, "virtual_stage_count": self.virtual_stages}


def _alike(strategy: Strategy) -> tuple[Strategy, ...]:
    """Returns a strategy for each layer. Only decoders recompute."""
    end = dataclasses.replace(strategy, recompute=Recompute.NONE)
    return (end, *[strategy] * models.DECODERS, end)


def _cut(*sizes: int) -> tuple[tuple[Strategy, ...], ...]:
    return tuple((Strategy(1, 1),) * size for size in sizes)


def cases() -> list[Case]:
    """Returns the plans: replicas, ZeRO, tensor parallelism, pipelines, and mixtures."""
    def data(sharding: Sharding, recompute: Recompute = Recompute.NONE) -> Strategy:
        return Strategy(1, 2, sharding=sharding, recompute=recompute)

    none, one, two, three = Sharding
    split = Strategy(2, 1)
    half = models.LAYERS // 2
    made = [Case(f"dp2 {level.name.lower()} x{count}", (_alike(data(level)),), count)
            for level, count in ((none, 1), (none, 4), (one, 1), (one, 4), (two, 2), (three, 1),
                                 (three, 4))]
    made += [
        Case("dp2 none recompute x1", (_alike(data(none, Recompute.FULL)),), 1),
        Case("dp2 parameters recompute x2", (_alike(data(three, Recompute.FULL)),), 2),
        Case("tp2 x1", (_alike(split),), 1), Case("tp2 x4", (_alike(split),), 4),
        Case("tp2 recompute x2",
             (_alike(dataclasses.replace(split, recompute=Recompute.FULL)),), 2)]
    made += [Case(f"pp2 x{count}", _cut(half, half), count) for count in (2, 4, 8)]
    made += [
        Case("pp2 gpipe x4", _cut(half, half), 4, Schedule.GPIPE),
        Case("pp2 uneven x4", _cut(half + 1, half - 1), 4),
        Case("pp2 interleaved x4", _cut(2, 1, 1, 2), 4, Schedule.INTERLEAVED, 2),
        Case("dp2 parameters, then tp2 x2", ((data(three),) * half + (split,) * half,), 2),
        Case("dp2 ends around tp2 x2",
             ((data(none), *[split] * models.DECODERS, data(none)),), 2)]
    assert len(made) == 20 and len({one.name for one in made}) == 20
    return made


def cluster() -> object:
    made = plans.topology_of(RANKS)
    made.node_groups[0].device_kind = DEVICE_KIND
    made.node_groups[0].device_memory_bytes = 1 << 34
    return made


def profile(kind: str, folder: pathlib.Path, seconds: float) -> pathlib.Path:
    """Measures a model by `parplan-torch profile` on two processes. Returns the profile."""
    spec, out = folder / "spec.json", folder / "profile.json"
    spec.write_bytes(plans.json_text(models.spec_of(kind)))
    command = [sys.executable, "-c", "from parplan.torch.command.main import main; "
               "from parplan.torch.processes import end_server; "
               # So the processor time of its ranks is not that of others.
               "code = main(); end_server(); raise SystemExit(code)", "profile", "--model", f"study_models:{kind}",
               "--spec", spec, "--micro-batch", "1", "2", "4", "8",
               "--tensor-parallel", "2", "--device-kind", DEVICE_KIND, "--devices-per-node",
               str(RANKS), "--seconds", str(seconds), "--out", out]
    if kind == "plain":
        command += ["--tensor-plan", "study_models:PLAIN_TENSOR_PLAN"]
    here = pathlib.Path(__file__).resolve().parent
    # The package may come from a relative path.
    package = pathlib.Path(parplan.__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (here, package)))}
    subprocess.run(list(map(str, command)), check=True, cwd=here, env=environment,
                   stdout=subprocess.DEVNULL)
    return out


def _join_runs(payload: object) -> None:
    """Makes one run of neighbouring layers that are alike, as `planctl` wants it."""
    for stage in payload.stages:
        runs = list(stage.layer_runs)
        del stage.layer_runs[:]
        for run in runs:
            last = stage.layer_runs[-1] if stage.layer_runs else None
            if (last is not None and last.layer_definition_id == run.layer_definition_id
                    and last.strategy == run.strategy):
                last.layer_count += run.layer_count
            else:
                stage.layer_runs.add().CopyFrom(run)


def predict(planctl: pathlib.Path, folder: pathlib.Path, kind: str, case: Case) -> dict:
    """Returns what `planctl evaluate` prints for a plan, from the profile in the folder."""
    spec, topology = models.spec_of(kind), cluster()
    payload = plans.payload_of(spec, topology, [list(one) for one in case.stages], **case.options)
    _join_runs(payload)
    (folder / "plan.json").write_text(plans.sign(payload.SerializeToString(),
                                                 plans.FIRST).to_json())
    (folder / "cluster.json").write_bytes(plans.json_text(topology))
    answer = subprocess.run(
        [planctl, "evaluate", folder / "plan.json", "--model", folder / "spec.json", "--cluster",
         folder / "cluster.json", "--profile", folder / "profile.json", "--runtime", "torch",
         "--format", "json"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{kind}, {case.name}: {answer.stderr or answer.stdout}")
    return dict(json.loads(answer.stdout))
