"""Embeddings whose ranks share the rows of the table.

DTensor makes the gradient of all rows on every rank and leaves each its own at the end of a step.
Here a rank looks up the tokens of its own rows alone, so that it makes their gradient alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from parplan.torch.parts import Cut, cut_parameter, left, local_of

_ROWS = Cut(0)


def can_share_rows(module: nn.Module, degree: int) -> bool:
    """Returns whether `share_rows` knows a module: a plain embedding whose rows the ranks can have
    equal parts of."""
    return (isinstance(module, nn.Embedding) and type(module).forward is nn.Embedding.forward
            and module.max_norm is None and not module.scale_grad_by_freq and not module.sparse
            and _ROWS.divides(module.weight.shape, degree))


def share_rows(module: Any, mesh: DeviceMesh, dimension: int | None) -> None:
    """Shares the rows of a table over `mesh`, of which all ranks get the same tokens. The embedding
    returns all rows of activations, or the rank's share of them along `dimension` if that is
    given."""
    module.weight = cut_parameter(module.weight, mesh, [_ROWS])
    vars(module)["forward"] = _OwnRows(module, mesh, dimension)


class _OwnRows:
    """The call of an embedding. Takes the place of its `forward`."""

    def __init__(self, module: Any, mesh: DeviceMesh, dimension: int | None) -> None:
        self._module, self._mesh, self._dimension = module, mesh, dimension
        self._count = module.num_embeddings // mesh.size()
        self._first = self._count * mesh.get_local_rank()
        padding: Any = module.padding_idx
        # The row without a gradient, if it is here.
        self._padding = (padding - self._first if padding is not None
                         and self._first <= padding < self._first + self._count else None)

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = tokens - self._first
        is_elsewhere = (rows < 0) | (rows >= self._count)
        found = nn.functional.embedding(rows.masked_fill(is_elsewhere, 0),
                                        local_of(self._module.weight), self._padding)
        summand = found.masked_fill(is_elsewhere.unsqueeze(-1), 0.0)
        return left(summand, self._mesh, self._dimension)
