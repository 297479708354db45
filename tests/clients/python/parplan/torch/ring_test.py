"""Rings: the results and gradients of one process, with no more memory than a rank's share of it,
and with as much work on each rank."""

import collections

import pytest
import torch
import torch.distributed as dist
import torch_jobs as jobs
from torch import nn

from parplan.strategy import Strategy
from parplan.torch.attention import tokens_of
from parplan.torch.check.counting import Counter
from parplan.torch.ring import Ring, part_of, ring_attention

SAMPLES, HEADS, SIZE, TOKENS = 2, 4, 8, 32
TOLERANCE = 1e-4


def operands(key_heads, value_size, dtype):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(SAMPLES, heads, TOKENS, size, generator=generator).to(dtype)
            for heads, size in ((HEADS, SIZE), (key_heads, SIZE), (key_heads, value_size))]


def compare(key_heads, value_size, is_causal, dtype):
    """Returns the worst differences of results and gradients, the bytes that are saved, those of
    the rank's rows, and the messages by their kind and ranks."""
    whole = [one.requires_grad_() for one in operands(key_heads, value_size, dtype)]
    expected = nn.functional.scaled_dot_product_attention(
        *(one.float() for one in whole), is_causal=is_causal, enable_gqa=True)
    weights = torch.arange(expected.numel()).view(expected.shape).sin()
    (expected * weights).sum().backward()
    strategy = Strategy(1, 1, context_parallel_degree=dist.get_world_size())
    held = tokens_of(strategy, 0, dist.get_rank(), TOKENS)
    own = [one.detach()[:, :, held].requires_grad_() for one in whole]
    saved = {}

    def pack(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    ring = Ring.of(dist.group.WORLD)
    with Counter() as counter:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = ring_attention(*own, ring, is_causal, None)
        (result.float() * weights[:, :, held]).sum().backward()
    own_bytes = sum(one.nbytes for one in [*own, result])
    differences = [(result.float() - expected[:, :, held]).abs().max() / expected.abs().max()]
    differences += [(one.grad.float() - all_.grad[:, :, held].float()).abs().max()
                    / all_.grad.abs().max() for one, all_ in zip(own, whole)]
    return ([one.item() for one in differences],
            sum(one.untyped_storage().nbytes() for one in saved.values()), own_bytes, counter.calls)


CASES = [(key_heads, value_size, is_causal, torch.float32)
         for is_causal in (True, False) for key_heads, value_size in ((HEADS, SIZE), (2, SIZE),
                                                                      (1, 5))]


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_ring_gives_the_attention_of_one_process(tmp_path, ranks):
    cases = [*CASES, (2, SIZE, True, torch.bfloat16)]
    for case, found in zip(cases, jobs.run_ranks(ranks, tmp_path, compare, cases)):
        for rank, (differences, saved, own, calls) in enumerate(found):
            tolerance = TOLERANCE if case[3] == torch.float32 else 0.03
            assert max(differences) < tolerance, (case, rank, differences)
            # A rank's queries, keys, values and results, and the sums of its queries' scores.
            assert saved == own + 4 * SAMPLES * HEADS * TOKENS // ranks, (case, rank)
            expected = collections.Counter()
            for kind, other in (("send", (rank + 1) % ranks), ("receive", (rank - 1) % ranks)):
                expected[kind, tuple(sorted((rank, other)))] += 3 * (ranks - 1)
            assert calls == expected, (case, rank)


def sent_backward(key_heads):
    """Returns the type and the number of elements of each message of a backward pass in 16 bits."""
    strategy = Strategy(1, 1, context_parallel_degree=dist.get_world_size())
    held = tokens_of(strategy, 0, dist.get_rank(), TOKENS)
    own = [one[:, :, held].requires_grad_() for one in operands(key_heads, SIZE, torch.bfloat16)]
    result = ring_attention(*own, Ring.of(dist.group.WORLD), True, None)
    sent = []
    send = dist.batch_isend_irecv

    def noted(works):
        sent.append((str(works[0].tensor.dtype), works[0].tensor.numel()))
        return send(works)

    dist.batch_isend_irecv = noted
    try:
        result.sum().backward()
    finally:
        dist.batch_isend_irecv = send
    assert all(one.grad.dtype == torch.bfloat16 for one in own)
    return sent


def test_gradients_are_summed_in_32_bits_on_their_way(tmp_path):
    ranks = 4
    cases = [(HEADS,), (1,)]
    for (key_heads,), found in zip(cases, jobs.run_ranks(ranks, tmp_path, sent_backward, cases)):
        elements = 2 * SAMPLES * key_heads * TOKENS // ranks * SIZE
        expected = [("torch.bfloat16", elements), ("torch.float32", elements)] * (ranks - 1)
        for sent in found:
            assert sorted(sent) == sorted(expected)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_all_ranks_have_as_much_to_do_at_each_hop(size):
    tokens = 16
    for hop in range(size):
        scores = set()
        for place in range(size):
            part = part_of(Ring(None, place, size), (place - hop) % size, tokens, True)
            scores.add((tokens - part.first) * part.end // (2 if part.is_causal else 1))
        assert scores == {tokens * tokens // 2}
