"""Attention block by block is that of scaled_dot_product_attention over all of them."""

import pytest
import torch
from torch import nn

from parplan.torch.attention_blocks import Joined, attend, gradients

SAMPLES, HEADS, TOKENS, SIZE = 2, 4, 12, 8
SCALE = 0.3


def operands(key_heads=HEADS, value_size=SIZE, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)

    def rows(heads, size):
        return torch.randn(SAMPLES, heads, TOKENS, size, generator=generator).to(
            dtype).requires_grad_()

    return rows(HEADS, SIZE), rows(key_heads, SIZE), rows(key_heads, value_size)


def expected(query, key, value, is_causal):
    return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal,
                                                      scale=SCALE, enable_gqa=True)


# Fused kernels take keys and values of one size, others are computed with matrices of scores.
@pytest.mark.parametrize("key_heads,value_size", [(HEADS, SIZE), (2, SIZE), (1, 5)])
def test_blocks_join_to_the_whole(key_heads, value_size):
    query, key, value = operands(key_heads, value_size)
    cut = 5
    joined = Joined()
    for part in (slice(0, cut), slice(cut, TOKENS)):
        joined.add(*attend(query, key[:, :, part], value[:, :, part], False, SCALE))
    result, lse = joined.whole()
    whole = expected(query, key, value, False)
    torch.testing.assert_close(result, whole)
    gradient = torch.randn_like(whole)
    wanted = torch.autograd.grad(whole, (query, key, value), gradient)
    of_query = torch.zeros_like(query)
    for part in (slice(0, cut), slice(cut, TOKENS)):
        found = gradients(gradient, query, key[:, :, part], value[:, :, part], result, lse, False,
                          SCALE)
        of_query += found[0]
        torch.testing.assert_close(found[1], wanted[1][:, :, part])
        torch.testing.assert_close(found[2], wanted[2][:, :, part])
    torch.testing.assert_close(of_query, wanted[0])


@pytest.mark.parametrize("key_heads,value_size", [(HEADS, SIZE), (2, SIZE), (2, 5)])
def test_a_mask_hides_later_tokens(key_heads, value_size):
    query, key, value = operands(key_heads, value_size)
    result, lse = attend(query, key, value, True, SCALE)
    whole = expected(query, key, value, True)
    torch.testing.assert_close(result, whole)
    gradient = torch.ones(()).double().expand_as(whole)
    wanted = torch.autograd.grad(whole, (query, key, value), gradient)
    for one, other in zip(gradients(gradient, query, key, value, result, lse, True, SCALE), wanted):
        torch.testing.assert_close(one, other)


def test_some_queries_join_another_block():
    query, key, value = operands()
    joined = Joined()
    joined.add(*attend(query, key, value, False, SCALE))
    joined.add(*attend(query[:, :, 4:], key, value, False, SCALE), 4)
    # Attention does not change where each key is there twice.
    torch.testing.assert_close(joined.whole()[0], expected(query, key, value, False))


@pytest.mark.parametrize("value_size", [SIZE, 5])
def test_sums_of_16_bits_are_of_32(value_size):
    query, key, value = (one.bfloat16() for one in operands(2, value_size))
    joined = Joined()
    joined.add(*attend(query, key, value, False, SCALE))
    joined.add(*attend(query, key, value, False, SCALE))
    result, lse = joined.whole()
    assert (joined.result.dtype, result.dtype, lse.dtype) == (torch.float32, torch.bfloat16,
                                                              torch.float32)
    whole = expected(query.float(), key.float(), value.float(), False)
    torch.testing.assert_close(result.float(), whole, atol=2e-2, rtol=2e-2)
