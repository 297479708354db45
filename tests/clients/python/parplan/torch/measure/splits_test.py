"""Layers on tensor-parallel ranks: what they keep and send, by hand."""

import measured_models
import pytest
import torch
import torch_jobs
from measured_models import SPLITS, TOKENS, VOCABULARY, WIDTH

from parplan.errors import SpecInvalid
from parplan.torch.measure.job import Job, run_job
from parplan.torch.measure.splits import Split, SplitLayers

AR, AG, RS = ("COLLECTIVE_ALL_REDUCE", "COLLECTIVE_ALL_GATHER", "COLLECTIVE_REDUCE_SCATTER")
ROW = 4 * TOKENS  # Bytes of one column of a sample's activations.


@pytest.fixture(scope="module")
def measured():
    return run_job(4, measured_models.measure_splits, None)


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_kept_bytes_of_a_feed_forward_layer_by_hand(measured, split):
    kept = measured["block", split]["kept"][1]
    degree = split.degree
    own = ROW // degree if split.sequence_parallel else ROW
    # Input, mean and deviation of the norm; what the norm makes, whole for the weights' gradient;
    # both sides of the activation function, split.
    assert kept["none"] == own * (WIDTH + 2) + ROW * WIDTH + 2 * ROW * 4 * WIDTH // degree
    assert kept["full"] == own * WIDTH


@pytest.mark.parametrize("name", ["block", "head", "decoder"])
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_kept_bytes_are_linear_in_samples(measured, name, split):
    for policy in ("none", "full"):
        one, two, four = (samples * measured[name, split]["kept"][samples][policy]
                          for samples in (1, 2, 4))
        # Bytes of a sample are rounded down to whole ones.
        assert abs((four - two) - 2 * (two - one)) <= 8
        # The same for any number: the loss, and the positions of tokens.
        assert 0 <= one - (two - one) <= 4 * TOKENS + 8


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_parameters_of_a_rank_by_hand(measured, split):
    # The bias behind the second matrix, and the norm, are whole on every rank.
    assert measured["block", split]["parameters"] == (
        (2 * 4 * WIDTH * WIDTH + 4 * WIDTH) // split.degree + 3 * WIDTH)
    assert measured["head", split]["parameters"] == WIDTH * VOCABULARY // split.degree


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_collectives_of_a_feed_forward_layer(measured, split):
    size = ROW * WIDTH
    if split.degree == 1:
        expected = [{}, {}]
    elif split.sequence_parallel:
        expected = [{AG: (1, size), RS: (1, size)}] * 2
    else:
        expected = [{AR: (1, size)}] * 2
    assert measured["block", split]["fake"] == expected


@pytest.mark.parametrize("split", SPLITS[1:], ids=str)
def test_collectives_of_a_decoder(measured, split):
    forward, backward = measured["decoder", split]["fake"]
    size = 4 * torch_jobs.TOKENS * torch_jobs.HIDDEN
    # One block for attention, one for the feed-forward part.
    if split.sequence_parallel:
        assert forward == backward == {AG: (2, 2 * size), RS: (2, 2 * size)}
    else:
        assert forward == backward == {AR: (2, 2 * size)}


def test_groups_that_send_nothing_are_asked_for_the_same(measured):
    for name in ("block", "head", "decoder"):
        for split in SPLITS:
            one = measured[name, split]
            assert one["fake"] == one["gloo"], (name, split)


def test_no_rank_waits_for_another(measured):
    # With messages rank 0 would wait for the others until the job's patience ends.
    assert measured["alone"]


def test_a_degree_must_divide_the_ranks():
    with pytest.raises(SpecInvalid, match="3 does not divide the 4 ranks"):
        SplitLayers(measured_models.on_meta(), Split(3), Job(0, 4), torch.device("cpu"))


def test_tokens_must_be_shared_evenly():
    model = measured_models.on_meta(tokens=33)
    maker = SplitLayers(model, Split(1), Job(), torch.device("cpu"))
    maker.split = Split(2, True)
    with pytest.raises(SpecInvalid, match="33 tokens cannot be shared by 2 ranks"):
        maker.kind_of(model.kinds[1])


def test_layers_have_one_time_and_all_memories(measured):
    rows = measured["rows"]
    names = ("embedding", "decoder", "head")
    assert [(one["layer_definition_id"], one["tensor_parallel_degree"], one["micro_batch_size"])
            for one in rows.timings] == [(name, degree, samples) for degree in (1, 2)
                                         for name in names for samples in (1, 2)]
    assert [(one["layer_definition_id"], one["tensor_parallel_degree"], one["sequence_parallel"])
            for one in rows.memories] == [
                (name, *shared) for shared in ((1, False), (2, True), (2, False))
                for name in names]
    assert not any("left out" in note for note in rows.notes)


def test_policies_are_measured_on_every_split(measured):
    rows = measured["rows"].recomputations
    policies = ("selective", "selective-op", "full")
    assert [(one["layer_definition_id"], one["tensor_parallel_degree"], one["sequence_parallel"],
             one["policy"], one["micro_batch_size"]) for one in rows] == [
                 ("decoder", *shared, policy, samples)
                 for shared in ((1, False), (2, True), (2, False)) for policy in policies
                 for samples in (1, 2)]
    for one in rows:
        assert 0 < one["kept_bytes_per_sample"] < one["kept_bytes_per_sample_without"]
        assert one["forward_seconds"] > 0 and one["backward_seconds"] > 0
