"""Free blocks of the simulated allocator of GPUs beside the largest tensor: ten plans of two models
on one device. A command, no test:

    ./parplan-dev torch-test --study blocks

`RuntimeTraits::free_block_share` of the runtime `torch` is chosen by its last lines: the share with
which the worst of these peaks is off least. It needs no GPU, and takes a minute.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import signed_plans as plans
import torch_jobs as jobs

from parplan.strategy import Recompute, Strategy
from parplan.torch.check import memory
from parplan.torch.check.models import Source
from parplan.wire import json_file

# The models that docs/measurements/gpu.md measured layers of. The eight plans whose peaks it has
# are of another one, llama-2k.
PREPARED = (pathlib.Path(__file__).resolve().parents[5]
            / "docs/measurements/h100/torch/prepared")
CASES = {"gpt-2k": (1, 4, 8), "llama-8k": (1, 2)}
SHARES = tuple(one / 10 for one in range(0, 11))


def largest_tensor(spec: Any, samples: int) -> int:
    """Returns the bytes of the logits in 32 bits, or of the gradient of the head."""
    head = next(one for one in spec.layer_definitions if one.layer_definition_id == "head")
    return 4 * head.vocabulary_size * max(head.hidden_size, samples * head.sequence_length)


def simulated(model: str, samples: int, recompute: Recompute) -> tuple[memory.Peaks, int]:
    """Returns the peaks of a plan with two micro-batches, and its largest tensor."""
    spec = json_file.parse((PREPARED / model / "model.json").read_bytes(), "ModelSpec", "model")
    count = sum(run.layer_count for run in spec.layer_runs)
    inner = [Strategy(recompute=recompute)] * (count - 2)
    plan = jobs.plan_of(spec, [[Strategy(), *inner, Strategy()]], batch=2 * samples,
                        micro_batch_count=2)
    source = Source(f"hf:{PREPARED / model}/config.json")
    return (memory.peaks_of(memory.allocations_here(plan, source, None)),
            largest_tensor(spec, samples))


def main() -> None:
    rows = []
    for model, sizes in CASES.items():
        for samples in sizes:
            for recompute in (Recompute.NONE, Recompute.FULL):
                peaks, largest = simulated(model, samples, recompute)
                free = peaks.reserved_expandable - peaks.allocated
                rows.append((peaks, free, largest))
                print(f"{model:<9} {samples} samples, {recompute.name.lower():<4}: tensors "
                      f"{peaks.allocated / 1e9:6.3f} GB, free blocks {free / 1e9:5.3f} GB, "
                      f"{free / largest:4.2f} of the largest tensor", flush=True)
    for share in SHARES:
        errors = [abs(share * largest - free) / peaks.reserved_expandable
                  for peaks, free, largest in rows]
        print(f"share {share}: peak off by {100 * statistics.median(errors):.1f} % in the median, "
              f"{100 * max(errors):.1f} % at worst")


if __name__ == "__main__":
    main()
