"""What the last stage of a pipeline holds on to."""

import weakref

import pytest
import torch_jobs as jobs

import parplan.torch
from parplan.strategy import Schedule, Strategy

LAYERS, MICRO_BATCHES = 4, 4


def most_logits(schedule):
    """Returns how many micro-batches have logits at the same time, and how many after the step."""
    half = [Strategy(1, 1)] * (LAYERS // 2)
    plan = jobs.plan_of(jobs.spec_of("plain", LAYERS), [half, half], batch=MICRO_BATCHES,
                        micro_batch_count=MICRO_BATCHES, schedule=schedule)
    logits, most = [], 0

    def loss_fn(output, target):
        nonlocal most
        if not output.requires_grad:
            # It is asked whether it is a mean.
            return jobs.loss_fn(output, target)
        logits.append(weakref.ref(output))
        most = max(most, sum(one() is not None for one in logits))
        return jobs.loss_fn(output, target)

    run = parplan.torch.apply(plan, jobs.model_of("plain", LAYERS), loss_fn, device="cpu")
    run.step(*jobs.batch_of(MICRO_BATCHES))
    return len(logits), most, sum(one() is not None for one in logits)


@pytest.mark.parametrize("schedule", [Schedule.ONE_FORWARD_ONE_BACKWARD, Schedule.GPIPE])
def test_logits_live_as_long_as_their_loss_is_computed(tmp_path, schedule):
    first, last = jobs.run_ranks(2, tmp_path, most_logits, [(schedule,)])[0]
    assert first == (0, 0, 0)
    assert last == (MICRO_BATCHES, 1, 0)
