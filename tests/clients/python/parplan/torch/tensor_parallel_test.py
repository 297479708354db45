"""Plans of tensor parallelism in PyTorch's own styles, as torchtitan writes them; the memory of the
parts that ranks have; and tables whose rows they share."""

import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, ParallelStyle, PrepareModuleInput,
                                               RowwiseParallel, SequenceParallel)

import parplan.torch
from parplan.strategy import Strategy
from parplan.torch.parts import local_of
from parplan.torch.spread import Spread
from parplan.torch.tables import can_share_rows
from parplan.torch.tensor_parallel import named_styles

WHOLE = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
# torchtitan, models/llama3/parallelize.py: embedding, norms, a decoder and the head.
TITAN = {
    "0": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "*.first_norm": SequenceParallel(), "*.attention": WHOLE, "*.second_norm": SequenceParallel(),
    **{f"*.attention.{name}": ColwiseParallel() for name in ("query", "key", "value")},
    "*.attention.out": RowwiseParallel(output_layouts=Shard(1)),
    "*.up": ColwiseParallel(), "*.down": RowwiseParallel(output_layouts=Shard(1)),
    "*.projection": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1),
                                    use_local_output=False)}


def test_styles_have_names():
    assert named_styles({**TITAN, "head": ColwiseParallel(output_layouts=Replicate()),
                         "own": "packed_colwise"}) == {
        "0": "embedding_rowwise", "*.attention.query": "colwise", "*.attention.key": "colwise",
        "*.attention.value": "colwise", "*.attention.out": "rowwise", "*.up": "colwise",
        "*.down": "rowwise", "*.projection": "colwise_gather_output",
        "head": "colwise_gather_output", "own": "packed_colwise"}


def test_another_style_is_refused_by_its_name():
    class Diagonal(ParallelStyle):
        def _apply(self, module, device_mesh):
            return module

    with pytest.raises(parplan.errors.SpecInvalid, match="up has Diagonal") as raised:
        named_styles({"up": Diagonal()})
    assert raised.value.metadata["field"] == "tensor_plan"


def run_case(strategy):
    plan = jobs.plan_of(plans.model_of(4), [[strategy] * 4], batch=4, micro_batch_count=2)
    return jobs.compare_one_step(plan, jobs.model_of("plain", 4), tensor_plan=TITAN)


def test_a_plan_as_torchtitans_splits_layers(tmp_path):
    cases = [(Strategy(2, 1),), (Strategy(2, 1, sequence_parallel=True),)]
    for case, ranks in zip(cases, jobs.run_ranks(2, tmp_path, run_case, cases)):
        for found in ranks:
            assert found["loss"] <= 1e-4 and found["gradient"] <= 1e-4, (case, found)


def memory_of(kind):
    """Returns names with the bytes of a rank's part, of the memory that it keeps, and of the memory
    of its gradient before ranks add up theirs."""
    plan = jobs.plan_of(jobs.spec_of(kind, 4), [[Strategy(2, 1)] * 4], batch=4,
                        micro_batch_count=1)
    run = parplan.torch.apply(plan, jobs.model_of(kind, 4), jobs.loss_fn, device="cpu",
                                   tensor_plan=jobs.TENSOR_PLANS[kind])
    found = []

    def noted(spread):
        for name, parameter in spread.named_parameters():
            part, gradient = local_of(parameter), parameter.grad._local_tensor if hasattr(
                parameter.grad, "_local_tensor") else parameter.grad
            found.append((name, part.nbytes, part.untyped_storage().nbytes(),
                          gradient.untyped_storage().nbytes()))

    finish = Spread.finish
    Spread.finish = noted
    try:
        run.step(*jobs.batch_of(4))
    finally:
        Spread.finish = finish
    return found


def test_a_rank_has_memory_for_its_parts_alone(tmp_path):
    for kind, ranks in zip(("plain", "gpt2", "llama"), jobs.run_ranks(
            2, tmp_path, memory_of, [("plain",), ("gpt2",), ("llama",)])):
        for found in ranks:
            assert len(found) > 10
            for name, part, kept, gradient in found:
                assert kept == part, (kind, name)
                assert gradient == part, (kind, name)


@pytest.mark.parametrize("module, is_known", [
    (nn.Embedding(8, 2), True), (nn.Embedding(8, 2, padding_idx=3), True),
    (nn.Embedding(7, 2), False), (nn.Embedding(8, 2, max_norm=1.0), False),
    (nn.Embedding(8, 2, sparse=True), False), (nn.Linear(8, 2), False)])
def test_plain_embeddings_share_rows(module, is_known):
    assert can_share_rows(module, 2) == is_known


def table_with_padding(by_tokens):
    """Returns the difference of the table's gradient from that of one process."""
    torch.manual_seed(0)
    model = jobs.model_of("plain", 4)
    # A row of the second rank.
    model[0].padding_idx = jobs.VOCABULARY - 2
    strategy = Strategy(2, 1, sequence_parallel=by_tokens)
    plan = jobs.plan_of(plans.model_of(4), [[strategy] * 4], batch=4, micro_batch_count=2)
    return jobs.compare_one_step(plan, model, tensor_plan=jobs.TENSOR_PLAN)


def test_padding_has_no_gradient(tmp_path):
    cases = [(False,), (True,)]
    for case, ranks in zip(cases, jobs.run_ranks(2, tmp_path, table_with_padding, cases)):
        for found in ranks:
            assert found["loss"] <= 1e-4 and found["gradient"] <= 1e-4, (case, found)
