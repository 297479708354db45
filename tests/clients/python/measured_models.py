"""Models to measure, and what ranks of a job measure of them, for tests of
parplan.torch.measure. Processes that a test starts import this module."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch_jobs
from torch import nn

from parplan.errors import SpecInvalid
from parplan.torch.check.counting import Counter
from parplan.torch.measure.captures import token_ids
from parplan.torch.measure.collectives import CollectiveTime, Prices
from parplan.torch.measure.devices import Processor
from parplan.torch.measure.job import Job
from parplan.torch.measure.kept import measure_kept
from parplan.torch.measure.layer_times import LayerMeasurement
from parplan.torch.measure.models import Model
from parplan.torch.measure.passes import Pass
from parplan.torch.measure.request import Measured, Request
from parplan.torch.measure.sharding import ShardingTimes, measure_sharding
from parplan.torch.measure.splits import Split, SplitLayers, local_count
from parplan.torch.measure.steady import Bench, Effort, Spread
from parplan.torch.measure.traffic import Traffic, summed, traffic_of

# Threads that wait for each other make tests slow on a busy machine.
torch.set_num_threads(1)
WIDTH, TOKENS, VOCABULARY = 64, 32, 96
SPEC = {
    "model_id": "toy", "precision": "PRECISION_FP32", "optimizer": "OPTIMIZER_ADAM",
    "layer_definitions": [
        {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING",
         "hidden_size": WIDTH, "sequence_length": TOKENS, "vocabulary_size": VOCABULARY},
        {"layer_definition_id": "block", "kind": "LAYER_KIND_FEED_FORWARD", "hidden_size": WIDTH,
         "sequence_length": TOKENS, "feed_forward_size": 4 * WIDTH,
         "feed_forward_kind": "FEED_FORWARD_KIND_GELU"},
        {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD", "hidden_size": WIDTH,
         "sequence_length": TOKENS, "vocabulary_size": VOCABULARY}],
    "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                   {"layer_definition_id": "block", "layer_count": 3},
                   {"layer_definition_id": "head", "layer_count": 1}]}
CLUSTER = {
    "cluster": "cpu", "link_tiers": [{"tier_id": "node", "reach_device_count": 2}],
    "node_groups": [{"node_group_id": "nodes", "device_kind": "this CPU", "node_count": 1,
                     "devices_per_node": 2, "device_memory_bytes": str(1 << 31)}]}
TENSOR_PLAN = {"*.up": "colwise", "*.down": "rowwise", "4": "colwise_gather_output"}


class Block(nn.Module):
    """A feed-forward layer."""

    def __init__(self, has_biases: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=has_biases)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=has_biases)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def toy(blocks: int = 3) -> nn.Module:
    return nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *(Block() for _ in range(blocks)),
                         nn.Linear(WIDTH, VOCABULARY, bias=False))


def frames() -> nn.Module:
    """Returns layers that begin with a map of frames of five values."""
    return nn.Sequential(nn.Linear(5, WIDTH), Block(), Block(), nn.Linear(WIDTH, VOCABULARY))


def on_meta(model: nn.Module | None = None, tensor_plan: dict | None = None,
            tokens: int = TOKENS) -> Model:
    """Returns a sequence of layers as a model to measure."""
    with torch.device("meta"):
        made = toy() if model is None else model.to("meta")
    return Model(made, list(made.children()), token_ids(tokens),
                 TENSOR_PLAN if tensor_plan is None else tensor_plan)


# The degrees of the jobs below, and whether ranks share tokens.
SPLITS = [Split(), Split(2), Split(2, True), Split(4), Split(4, True)]


def measure_splits(job: Job, _: object) -> dict:
    """Measures memory and messages of the toy's layers and of a decoder in each of SPLITS, the
    messages with groups that send and with groups that do not."""
    made = {}
    decoders = on_meta(torch_jobs.plain_model(3, False), torch_jobs.TENSOR_PLAN,
                       torch_jobs.TOKENS)
    for name, model, layer in (("block", on_meta(), 1), ("head", on_meta(), 2),
                               ("decoder", decoders, 1)):
        for split in SPLITS:
            made[name, split] = _measure_split(job, model, layer, split)
    made["alone"] = _pass_on_first_rank(job)
    made["rows"] = _measure_layers(job, decoders)
    return made


class _CountsMessages(Processor):
    """Its clock goes on by a second with each collective."""

    def time(self, work: Callable[[], object]) -> float:
        with Counter() as counter:
            work()
        return float(sum(counter.calls.values()))


class _CountsLayerMessages(Processor):
    """The same with the collectives of split layers, which are functional."""

    def time(self, work: Callable[[], object]) -> float:
        with Traffic() as traffic:
            work()
        return float(len(traffic.messages))


def count_sharded_messages(job: Job, _: object) -> ShardingTimes:
    return measure_sharding(Bench(_CountsMessages(), Effort(seconds=1e-4), job), on_meta(), 1)


def measure_priced_layers(job: Job, _: object) -> list[dict]:
    """Measures the toy's layers on two ranks with their messages, each of which takes a second and
    has a price of half a second. Returns the rows of times."""
    half = Spread(0.5, 0.5, 9, 0.0)
    prices = Prices([CollectiveTime(name, 2, 1, size, half, None)
                     for name in ("COLLECTIVE_ALL_REDUCE", "COLLECTIVE_ALL_GATHER")
                     for size in (1, 1 << 40)])
    request = Request("this CPU", 2, (1, 2), 2, (), Effort(seconds=1e-4),
                      tensor_parallel_degrees=(1, 2))
    definitions = {one["layer_definition_id"]: one for one in SPEC["layer_definitions"]}
    bench = Bench(_CountsLayerMessages(), request.effort, job)
    model = on_meta(toy(1), {**TENSOR_PLAN, "2": TENSOR_PLAN["4"]})
    layers = LayerMeasurement(model, ["embedding", "block", "head"], definitions, request, bench,
                              "torch", lambda _: None, prices)
    return layers.run([SplitLayers(model, split, job, torch.device("cpu"), "gloo")
                       for split in request.splits]).timings


def _measure_split(job: Job, model: Model, layer: int, split: Split) -> dict:
    made = {}
    kind = model.kinds[layer]
    is_last = layer == len(model.kinds) - 1
    for backend in ("fake", "gloo"):
        maker = SplitLayers(model, split, job, torch.device("cpu"), backend)
        shaped = maker.kind_of(kind)
        modules = maker.make(kind, 4 if kind.is_chainable else 1)
        made[backend] = [summed(one) for one in
                         traffic_of(modules, shaped, 1, torch.device("cpu"), is_last)]
        # Rank 0 answers for the job, and without messages no rank needs another.
        if backend == "fake" and job.is_first:
            made["parameters"] = local_count(modules[0])
            made["kept"] = {samples: measure_kept(modules, shaped, samples, Processor(), is_last,
                                                  ("none", "full"), False).by_policy
                            for samples in (1, 2, 4)}
    return made


def _measure_layers(job: Job, model: Model) -> Measured:
    """Measures all of the decoders' layers, as the command does."""
    heads = torch_jobs.HEADS
    definitions = {"embedding": {"kind": "LAYER_KIND_EMBEDDING"},
                   "decoder": {"attention_head_count": heads, "key_value_head_count": heads},
                   "head": {"kind": "LAYER_KIND_HEAD"}}
    # Nobody asks how long passes take.
    request = Request("this CPU", 4, (1, 2), 4, (), Effort(seconds=1e-4),
                      tensor_parallel_degrees=(1, 2), sequence_parallel=True,
                      policies=("selective", "selective-op", "full"))
    bench = Bench(Processor(), request.effort, job)
    layers = LayerMeasurement(model, ["embedding", "decoder", "head"], definitions, request, bench,
                              "torch", lambda _: None)
    return layers.run([SplitLayers(model, split, job, torch.device("cpu"))
                       for split in request.splits])


def _pass_on_first_rank(job: Job) -> bool:
    """Runs passes of a split layer on rank 0 while the others wait for it elsewhere."""
    model = on_meta()
    kind = model.kinds[1]
    layers = SplitLayers(model, Split(2), job, torch.device("cpu")).make(kind, 1)
    if job.is_first:
        alone = Pass(layers, kind, 1, torch.device("cpu"), False)
        alone.forward()
        alone.backward()
    job.barrier()
    return True


def gather_ranks(job: Job, _: object) -> tuple:
    return (job.gather([job.rank, 10 * job.rank]), job.largest([job.rank, -job.rank]),
            job.agree(job.rank == 0), job.agree(True), torch.get_num_threads(),
            dist.get_world_size())


def fail_on_second(job: Job, _: object) -> None:
    """Raises an error of the contract on rank 1 while the others wait."""
    if job.rank == 1:
        raise SpecInvalid("layer 3: is wrong", code="INVALID_ARGUMENT", reason="SPEC_INVALID",
                          metadata={"field": "layer 3"})
    job.barrier()
