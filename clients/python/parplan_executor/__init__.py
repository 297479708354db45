"""Plans for training frameworks in Python: verified, and what each layer and rank has to do.

Pure Python over libparplan_executor.so (executor/capi/parplan_executor.h); needs no
other package. `torch_mapping` says it in torch's words.
"""

from .library import (Error, Group, Layer, LayerGroups, Pass, Plan, Rank, Refused, Report,
                      load_library)

__all__ = ["Error", "Group", "Layer", "LayerGroups", "Pass", "Plan", "Rank", "Refused",
           "Report", "load_library"]
