"""Memory of whole steps without their devices: beside real tensors, and beside what an H100 held."""

import functools
import json

import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs
from torch import nn

import parplan.torch
from parplan.envelope import SignedPlan, VerifiedPlan
from parplan.plan import Plan
from parplan.strategy import Recompute, Strategy
from parplan.torch.check import memory
from parplan.torch.check.models import Source
from parplan.torch.check.steps import Job
from parplan.wire import json_file, messages

FLOATS = 1 << 20


def test_allocations_by_hand():
    with memory.Recorder() as recorder:
        first = torch.zeros(FLOATS)
        view = first.view(2, -1)[1]
        second = view + 1
        del first
        # The view holds all of it.
        assert len(recorder.events) == 2
        del view
        second.untyped_storage().resize_(0)
        second.untyped_storage().resize_(8)
        del second
    assert recorder.events == [(1, 4 * FLOATS), (2, 2 * FLOATS), (-1, 0), (-2, 0), (3, 8), (-3, 0)]
    peaks = memory.peaks_of(recorder.events, rank=3)
    # A segment of 20 MiB, and one of 2 MiB for the last 8 bytes.
    assert peaks == memory.Peaks(3, 6 * FLOATS, 22 << 20, 22 << 20)


class Plain(Source):
    """Puts the plain model of the tests in the place of one that is named."""

    def load_libraries(self):
        pass

    def whole(self, spec, dtype):
        layers = sum(run.layer_count for run in spec.layer_runs)
        return nn.Sequential(nn.Embedding(jobs.VOCABULARY, jobs.HIDDEN),
                             *(jobs.Block() for _ in range(layers - 2)), jobs.Head())


@pytest.mark.parametrize("recompute", [Recompute.NONE, Recompute.FULL])
def test_tensors_without_contents_live_as_long_as_real_ones(recompute):
    strategy = Strategy(recompute=recompute)
    plan = jobs.plan_of(plans.model_of(5), [[Strategy(), strategy, strategy, strategy, Strategy()]],
                        batch=6, micro_batch_count=3)
    source = Plain("")
    simulated = memory.allocations_here(plan, source, None)
    with memory.Recorder() as recorder:
        run = parplan.torch.apply(
            plan, source.whole(plan.model, None), source.loss_function(), device="cpu",
            optimizer=functools.partial(torch.optim.AdamW, lr=1e-3, fused=True),
            precision={"PRECISION_BF16": "bf16", "PRECISION_FP32": "fp32"}[
                messages.enum_name("Precision", plan.model.precision)])
        batch = jobs.batch_of(6)
        for _ in range(3):
            run.step(*batch)
    ours, real = memory.peaks_of(simulated), memory.peaks_of(recorder.events)
    # The check of a loss looks at values, so tensors without contents make none of its calls.
    assert ours.allocated == pytest.approx(real.allocated, rel=0.01)
    parameters = sum(one.numel() for one in run.parameters())
    assert ours.allocated > 4 * 4 * parameters


@pytest.mark.skipif(not jobs.SHARDS_HERE, reason="PyTorch 2.6 attends in other operations on "
                    "processors than on GPUs")
def test_an_h100_held_as_much(source):
    """`parplan.torch` in docs/measurements/gpu.md: eight samples with full recomputation, where free
    blocks were most of all beside the tensors."""
    folder = source / "docs/measurements/h100/torch"
    model = folder / "prepared/llama-2k"
    signed = SignedPlan.from_json((model / "8-samples-full.dsse.json").read_bytes())
    # It expired, so it is read as it is.
    plan = Plan(VerifiedPlan(signed.payload, messages.PlanPayload.FromString(signed.payload), ""),
                json_file.parse((model / "model.json").read_bytes(), "ModelSpec", "model"),
                json_file.parse((model / "cluster.json").read_bytes(), "ClusterTopology", "cluster"))
    made = memory.peaks_of(memory.allocations_here(plan, Source(f"hf:{model}/config.json"), None))
    rows = json.loads((folder / "plans.json").read_text())["rows"]
    measured = next(one for one in rows if one["name"] == "8-samples-full")
    # cuBLAS has 32 MiB for each of two threads beside the tensors of the job.
    workspace = 64 << 20
    assert made.allocated + workspace == pytest.approx(measured["peak_allocated_bytes"], rel=0.001)
    assert made.reserved_expandable + workspace == pytest.approx(measured["peak_reserved_bytes"],
                                                                 rel=0.003)
    assert made.reserved > made.reserved_expandable


def test_experts_are_not_simulated():
    plan = jobs.plan_of(jobs.spec_of("experts", 3), [[Strategy()] * 3], batch=2,
                        micro_batch_count=1)
    assert memory.allocations_here(plan, Plain(""), None) == []


def test_precisions_that_nothing_trains_are_left_out():
    spec = plans.model_of(3)
    spec.precision = 3  # PRECISION_FP16
    plan = jobs.plan_of(spec, [[Strategy()] * 3], batch=2, micro_batch_count=1)
    found = memory.simulate_step(plan, plans.topology_of(1), Plain(""))
    assert found.peaks == () and "PRECISION_FP16" in found.left_out


def test_a_job_is_the_same_plan_once_more():
    topology = plans.topology_of(1)
    plan = jobs.plan_of(plans.model_of(3), [[Strategy()] * 3], batch=2, micro_batch_count=1)
    again = Job.of(plan, topology, Plain(""), None).plan()
    assert again.payload == plan.payload
