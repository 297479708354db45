"""Predicted step times beside measured ones: three models, 20 plans each, on two ranks of gloo. A
command, no test; it needs a quiet machine of two cores:

    PYTHONPATH=clients/python python tests/clients/python/parplan/torch/step_time_study.py \\
      --planctl build/batches/bin/planctl

Each model is measured by `parplan-torch profile`, each plan predicted by `planctl evaluate` for the
runtime `torch` from that profile alone, and then run by `parplan.torch.apply`. A measured time is
the median over steps of the slower rank. Printed are, of each model and of all: the median and the
worst error (predicted over measured - 1), how much longer the plan that is predicted to be best
takes than the best, and the rank correlation (Spearman's).
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import study_models as models
import study_plans as study
import torch
import torch.distributed as dist
import torch_jobs as jobs

import parplan.torch

WARM_UPS = 2
ADAM = functools.partial(torch.optim.AdamW, lr=1e-4)


def measure(kind: str, case: study.Case, steps: int) -> list[float]:
    """Returns the seconds of each step, of the slower rank."""
    plan = jobs.plan_of(models.spec_of(kind), [list(one) for one in case.stages], **case.options)
    run = parplan.torch.apply(plan, models.model_of(kind), models.loss_fn, optimizer=ADAM,
                              tensor_plan=models.tensor_plan_of(kind), device="cpu")
    batch = models.batch_of(study.BATCH)
    seconds = []
    for _ in range(WARM_UPS + steps):
        dist.barrier()
        start = time.perf_counter()
        run.step(*batch)
        taken = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        seconds.append(taken.item())
    return seconds[WARM_UPS:]


def ranks_of(values: list[float]) -> list[float]:
    """Returns the places of values in order, equal values at the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(one) + (ordered.count(one) - 1) / 2 for one in values]


def correlation(first: list[float], second: list[float]) -> float:
    """Returns Spearman's rank correlation."""
    return statistics.correlation(ranks_of(first), ranks_of(second))


def summary(rows: list[dict]) -> dict:
    """Returns the figures of the targets for rows of one model."""
    errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    chosen = min(rows, key=lambda row: row["predicted"])
    best = min(row["measured"] for row in rows)
    return {"median": statistics.median(errors), "worst": max(errors),
            "best_behind": chosen["measured"] / best - 1,
            "rank_correlation": correlation([row["predicted"] for row in rows],
                                            [row["measured"] for row in rows])}


def study_model(kind: str, options: argparse.Namespace, folder: pathlib.Path) -> list[dict]:
    study.profile(kind, folder, options.seconds)
    cases = study.cases()
    predictions = [study.predict(options.planctl, folder, kind, case) for case in cases]
    measured = jobs.run_ranks(study.RANKS, folder, measure,
                              [(kind, case, options.steps) for case in cases])
    rows = []
    for case, prediction, (seconds, _) in zip(cases, predictions, measured):
        row = {"model": kind, "plan": case.name,
               "predicted": prediction["prediction"]["step_seconds"],
               "measured": statistics.median(seconds),
               "spread": max(seconds) / min(seconds) - 1,
               "stages": prediction["prediction"]["stages"]}
        rows.append(row)
        error = row["predicted"] / row["measured"] - 1
        print(f"{kind:<6} {case.name:<30} predicted {1e3 * row['predicted']:8.1f} ms  measured "
              f"{1e3 * row['measured']:8.1f} ms  {100 * error:+6.1f} %"
              f"  (steps spread {100 * row['spread']:.0f} %)", flush=True)
    return rows


def show(name: str, found: dict) -> None:
    print(f"{name}: median {100 * found['median']:.1f} %, worst {100 * found['worst']:.1f} %, "
          f"predicted best behind best {100 * found['best_behind']:.1f} %, rank correlation "
          f"{found['rank_correlation']:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--planctl", type=pathlib.Path, required=True)
    parser.add_argument("--model", nargs="+", choices=models.KINDS, default=list(models.KINDS))
    parser.add_argument("--steps", type=int, default=7, help="measured steps of a plan [7]")
    parser.add_argument("--seconds", type=float, default=2.0,
                        help="of `parplan-torch profile`: repeat one time so long at most [2]")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file of all rows")
    options = parser.parse_args()
    options.planctl = options.planctl.resolve()
    rows: list[dict] = []
    summaries = {}
    for kind in options.model:
        with tempfile.TemporaryDirectory() as folder:
            own = study_model(kind, options, pathlib.Path(folder))
        rows += own
        summaries[kind] = summary(own)
        show(kind, summaries[kind])
    errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    show("all", {"median": statistics.median(errors), "worst": max(errors),
                 "best_behind": max(one["best_behind"] for one in summaries.values()),
                 "rank_correlation": min(one["rank_correlation"] for one in summaries.values())})
    if options.out:
        options.out.write_text(json.dumps({"torch": torch.__version__, "models": summaries,
                                           "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
