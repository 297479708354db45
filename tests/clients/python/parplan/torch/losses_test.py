"""Losses whose shares weigh as the targets in them, and what is refused because it is none of them."""

import copy

import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs
from torch import nn

import parplan.torch
from parplan.errors import SpecInvalid
from parplan.strategy import Strategy
from parplan.torch.losses import Losses

WEIGHTS = torch.linspace(0.1, 2.0, jobs.VOCABULARY)


def summed(output, target):
    return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten(), reduction="sum")


def weighted(output, target):
    return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten(), weight=WEIGHTS)


def weight_of(targets):
    counted = targets[targets != -100]
    return WEIGHTS[counted].sum()


LOSSES = {"mean": (jobs.loss_fn, "mean"), "sum": (summed, "sum"), "weighted": (weighted, weight_of)}


def mask(targets):
    """Leaves other numbers of targets in all shares; one has none at all."""
    targets[0, 3:] = -100
    targets[1] = -100
    targets[5, :20] = -100
    targets[6, ::2] = -100


def compare(kind, stages, count, **options):
    loss_fn, reduction = LOSSES[kind]
    plan = jobs.plan_of(plans.model_of(sum(map(len, stages))), stages, batch=8,
                        micro_batch_count=count, **options)
    model = jobs.model_of("plain", len(plan.layers))
    reference = copy.deepcopy(model)
    inputs, targets = jobs.batch_of(8)
    mask(targets)
    expected = loss_fn(reference(inputs), targets)
    expected.backward()
    run = parplan.torch.apply(plan, model, loss_fn, reduction=reduction, device="cpu",
                              tensor_plan=jobs.TENSOR_PLAN)
    loss = run.step(inputs, targets)
    difference, name = jobs.worst_difference(run, reference)
    return abs(loss.item() - expected.item()) / abs(expected.item()), difference, name


@pytest.mark.parametrize("kind", list(LOSSES))
def test_micro_batches_weigh_as_their_targets(kind):
    loss, difference, name = compare(kind, [[Strategy(1, 1)] * 4], 4)
    assert loss < 1e-5 and difference < 1e-5, (loss, difference, name)


PIPELINE = [[Strategy(1, 2), Strategy(2, 1)], [Strategy(1, 2), Strategy(1, 2)]]
MIXED = [[Strategy(2, 2), Strategy(1, 4), Strategy(4, 1),
          Strategy(1, 2, context_parallel_degree=2)]]


def test_shares_of_ranks_weigh_as_their_targets(tmp_path):
    cases = [(kind, stages, count) for kind in LOSSES
             for stages, count in ((PIPELINE, 4), (MIXED, 2))]
    for case, ranks in zip(cases, jobs.run_ranks(4, tmp_path, compare, cases)):
        for loss, difference, name in ranks:
            assert loss < 1e-5 and difference < 1e-4, (case, loss, difference, name)


def refusal(loss_fn, reduction="mean", masked=False, samples=2):
    plan = jobs.plan_of(plans.model_of(3), [[Strategy(1, 1)] * 3], batch=2 * samples,
                        micro_batch_count=2)
    run = parplan.torch.apply(plan, jobs.model_of("plain", 3), loss_fn, reduction=reduction,
                              device="cpu")
    inputs, targets = jobs.batch_of(2 * samples)
    if masked:
        targets[:, 3:9] = -100
    before = [one.detach().clone() for one in run.parameters()]
    with pytest.raises(SpecInvalid) as raised:
        run.step(inputs, targets)
    assert all(torch.equal(one, other) for one, other in zip(before, run.parameters()))
    assert raised.value.metadata["field"] == "loss_fn" and "last layer" in raised.value.message
    return raised.value.message


def fixed(output, target):
    """Divides by the number of all targets, also by those that count for nothing."""
    return summed(output, target) / target.numel()


@pytest.mark.parametrize("samples", [1, 2])
def test_a_loss_that_is_not_what_reduction_says_is_refused(samples):
    assert 'reduction="sum"' in refusal(summed, samples=samples)
    assert 'reduction="mean"' in refusal(jobs.loss_fn, "sum", samples=samples)
    assert "weight of targets" in refusal(fixed, masked=True, samples=samples)
    assert "weights of `reduction`" in refusal(summed, weight_of, samples=samples)


def test_a_loss_by_weights_is_refused_unless_they_are_given():
    assert "class_weights[targets].sum()" in refusal(weighted)

    def contrastive(output, target):
        rows = output.mean(1)
        return nn.functional.cross_entropy(rows @ rows.T, torch.arange(len(rows)))

    refusal(contrastive)


def shifted(output, target):
    """Lets each token predict the target of the next, as models of transformers do."""
    return jobs.loss_fn(output[:, :-1], target[:, 1:])


def squared(output, target):
    return (output - target.unsqueeze(-1)).square().mean()


@pytest.mark.parametrize("loss_fn, target, reduction, is_refused", [
    (jobs.loss_fn, torch.arange(24).view(2, 12), "mean", False),
    (shifted, torch.arange(24).view(2, 12), "mean", True),
    (summed, torch.arange(24).view(2, 12), "sum", False),
    (weighted, torch.arange(24).view(2, 12), weight_of, False),
    (squared, torch.linspace(-1, 1, 24).view(2, 12), "mean", False)])
def test_a_loss_that_pairs_tokens_is_refused_where_ranks_share_them(loss_fn, target, reduction,
                                                                    is_refused):
    torch.manual_seed(0)
    output = torch.randn(2, 12, jobs.VOCABULARY)
    for splits_tokens in (False, True):
        losses = Losses(loss_fn, reduction, 2, splits_tokens)
        losses.begin_step(torch.cat([target, target]), [target])
        if is_refused and splits_tokens:
            with pytest.raises(SpecInvalid, match="shift targets before `run.step`"):
                losses.of_part(output, target, 0)
        else:
            losses.of_part(output, target, 0)


@pytest.mark.parametrize("dtype, tokens", [(torch.float32, 4096), (torch.bfloat16, 12),
                                           (torch.bfloat16, 4096)])
def test_a_loss_that_pairs_tokens_is_refused_in_16_bits_and_of_many_tokens(dtype, tokens):
    torch.manual_seed(0)
    output = torch.randn(2, tokens, jobs.VOCABULARY).to(dtype)
    target = torch.randint(jobs.VOCABULARY, (2, tokens))
    for loss_fn, match in ((shifted, "shift targets before"), (summed, 'give reduction="sum"')):
        losses = Losses(loss_fn, "mean", 2, True)
        losses.begin_step(torch.cat([target, target]), [target])
        with pytest.raises(SpecInvalid, match=match):
            losses.of_part(output, target, 0)


def test_an_unknown_reduction_is_refused():
    plan = jobs.plan_of(plans.model_of(3), [[Strategy(1, 1)] * 3], batch=2, micro_batch_count=1)
    with pytest.raises(SpecInvalid) as raised:
        parplan.torch.apply(plan, jobs.model_of("plain", 3), jobs.loss_fn, reduction="none",
                            device="cpu")
    assert raised.value.metadata["field"] == "reduction"


def test_losses_of_numbers_weigh_all_samples_alike():
    losses = Losses(lambda output, target: (output - target).square().mean(), "mean", 4)
    output, target = torch.randn(3, 5), torch.randn(3, 5)
    losses.begin_step(torch.randn(12, 5), [target])
    assert losses.share is None
    expected = (output - target).square().mean() / 4
    assert torch.equal(losses.of_part(output, target, 0), expected)


def step_with_other_targets():
    plan = jobs.plan_of(plans.model_of(3), [[Strategy(1, 2)] * 3], batch=4, micro_batch_count=1)
    run = parplan.torch.apply(plan, jobs.model_of("plain", 3), jobs.loss_fn, device="cpu")
    inputs, targets = jobs.batch_of(4)
    if torch.distributed.get_rank() == 1:
        targets[:2, 4:] = -100
    with pytest.raises(SpecInvalid) as raised:
        run.step(inputs, targets)
    return raised.value.metadata["field"]


def test_ranks_with_other_targets_are_refused(tmp_path):
    assert jobs.run_ranks(2, tmp_path, step_with_other_targets, [()]) == [["targets"] * 2]


def counted_over_ranks(output, target):
    """Is the loss of a share, but for the number of targets, which all ranks have together."""
    count = (target != -100).sum()
    torch.distributed.all_reduce(count)
    return summed(output, target) / count


def gathered_over_ranks(output, target):
    """Asks all ranks for an object."""
    torch.distributed.all_gather_object([None] * torch.distributed.get_world_size(), len(target))
    return jobs.loss_fn(output, target)


def waiting_for_ranks(output, target):
    torch.distributed.barrier()
    return jobs.loss_fn(output, target)


def counted_for_whole_shares(output, target):
    """Fails with parts of a share, before its collective."""
    assert len(output) == 4
    return counted_over_ranks(output, target)


def step_of_collectives(loss_fn):
    plan = jobs.plan_of(plans.model_of(3), [[Strategy(1, 2)] * 3], batch=8, micro_batch_count=1)
    run = parplan.torch.apply(plan, jobs.model_of("plain", 3), loss_fn, device="cpu")
    inputs, targets = jobs.batch_of(8)
    # Only one rank checks a share with targets that count for nothing.
    targets[:2, 4:] = -100
    with pytest.raises(SpecInvalid) as raised:
        run.step(inputs, targets)
    return raised.value.metadata["field"], raised.value.message


def test_a_loss_that_waits_for_other_ranks_is_refused(tmp_path):
    cases = [(counted_over_ranks,), (gathered_over_ranks,), (waiting_for_ranks,),
             (counted_for_whole_shares,)]
    for case, ranks in zip(cases, jobs.run_ranks(2, tmp_path, step_of_collectives, cases)):
        for field, message in ranks:
            assert field == "loss_fn" and "calls the collective" in message, (case, message)
