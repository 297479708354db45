"""What travels in a step: gradients once where the plan says so, parameters ahead of their use."""

import pytest
import torch
import torch.distributed as dist
import torch_jobs as jobs
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as param_group
from torch.distributed.tensor.debug import CommDebugMode

import parplan.torch
from parplan.strategy import Sharding, Strategy

LAYERS = 4


def start(strategy, micro_batch_count):
    plan = jobs.plan_of(jobs.spec_of("plain", LAYERS), [[strategy] * LAYERS],
                        batch=strategy.rank_count * micro_batch_count,
                        micro_batch_count=micro_batch_count)
    return parplan.torch.apply(plan, jobs.model_of("plain", LAYERS), jobs.loss_fn, device="cpu")


def count(strategy, micro_batch_count):
    """Returns the collectives of a step by their kind, without that of the loss."""
    run = start(strategy, micro_batch_count)
    batch = jobs.batch_of(strategy.rank_count * micro_batch_count)
    with CommDebugMode() as counted:
        run.step(*batch)
    found = {"all_reduce": -1, "all_gather": 0, "reduce_scatter": 0}
    for kind, number in counted.get_comm_counts().items():
        name = str(kind).lower()
        for one in found:
            if one in name or one in name.replace("allreduce", "all_reduce").replace(
                    "allgather", "all_gather").replace("_base", ""):
                found[one] += number
                break
    return found


def test_gradients_and_parameters_travel_as_often_as_the_level_says(tmp_path):
    levels = Sharding if jobs.SHARDS_HERE else [Sharding.NONE]
    cases = [(sharding, micro) for sharding in levels for micro in (1, 3)]
    answers = jobs.run_ranks(2, tmp_path, count, [
        (Strategy(1, 2, sharding=sharding), micro) for sharding, micro in cases])
    for (sharding, micro), (found, _) in zip(cases, answers):
        expected = {"all_reduce": 0, "all_gather": LAYERS, "reduce_scatter": LAYERS}
        if sharding == Sharding.NONE:
            expected = {"all_reduce": LAYERS, "all_gather": 0, "reduce_scatter": 0}
        if sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS):
            expected["reduce_scatter"] = LAYERS * micro
        if sharding == Sharding.PARAMETERS:
            # For the forward and for the backward pass.
            expected["all_gather"] = 2 * LAYERS * micro
        assert found == expected, (sharding, micro)


@pytest.mark.skipif(not jobs.SHARDS_HERE, reason="this release shards nothing on processors")
def test_groups_that_share_states_are_summed_once_a_step(tmp_path):
    cases = [(sharding, micro) for sharding in Sharding if sharding != Sharding.NONE
             for micro in (1, 3)]
    answers = jobs.run_ranks(4, tmp_path, count, [
        (Strategy(1, 4, sharding=sharding, sharding_degree=2), micro)
        for sharding, micro in cases])
    for (sharding, micro), found in zip(cases, answers):
        scatters = LAYERS * (1 if sharding == Sharding.OPTIMIZER else micro)
        gathers = LAYERS * (2 * micro if sharding == Sharding.PARAMETERS else 1)
        assert found[0] == {"all_reduce": LAYERS, "all_gather": gathers,
                            "reduce_scatter": scatters}, (sharding, micro)


def prefetch():
    """Returns how many gathers of parameters were begun ahead, by the pass they are for."""
    calls = []

    def noted(target, kind, real=param_group.FSDPParamGroup._prefetch_unshard):
        calls.append(kind)
        real(target, kind)

    param_group.FSDPParamGroup._prefetch_unshard = staticmethod(noted)
    run = start(Strategy(1, 2, sharding=Sharding.PARAMETERS), 1)
    run.step(*jobs.batch_of(2))
    dist.barrier()
    return {kind: calls.count(kind) for kind in ("forward", "backward")}


@pytest.mark.skipif(not jobs.SHARDS_HERE, reason="this release shards nothing on processors")
def test_parameters_of_the_next_layer_are_gathered_ahead(tmp_path):
    torch.manual_seed(0)
    for found in jobs.run_ranks(2, tmp_path, prefetch, [()])[0]:
        assert found == {"forward": LAYERS - 1, "backward": LAYERS - 1}
