"""The types of numbers that a job computes with.

With "bf16" every rank keeps its parameters in 32 bits and computes with copies of 16: forward and
backward passes, and the activations that ranks exchange. Gradients are added up in 32 bits over
micro-batches and ranks, and the optimizer updates the parameters of 32 bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from parplan.errors import field_error
from parplan.torch.parts import Swap, swapped
from parplan.wire import messages

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_PARAMETER_TYPES = {"PRECISION_FP32": torch.float32, "PRECISION_BF16": torch.bfloat16,
                    "PRECISION_FP16": torch.float16}


def dtype_of(precision: str | None) -> torch.dtype | None:
    """Returns the type of the copies, or None if layers compute with their parameters. Raises
    SpecInvalid for a precision that is not known."""
    if precision is None:
        return None
    if precision not in _TYPES:
        raise field_error("SPEC_INVALID", "precision",
                          f"{precision} is not known; known are {', '.join(_TYPES)}, and None for "
                          "the types of the model. fp16 would need its loss scaled")
    return _TYPES[precision]


def parameter_type(precision: int) -> torch.dtype:
    """Returns the type of the parameters of a model with this `Precision` (model.proto). Raises
    SpecInvalid naming `precision` if it is not set or this release does not know it."""
    name = messages.enum_name("Precision", precision)
    if name not in _PARAMETER_TYPES:
        raise field_error("SPEC_INVALID", "precision",
                          f"{name} is not known to this release; known are "
                          f"{', '.join(_PARAMETER_TYPES)}")
    return _PARAMETER_TYPES[name]


class Cast:
    """A layer whose parameters nothing else makes copies of. Calls it with copies of `dtype`, whose
    gradients go to the parameters."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        self._module = module
        self._dtype = dtype
        self._places: list[tuple[nn.Module, str, Swap]] = [
            (part, name, self._copy) for part in module.modules()
            for name, parameter in part.named_parameters(recurse=False)
            if parameter.is_floating_point()]

    def __call__(self, hidden: torch.Tensor) -> Any:
        with swapped(self._places):
            return self._module(hidden.to(self._dtype) if hidden.is_floating_point() else hidden)

    def _copy(self, parameter: torch.Tensor) -> torch.Tensor:
        return parameter.to(self._dtype)
