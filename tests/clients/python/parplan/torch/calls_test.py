"""How much Python of ours a step runs: calls of functions of parplan, which do not depend on the
machine. Beside them a step is what PyTorch does for the same layers."""

import pathlib
import sys

import pytest
import torch_jobs as jobs

import parplan.torch
from parplan.strategy import Sharding, Strategy

OURS = str(pathlib.Path(parplan.torch.__file__).parent)
# Calls for each layer of a micro-batch, both passes together, and those of a step for each of its
# parameters.
AT_MOST = {"replicas": (4, 2), "sharded": (5, 2), "split": (6, 2)}
STRATEGIES = {"replicas": Strategy(1, 2), "split": Strategy(2, 1),
              "sharded": Strategy(1, 2, sharding=Sharding.PARAMETERS)}


def count(kind, layer_count, micro_batches):
    """Returns the calls of a step, and the number of parameters."""
    plan = jobs.plan_of(jobs.spec_of("plain", layer_count), [[STRATEGIES[kind]] * layer_count],
                        batch=2 * micro_batches, micro_batch_count=micro_batches)
    run = parplan.torch.apply(plan, jobs.model_of("plain", layer_count), jobs.loss_fn,
                              tensor_plan=jobs.TENSOR_PLAN, device="cpu")
    batch = jobs.batch_of(2 * micro_batches)
    run.step(*batch)
    calls = 0

    def noted(frame, event, _):
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(OURS)

    sys.setprofile(noted)
    try:
        run.step(*batch)
    finally:
        sys.setprofile(None)
    return calls, len(list(run.parameters()))


@pytest.mark.parametrize("kind", [one for one in AT_MOST if one != "sharded" or jobs.SHARDS_HERE])
def test_calls_grow_with_layers_and_micro_batches_alone(tmp_path, kind):
    cases = [(layers, micro) for layers in (3, 4, 5) for micro in (1, 2, 3)]
    found = {case: ranks[0] for case, ranks in zip(cases, jobs.run_ranks(
        2, tmp_path, count, [(kind, *case) for case in cases]))}
    calls = {case: one[0] for case, one in found.items()}
    assert all(one == found[case] for case, one in found.items())
    # Each layer of each micro-batch adds as many.
    each = calls[4, 2] - calls[3, 2] - calls[4, 1] + calls[3, 1]
    for (layers, micro), number in calls.items():
        expected = (calls[3, 1] + (layers - 3) * (calls[4, 1] - calls[3, 1])
                    + (micro - 1) * (calls[3, 2] - calls[3, 1]) + (layers - 3) * (micro - 1) * each)
        assert number == expected, (layers, micro)
    most, of_parameters = AT_MOST[kind]
    assert each <= most
    # Apart from its passes, a layer adds the gradients of its parameters.
    more = found[4, 1][1] - found[3, 1][1]
    assert calls[4, 1] - calls[3, 1] - each <= 4 + of_parameters * more
