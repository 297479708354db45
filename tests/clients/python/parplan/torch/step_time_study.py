"""Predicted step times beside measured ones: three models, 20 plans each, on two ranks of gloo. A
command, no test; it needs a quiet machine of two cores:

    ./parplan-dev torch-test --study time

Each model is measured by `parplan-torch profile`, each plan predicted by `planctl evaluate` for the
runtime `torch` from that profile alone, and then run by `parplan.torch.apply`. A measured time is
the median over steps of the slower rank. Of the steps those count in which threads waited for a
processor least: steps go on until enough of them had it nearly always, or for `--patience` seconds.
Printed are, of each model and of all: the median and the
worst error (predicted over measured - 1), how much longer the plan that is predicted to be best
takes than the best, and the rank correlation (Spearman's).

Profile and plans are measured `--turns` times, in turns, and of a plan the medians of predictions
and of measured times over the turns are compared: a machine that is shared with others is faster at
one minute than at the next, which is no error of a prediction. Each plan has processes of its own,
since threads of groups outlive the plan that made them and wake up a hundred times a second.

Beside each row stands the share of the processors that other programs had; above 5 % the row is
marked BUSY, and its plan is measured again, up to `--rounds` times in a turn. Of several
measurements the one with the smallest share counts. A profile that was made on a busy machine is
made again as often.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import machine_use
import study_models as models
import study_plans as study
import torch
import torch.distributed as dist
import torch_jobs as jobs

import parplan.torch

WARM_UPS = 2
# Steps are measured until the share of others can be judged.
LEAST_SECONDS = 1.5 * machine_use.SHORTEST_SECONDS
ADAM = functools.partial(torch.optim.AdamW, lr=1e-4)
TARGETS = {"median": 0.08, "worst": 0.20, "best_behind": 0.05, "rank_correlation": 0.9}


# A step in which threads of a rank waited this share of it for a processor counts as undisturbed.
WAITED_RATIO = 0.02
Step = tuple[float, float]  # Seconds, and those that threads of a rank waited for a processor.


def undisturbed(steps: Sequence[Step], count: int) -> list[Step]:
    """Returns the `count` steps in which threads waited for the smallest share of the time."""
    return sorted(steps, key=lambda one: one[1] / one[0])[:count]


def is_enough(steps: Sequence[Step], count: int, patience: float) -> bool:
    """Returns whether `count` of the steps were undisturbed, or all took more than `patience`
    seconds; and the share of others can be judged."""
    total = sum(seconds for seconds, _ in steps)
    quiet = sum(waited <= WAITED_RATIO * seconds for seconds, waited in steps)
    return total >= LEAST_SECONDS and len(steps) >= count and (quiet >= count or total > patience)


def measure(kind: str, case: study.Case, steps: int,
            patience: float) -> tuple[list[Step], tuple]:
    """Returns the steps that count, each as the slower rank has it, and the readings of this
    rank."""
    plan = jobs.plan_of(models.spec_of(kind), [list(one) for one in case.stages], **case.options)
    run = parplan.torch.apply(plan, models.model_of(kind), models.loss_fn, optimizer=ADAM,
                              tensor_plan=models.tensor_plan_of(kind), device="cpu")
    batch = models.batch_of(study.BATCH)
    for _ in range(WARM_UPS):
        run.step(*batch)
    found: list[Step] = []
    before = machine_use.read()
    while not is_enough(found, steps, patience):
        dist.barrier()
        waited, start = machine_use.waited(), time.perf_counter()
        run.step(*batch)
        seconds = time.perf_counter() - start
        # A thread that ended is counted no more.
        waited = max(machine_use.waited() - waited, 0.0)
        taken = torch.tensor([seconds, waited], dtype=torch.float64)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        found.append((taken[0].item(), taken[1].item()))
    return undisturbed(found, steps), (before, machine_use.read())


def ranks_of(values: Sequence[float]) -> list[float]:
    """Returns the places of values in order, equal values at the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(one) + (ordered.count(one) - 1) / 2 for one in values]


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns Spearman's rank correlation."""
    return statistics.correlation(ranks_of(first), ranks_of(second))


def summary(rows: Sequence[dict]) -> dict:
    """Returns the figures of the targets for rows of one model."""
    errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    chosen = min(rows, key=lambda row: row["predicted"])
    best = min(row["measured"] for row in rows)
    return {"median": statistics.median(errors), "worst": max(errors),
            "best_behind": chosen["measured"] / best - 1,
            "rank_correlation": correlation([row["predicted"] for row in rows],
                                            [row["measured"] for row in rows])}


def joined(rows: Sequence[dict], summaries: Sequence[dict]) -> dict:
    """Returns the figures of all models: errors over all rows, of the others the worst."""
    errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    return {"median": statistics.median(errors), "worst": max(errors),
            "best_behind": max(one["best_behind"] for one in summaries),
            "rank_correlation": min(one["rank_correlation"] for one in summaries)}


def least_busy(measure_some: Callable[[list], list[dict]], items: list, rounds: int) -> list[dict]:
    """Returns a measurement of each item: of several the one with the smallest share of others
    (`others` of what `measure_some` returns for a list of items). Those on a busy machine are made
    again, in `rounds` rounds at most."""
    best: list[dict | None] = [None] * len(items)
    left = list(range(len(items)))
    for _ in range(rounds):
        for place, found in zip(left, measure_some([items[one] for one in left])):
            before = best[place]
            if before is None or (found["others"] or 0.0) < (before["others"] or 0.0):
                best[place] = found
        left = [place for place in left if machine_use.is_busy((best[place] or {})["others"])]
        if not left:
            break
    return [one for one in best if one is not None]


def measured_profile(kind: str, folder: pathlib.Path, options: argparse.Namespace) -> float | None:
    """Measures the profile of a model in a folder. Returns the share of others meanwhile."""
    def once(_: list) -> list[dict]:
        before = machine_use.read()
        path = study.profile(kind, folder, options.seconds)
        return [{"others": machine_use.share_of_others([(before, machine_use.read())]),
                 "text": path.read_text()}]

    (found,) = least_busy(once, [kind], options.rounds)
    (folder / "profile.json").write_text(found["text"])
    return found["others"]


def measured_steps(kind: str, cases: Sequence[study.Case],
                   options: argparse.Namespace) -> list[dict]:
    """Measures plans. Returns the steps of each that count, and the share of others meanwhile."""
    def measure_some(some: list) -> list[dict]:
        found = []
        for case in some:
            with tempfile.TemporaryDirectory() as place:
                (ranks,) = jobs.run_ranks(study.RANKS, pathlib.Path(place), measure,
                                          [(kind, case, options.steps, options.patience)])
            found.append({"steps": ranks[0][0],
                          "others": machine_use.share_of_others([one[1] for one in ranks])})
        return found

    return least_busy(measure_some, list(cases), options.rounds)


def joined_turns(turns: Sequence[dict]) -> dict:
    """Returns a row of what turns have of one plan: predictions and steps."""
    seconds = [[one for one, _ in turn["steps"]] for turn in turns]
    medians = [statistics.median(one) for one in seconds]
    return {"predicted": statistics.median(turn["prediction"]["step_seconds"] for turn in turns),
            "measured": statistics.median(medians),
            "others": max((turn["others"] for turn in turns if turn["others"] is not None),
                          default=None),
            "waited": statistics.median(wait / one for turn in turns
                                        for one, wait in turn["steps"]),
            "spread": max(max(one) / min(one) - 1 for one in seconds),
            "turns_spread": max(medians) / min(medians) - 1,
            "turns": [{"predicted": turn["prediction"]["step_seconds"], "measured": median}
                      for turn, median in zip(turns, medians)],
            "stages": turns[-1]["prediction"]["stages"]}


def study_model(kind: str, options: argparse.Namespace, folder: pathlib.Path) -> list[dict]:
    cases = [one for one in study.cases() if not options.plan or one.name in options.plan]
    turns: list[list[dict]] = [[] for _ in cases]
    for number in range(options.turns):
        turn = folder / str(number)
        turn.mkdir()
        others = measured_profile(kind, turn, options)
        print(f"{kind:<6} profile {number + 1} of {options.turns}, {machine_use.mark(others)}",
              flush=True)
        for of_case, found in zip(turns, measured_steps(kind, cases, options)):
            of_case.append(found)
    rows = []
    for case, of_case in zip(cases, turns):
        for number, one in enumerate(of_case):
            one["prediction"] = study.predict(options.planctl, folder / str(number), kind,
                                              case)["prediction"]
        row = {"model": kind, "plan": case.name, **joined_turns(of_case)}
        rows.append(row)
        error = row["predicted"] / row["measured"] - 1
        print(f"{kind:<6} {case.name:<30} predicted {1e3 * row['predicted']:8.1f} ms  measured "
              f"{1e3 * row['measured']:8.1f} ms  {100 * error:+6.1f} %  (steps spread "
              f"{100 * row['spread']:.0f} %, turns {100 * row['turns_spread']:.0f} %, waited "
              f"{100 * row['waited']:.0f} %, {machine_use.mark(row['others'])})", flush=True)
    return rows


def show(name: str, found: dict) -> None:
    print(f"{name}: median {100 * found['median']:.1f} %, worst {100 * found['worst']:.1f} %, "
          f"predicted best behind best {100 * found['best_behind']:.1f} %, rank correlation "
          f"{found['rank_correlation']:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--planctl", type=pathlib.Path, required=True)
    parser.add_argument("--model", nargs="+", choices=models.KINDS, default=list(models.KINDS))
    parser.add_argument("--plan", nargs="+", choices=[one.name for one in study.cases()],
                        help="two or more; by default all")
    parser.add_argument("--steps", type=int, default=7, help="measured steps of a plan [7]")
    parser.add_argument("--patience", type=float, default=5.0,
                        help="seconds of steps of a plan while none is undisturbed [5]")
    parser.add_argument("--turns", type=int, default=3,
                        help="measurements of the profile and of each plan, in turns [3]")
    parser.add_argument("--rounds", type=int, default=3,
                        help="measurements of a plan in a turn while the machine is busy [3]")
    parser.add_argument("--seconds", type=float, default=2.0,
                        help="of `parplan-torch profile`: repeat one time so long at most [2]")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file of all rows")
    options = parser.parse_args()
    if options.plan and len(set(options.plan)) < 2:
        parser.error("--plan needs two plans, whose order is compared")
    options.planctl = options.planctl.resolve()
    rows: list[dict] = []
    summaries = {}
    for kind in options.model:
        with tempfile.TemporaryDirectory() as folder:
            own = study_model(kind, options, pathlib.Path(folder))
        rows += own
        summaries[kind] = summary(own)
        show(kind, summaries[kind])
    show("all", joined(rows, list(summaries.values())))
    busy = sum(machine_use.is_busy(row["others"]) for row in rows)
    print(f"{len(rows)} plans, {busy} of them measured on a busy machine", flush=True)
    if options.out:
        options.out.write_text(json.dumps({"torch": torch.__version__, "targets": TARGETS,
                                           "models": summaries, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
