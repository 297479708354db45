"""Runs a plan in PyTorch.

    run = parplan.torch.apply(plan, model, loss_fn, optimizer=torch.optim.AdamW)
    for inputs, targets in data:                 # the whole global batch
        loss = run.step(inputs, targets)

Every rank of the job calls this after torch.distributed.init_process_group. docs/python.md lists
what is run and what is refused.
"""

from parplan.torch.failures import RankFailed, RunFailed
from parplan.torch.initialize import initialize
from parplan.torch.layers import find_layers
from parplan.torch.report import ReportSummary
from parplan.torch.run import Run, apply
from parplan.torch.stacked_experts import stack_experts

__all__ = ["RankFailed", "ReportSummary", "Run", "RunFailed", "apply", "find_layers", "initialize",
           "stack_experts"]
