"""A process that applies many plans has no more groups than ways to spread layers."""

import torch.distributed as dist
import torch_jobs as jobs

from parplan.strategy import Schedule, Strategy

RANKS = 4
SPLIT, COPIES = Strategy(2, 1), Strategy(1, 2)
SHARED = Strategy(1, 1, context_parallel_degree=2)
# A pipeline with ends that share a table, and one stage whose layers are spread in three ways.
PIPELINE = [[COPIES, SPLIT], [SHARED, COPIES]]
ALONE = [[Strategy(2, 2), Strategy(1, 4), Strategy(1, 2, context_parallel_degree=2),
          Strategy(2, 2)]]


def steps_of_many_plans():
    """Returns the difference from one process and the number of groups after a step under each of
    two plans, then under each once more."""
    found = []
    for stages, is_tied in ((PIPELINE, True), (ALONE, False)) * 2:
        plan = jobs.plan_of(jobs.spec_of("plain", 4, is_tied), stages, batch=8,
                            micro_batch_count=2, schedule=Schedule.ONE_FORWARD_ONE_BACKWARD)
        answer = jobs.compare_one_step(plan, jobs.model_of("plain", 4, is_tied),
                                       tensor_plan=jobs.TENSOR_PLAN)
        found.append((answer["gradient"], len(dist.distributed_c10d._world.pg_map)))
    return found


def test_later_plans_use_the_groups_of_earlier_ones(tmp_path):
    (answers,) = jobs.run_ranks(RANKS, tmp_path, steps_of_many_plans, [()])
    for found in answers:
        assert max(gradient for gradient, _ in found) <= 1e-4, found
        first, both, again, last = (count for _, count in found)
        # The job's own group, and more for each plan that is new.
        assert 1 < first < both == again == last, found
