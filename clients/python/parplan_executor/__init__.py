"""Plans for training frameworks in Python: verifies a plan and describes each layer and rank.

    import parplan_executor

    library = parplan_executor.load_library()
    plan = parplan_executor.Plan(library, envelope, trust, model, topology, job_id="4711")
    layer = plan.layer(0)                    # degrees, sharding, recomputation
    rank = plan.rank(my_rank)
    for one in rank.passes():                # forward and backward passes of a step, in order
        ...
    with plan.report("planner:9477", ca_file="ca.pem") as report:
        report.add(rank=my_rank, first_step=0, step_count=10, median_step_seconds=0.41)

The texts given to Plan are contents of files, as bytes. Errors are raised as Error, or as Refused
if the plan must not be run here. Plans and ranks may be shared between threads, a report may not.

Pure Python over libparplan_executor.so (executor/capi/parplan_executor.h); needs no other package.
`torch_mapping` turns a plan into process groups and wrappers of torch.
"""

from .library import (Error, Group, Layer, LayerGroups, Pass, Plan, Rank, Refused, Report,
                      load_library)

__all__ = ["Error", "Group", "Layer", "LayerGroups", "Pass", "Plan", "Rank", "Refused",
           "Report", "load_library"]
