"""Times of an optimizer's step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from parplan.torch.measure.steady import Bench, Spread

_MATRIX = 1 << 20  # Elements of one parameter: the size of a small model's matrices.
OPTIMIZERS = {"OPTIMIZER_ADAM": torch.optim.AdamW, "OPTIMIZER_SGD": torch.optim.SGD}


def measure_optimizer(name: str, parameter_count: int, dtype: torch.dtype,
                      bench: Bench) -> Spread:
    """Returns the time of a step of `OPTIMIZERS[name]`, on a GPU in one kernel (`fused`), which
    needs no further memory either. Gradients are not cleared: `Run.step` drops them."""
    place = bench.device.place
    options: dict[str, Any] = {"fused": True} if place.type == "cuda" else {}
    sizes = [_MATRIX] * (parameter_count // _MATRIX)
    if parameter_count % _MATRIX:
        sizes.append(parameter_count % _MATRIX)
    parameters = [nn.Parameter(torch.randn(size, dtype=dtype, device=place)) for size in sizes]
    for one in parameters:
        one.grad = torch.randn_like(one)
    optimizer = OPTIMIZERS[name](parameters, lr=1e-6, **options)

    def sample() -> list[float]:
        return [bench.device.time(optimizer.step)]

    return bench.measure(sample)[0]
