"""Traces of measured steps for the viewers of Chrome and Perfetto, beside predicted ones.

    from parplan.torch.trace import record
    record(run, inputs, targets, "step.trace.json", predicted="predicted.trace.json")
"""

from parplan.torch.trace.record import Difference, Measured, differences, record

__all__ = ["Difference", "Measured", "differences", "record"]
