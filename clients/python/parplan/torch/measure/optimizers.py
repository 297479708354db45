"""Times of an optimizer's step."""

from __future__ import annotations

import torch
from torch import nn

from parplan.torch.measure.steady import Bench, Spread

_MATRIX = 1 << 20  # Elements of one parameter: the size of a small model's matrices.
OPTIMIZERS = {"OPTIMIZER_ADAM": torch.optim.AdamW, "OPTIMIZER_SGD": torch.optim.SGD}


def measure_optimizer(name: str, parameter_count: int, dtype: torch.dtype,
                      bench: Bench) -> Spread:
    """Returns the time of a step of `OPTIMIZERS[name]` that also sets gradients to zero."""
    place = bench.device.place
    sizes = [_MATRIX] * (parameter_count // _MATRIX)
    if parameter_count % _MATRIX:
        sizes.append(parameter_count % _MATRIX)
    parameters = [nn.Parameter(torch.randn(size, dtype=dtype, device=place)) for size in sizes]
    for one in parameters:
        one.grad = torch.randn_like(one)
    optimizer = OPTIMIZERS[name](parameters, lr=1e-6)

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    def sample() -> list[float]:
        for one in parameters:
            # Zeros could be faster to compute with.
            assert one.grad is not None
            one.grad.fill_(1e-3)
        return [bench.device.time(step)]

    return bench.measure(sample)[0]
