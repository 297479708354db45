"""Plans of tensor parallelism in PyTorch's own styles, as torchtitan writes them."""

import pytest
import signed_plans as plans
import torch_jobs as jobs
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, ParallelStyle, PrepareModuleInput,
                                               RowwiseParallel, SequenceParallel)

import parplan
from parplan.strategy import Strategy
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
