"""Decoder layers of plain PyTorch, as one would write them for speed without other libraries."""

from __future__ import annotations

import torch
from torch import nn
from torch_cases import Shape


class GptLayer(nn.Module):
    """Layer norms, biases, and GELU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.first_norm, self.second_norm = nn.LayerNorm(shape.hidden), nn.LayerNorm(shape.hidden)
        self.all = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.hidden)
        self.up = nn.Linear(shape.hidden, shape.feed_forward)
        self.down = nn.Linear(shape.feed_forward, shape.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        samples, tokens, hidden = x.shape
        query, key, value = self.all(self.first_norm(x)).view(
            samples, tokens, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(samples, tokens, hidden))
        made: torch.Tensor = x + self.down(nn.functional.gelu(
            self.up(self.second_norm(x)), approximate="tanh"))
        return made


class LlamaLayer(nn.Module):
    """RMS norms, rotary positions, grouped keys and values, and SwiGLU."""
    cosine: torch.Tensor
    sine: torch.Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.size = shape.hidden // shape.heads
        self.is_grouped = shape.heads != shape.key_value_heads
        narrow = shape.key_value_heads * self.size
        self.first_norm, self.second_norm = (nn.RMSNorm(shape.hidden, eps=1e-5) for _ in range(2))
        self.query, self.out = (nn.Linear(shape.hidden, shape.hidden, bias=False)
                                for _ in range(2))
        self.key, self.value = (nn.Linear(shape.hidden, narrow, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(shape.hidden, shape.feed_forward, bias=False)
                              for _ in range(2))
        self.down = nn.Linear(shape.feed_forward, shape.hidden, bias=False)
        rates = 500000.0 ** -(torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(shape.tokens), rates).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.first_norm(x)
        query, key, value = (matrix(normed).unflatten(-1, (-1, self.size)).transpose(1, 2)
                             for matrix in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(
            self._turned(query), self._turned(key), value, is_causal=True,
            enable_gqa=self.is_grouped)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        normed = self.second_norm(x)
        made: torch.Tensor = x + self.down(nn.functional.silu(self.gate(normed))
                                           * self.up(normed))
        return made

    def _turned(self, rows: torch.Tensor) -> torch.Tensor:
        first, second = rows.chunk(2, -1)
        return rows * self.cosine + torch.cat((-second, first), -1) * self.sine


def build_layer(shape: Shape) -> nn.Module:
    """Returns a layer of a shape with random values."""
    layer: nn.Module = LlamaLayer(shape) if shape.kind == "llama" else GptLayer(shape)
    for parameter in layer.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    return layer
