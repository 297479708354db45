"""The part of a plan that one rank executes.

The counterpart of planner/program, held equal to it by tests over the plans of the C++ tests.
"""

from parplan.program.activation_layout import ActivationBlock, ActivationLayout, Interval
from parplan.program.pass_order import Pass, PassKind, pass_order
from parplan.program.rank_program import (Group, LayerProgram, RankProgram, StageProgram,
                                          make_rank_program)
from parplan.program.reshard import Reshard, Transfer, make_reshard

__all__ = ["ActivationBlock", "ActivationLayout", "Group", "Interval", "LayerProgram", "Pass",
           "PassKind", "RankProgram", "Reshard", "StageProgram", "Transfer", "make_rank_program",
           "make_reshard", "pass_order"]
