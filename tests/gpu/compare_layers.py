#!/usr/bin/env python3
"""Compares the layer steps of device_report with those of plain PyTorch on the same GPU.

    compare_layers.py STEPS.jsonl LAYERS.json

STEPS.jsonl is what `device_report --steps` wrote, LAYERS.json what torch_checks.py wrote. Prints a
table, and ends with 1 if a step takes longer than its goal times PyTorch's, with 77 if no layer is
in both.
"""

from __future__ import annotations

import json
import pathlib
import sys

# Largest ratio of a step, forward and backward, to that of PyTorch.
GOALS = {"eager": 1.15, "compiled": 1.25}


def main() -> int:
    if len(sys.argv) != 3:
        print("usage: compare_layers.py STEPS.jsonl LAYERS.json", file=sys.stderr)
        return 2
    own = {}
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        row = json.loads(line)
        own[row["layer"], row["sequence"], row["samples"]] = row
    slow = compared = 0
    worst = {}
    print(f"{'layer':<26} {'tokens':>6} {'samples':>7} {'step, ms':>9} {'PyTorch':>9} {'ratio':>6} "
          f"{'goal':>5}")
    for row in json.loads(pathlib.Path(sys.argv[2]).read_text()):
        matching = [one for (name, tokens, samples), one in own.items()
                    if row["name"].startswith(name) and (tokens, samples) == (
                        row["tokens"], row["samples"])]
        if not matching:
            continue
        step = matching[0]["forward_ms"] + matching[0]["backward_ms"]
        other = row["forward_ms"] + row["backward_ms"]
        goal = GOALS[row["runtime"]]
        compared += 1
        slow += step > goal * other
        worst[row["runtime"]] = max(worst.get(row["runtime"], 0.0), round(step / other, 4))
        print(f"{matching[0]['layer'] + ', ' + row['runtime']:<26} {row['tokens']:>6} "
              f"{row['samples']:>7} {step:>9.3f} {other:>9.3f} {step / other:>6.2f} {goal:>5.2f}")
    print(f"{compared} layers compared, {slow} beyond their goal")
    print(json.dumps({"layers": compared, "largest_ratios": worst, "goals": GOALS}))
    if compared == 0:
        return 77
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
