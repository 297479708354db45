"""Plans of distributed training: asks a server for them, verifies them, and says what each rank
does.

    plan = parplan.Plan.load(envelope, trust, model, topology)     # contents of files
    plan.layers[0].strategy                                         # degrees, sharding, recompute
    plan.rank(3).passes                                             # order of a step

`parplan.torch` runs a plan in PyTorch (extra `parplan[torch]`).
"""

from parplan.channel import Tls
from parplan.client import Client
from parplan.errors import Error
from parplan.plan import Plan
from parplan.plan_contents import Layer, PlanContents, Stage
from parplan.program import Group, LayerProgram, Pass, RankProgram, Reshard, StageProgram
from parplan.strategy import (ContextKind, Recompute, RecomputeModule, RecomputePolicy, Schedule,
                              Sharding, Strategy)

__version__ = "0.1.0"

__all__ = ["Client", "ContextKind", "Error", "Group", "Layer", "LayerProgram", "Pass", "Plan",
           "PlanContents", "RankProgram", "Recompute", "RecomputeModule", "RecomputePolicy",
           "Reshard", "Schedule", "Sharding", "Stage", "StageProgram", "Strategy", "Tls",
           "__version__"]
