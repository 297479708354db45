"""Attention of queries to a block of keys and values, in a form whose results for several blocks
can be joined: with the logarithm of the sum of exponentials (lse) of each query's scores.

PyTorch's fused kernels return it and take it back in their backward pass. They are used where they
take the operands; else the same is computed with matrices of scores, which are then in memory for
one block at a time.
"""

from __future__ import annotations

import math
from typing import Any

import torch

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

# Fused kernels of GPUs take these types, and rows of a multiple of so many elements up to a size.
_HALVES = (torch.float16, torch.bfloat16)
_GPU_MULTIPLE, _GPU_LARGEST = 8, 256


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool,
           scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the result and its lse, `[samples, heads, tokens]` in at least 32 bits. Operands are
    `[samples, heads, tokens, size]`; keys and values may have fewer heads than queries, which
    divide theirs. With `is_causal` queries and keys are those of the same tokens."""
    key, value = _for_each(key, query), _for_each(value, query)
    kernel = _kernel(query, key, value)
    if kernel == "cpu":
        made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, is_causal, scale=scale)
        return made[0], made[1]
    if kernel == "cuda":
        made = torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, 0.0, is_causal, False, scale=scale)
        return made[0], made[1]
    scores = _scores(query, key, is_causal, scale)
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - lse.unsqueeze(-1)).to(value.dtype)
    return weights @ value, lse


def gradients(gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
              result: torch.Tensor, lse: torch.Tensor, is_causal: bool, scale: float) -> Gradients:
    """Returns this block's part of the gradients of queries, keys and values. `result` and `lse`
    are those of all blocks together. Gradients of keys and values that several heads share are
    sums in at least 32 bits."""
    whole_key, whole_value = _for_each(key, query), _for_each(value, query)
    if gradient.stride(-1) != 1:
        # A gradient of equal values may be one value.
        gradient = gradient.contiguous()
    kernel = _kernel(query, whole_key, whole_value)
    if kernel == "cpu":
        made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, query, whole_key, whole_value, result, lse, 0.0, is_causal, scale=scale)
    elif kernel == "cuda":
        # Without dropout nothing reads the state of the generator.
        none = torch.empty(0, dtype=torch.int64, device=query.device)
        made = torch.ops.aten._scaled_dot_product_flash_attention_backward(
            gradient, query, whole_key, whole_value, result, lse.contiguous(), None, None,
            query.shape[2], key.shape[2], 0.0, is_causal, none, none, scale=scale)
    else:
        made = _plain_gradients(gradient, query, whole_key, whole_value, result, lse, is_causal,
                                scale)
    return made[0], _of_shared(made[1], key), _of_shared(made[2], value)


def _kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> str:
    """Returns which fused kernel takes the operands; an empty text for none."""
    sizes = {one.shape[-1] for one in (query, key, value)}
    if len(sizes) > 1:
        return ""
    if query.device.type == "cpu":
        return "cpu"
    (size,) = sizes
    is_taken = size % _GPU_MULTIPLE == 0 and size <= _GPU_LARGEST and query.dtype in _HALVES
    return "cuda" if query.device.type == "cuda" and is_taken else ""


def _scores(query: torch.Tensor, key: torch.Tensor, is_causal: bool,
            scale: float) -> torch.Tensor:
    scores = (query @ key.transpose(-1, -2)).to(sum_type(query)) * scale
    if is_causal:
        rows, columns = scores.shape[-2:]
        later = torch.ones(rows, columns, dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores


def _plain_gradients(gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor,
                     value: torch.Tensor, result: torch.Tensor, lse: torch.Tensor,
                     is_causal: bool, scale: float) -> Gradients:
    weights = torch.exp(_scores(query, key, is_causal, scale) - lse.unsqueeze(-1))
    of_weights = (gradient @ value.transpose(-1, -2)).to(weights.dtype)
    own = (gradient * result).sum(-1, keepdim=True, dtype=weights.dtype)
    of_scores = (weights * (of_weights - own) * scale).to(query.dtype)
    return (of_scores @ key, of_scores.transpose(-1, -2) @ query,
            weights.to(query.dtype).transpose(-1, -2) @ gradient)


def sum_type(tensor: torch.Tensor) -> torch.dtype:
    """Returns the type in which values like those of a tensor are added up."""
    return torch.float32 if tensor.dtype in _HALVES else tensor.dtype


def _for_each(rows: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Returns keys or values for each head of the queries."""
    copies = query.shape[1] // rows.shape[1]
    return rows if copies == 1 else rows.repeat_interleave(copies, 1)


def _of_shared(gradient: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Adds up the gradients of the heads that share keys or values, in at least 32 bits."""
    if gradient.shape[1] == rows.shape[1]:
        return gradient
    made: torch.Tensor = torch.unflatten(gradient, 1, (rows.shape[1], -1)).sum(
        2, dtype=sum_type(gradient))
    return made


class Joined:
    """The result for the blocks so far."""

    def __init__(self) -> None:
        self._dtype = torch.float32
        self.result: Any = None
        self.lse: Any = None

    @torch.no_grad()
    def add(self, result: torch.Tensor, lse: torch.Tensor, first: int = 0) -> None:
        """Joins what the queries from `first` on found in another block."""
        if self.result is None:
            # A block that all queries read comes first: their own. What a kernel returned may be
            # kept by selective recomputation, so it is left as it is.
            self._dtype = result.dtype
            self.result, self.lse = result.to(sum_type(result), copy=True), lse.clone()
            return
        # In place, so that results stay as the kernel lays them out, which the next matrix reads.
        before, lse_before = self.result[:, :, first:], self.lse[:, :, first:]
        joined = torch.logaddexp(lse_before, lse)
        before.mul_(torch.exp(lse_before - joined).unsqueeze(-1))
        before.add_(result * torch.exp(lse - joined).unsqueeze(-1))
        lse_before.copy_(joined)

    def whole(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the result in the type of the operands, and its lse."""
        return self.result.to(self._dtype), self.lse
