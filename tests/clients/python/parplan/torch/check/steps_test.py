"""The collectives of a whole step, counted in a job whose collectives do nothing."""

import collections
import dataclasses
import importlib.util
import pathlib
import pickle

import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs
from torch._subclasses.fake_tensor import unset_fake_temporarily

from parplan import traffic
from parplan.strategy import ContextKind, Recompute, Schedule, Sharding, Strategy
from parplan.torch.check import steps
from parplan.torch.check.models import Source
from parplan.torch.layers import find_layers
from parplan.torch.processes import start_ranks

CASES = 60
RANKS = 4
# Steps of plans issue these kinds, and no broadcasts, of which a profile has no times.
KINDS = {traffic.ALL_REDUCE, traffic.ALL_GATHER, traffic.REDUCE_SCATTER, traffic.ALL_TO_ALL,
         traffic.SEND, traffic.RECEIVE}


def random_case(seed):
    """Returns a case of the parity test, whose file is no module of a package."""
    path = pathlib.Path(__file__).parents[1] / "parity_test.py"
    spec = importlib.util.spec_from_file_location("parity_cases", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.random_case(seed)


@dataclasses.dataclass(frozen=True)
class Fixed:
    """The model of a test in the place of one that is named."""
    kind: str
    layer_count: int
    is_tied: bool

    def load_libraries(self):
        pass

    def whole(self, spec, dtype):
        # Models of tests look at their values.
        with unset_fake_temporarily():
            model = jobs.model_of(self.kind, self.layer_count, self.is_tied)
        made = {}
        for module in model.modules():
            for places in (module._parameters, module._buffers):
                for name, one in places.items():
                    if one is not None and id(one) not in made:
                        empty = torch.empty(one.shape, dtype=one.dtype)
                        made[id(one)] = (torch.nn.Parameter(empty)
                                         if isinstance(one, torch.nn.Parameter) else empty)
                    places[name] = made.get(id(one))
        return model

    def layers_in(self, model, plan):
        return find_layers(model, plan)

    def batch(self, plan, seed, sample_count):
        return jobs.batch_of(sample_count, seed, self.kind)

    def loss_function(self):
        return jobs.loss_fn


def plan_of_case(kind, stages, options, is_tied):
    layer_count = sum(map(len, stages))
    return (jobs.plan_of(jobs.spec_of(kind, layer_count, is_tied), stages, **options),
            Fixed(kind, layer_count, is_tied))


def count_cases(number, ranks, folder):
    rank = ranks[number]
    torch.set_num_threads(1)
    steps.begin_fake_job(RANKS, rank)
    rows = {}
    # Each rank has its share of the cases.
    for seed in range(number, CASES, len(ranks)):
        case = random_case(seed)
        plan, source = plan_of_case(*case)
        seen = steps.count_here(plan, source, jobs.TENSOR_PLANS[case[0]])
        rows[seed] = steps.rows_of(plan, rank, seen)
    pathlib.Path(folder, str(rank)).write_bytes(pickle.dumps(rows))


def test_random_plans_make_what_is_priced(tmp_path):
    ranks = (0, RANKS - 1)
    start_ranks(count_cases, (ranks, str(tmp_path)), len(ranks))
    found = {}
    for rank in ranks:
        found.update(pickle.loads((tmp_path / str(rank)).read_bytes()))
    assert len(found) == CASES
    for seed, rows in found.items():
        for row in rows:
            assert row.is_equal, (seed, row, random_case(seed))
            assert row.kind in KINDS, (seed, row)
    purposes = {purpose for rows in found.values() for row in rows for purpose in row.purposes}
    assert purposes == {"tensor", "context", "experts", "gradient", "pipeline", "tied table",
                        "loss", "gradients of norms", "change of layout"}
    # Only what the definition of a layer does not show is left out.
    for seed, rows in found.items():
        kind, stages, options, _ = random_case(seed)
        strategies = [one for stage in stages for one in stage]
        has_hidden = kind in ("gpt2", "qwen3", "qwen3_moe", "bert") and any(
            one.tensor_parallel_degree > 1 for one in strategies)
        has_chunks = options["virtual_stage_count"] == len(stages) > 1
        if not has_hidden and not has_chunks:
            assert not any(row.not_priced for row in rows), (seed, rows)


def totals(stages, rank=0, model=None, **options):
    """Returns priced calls of a rank by purpose and kind."""
    plan = jobs.plan_of(model or plans.model_of(sum(map(len, stages))), stages, is_run=False,
                        **options)
    priced = collections.Counter()
    for one in traffic.traffic_of(plan, rank):
        for kind, count in one.priced.items():
            priced[one.purpose, kind] += count
    return priced


def test_priced_counts_are_those_of_the_documents():
    """Worked by hand from docs/cost-model.md, "Collectives of the runtime torch": an embedding, two
    decoders and a head over 2 ranks, 3 micro-batches."""
    split = Strategy(2, 1)
    priced = totals([[split] * 4], batch=6, micro_batch_count=3)
    # Embedding 1 forward, decoders 2 forward and 2 backward each, head 1 backward.
    assert priced["tensor", "all-reduce"] == 3 * (1 + 2 * 4 + 1)
    # The logits.
    assert priced["tensor", "all-gather"] == 3
    assert priced["loss", "all-reduce"] == 1
    assert priced["gradients of norms", "all-reduce"] == 0
    # Full recomputation repeats the forward ones, and stops before the last.
    full = dataclasses.replace(split, recompute=Recompute.FULL)
    priced = totals([[split, full, full, split]], batch=6, micro_batch_count=3)
    assert priced["tensor", "all-reduce"] == 3 * (1 + 2 * 5 + 1)


def test_priced_counts_with_sequence_parallelism():
    """A gather and a scatter for each all-reduce; gathered inputs are kept."""
    split = Strategy(2, 1, sequence_parallel=True)
    priced = totals([[split] * 4], batch=6, micro_batch_count=3)
    # Embedding 1 backward, decoders 2 forward and 2 backward, head 1 forward, and the logits.
    assert priced["tensor", "all-gather"] == 3 * (1 + 2 * 4 + 2)
    assert priced["tensor", "reduce-scatter"] == 3 * (1 + 2 * 4 + 1)
    # Norms of two decoders and of the head, once a step.
    assert priced["gradients of norms", "all-reduce"] == 3


@pytest.mark.parametrize("sharding,gathers,scatters,sums", [
    (Sharding.NONE, 0, 0, 1), (Sharding.OPTIMIZER, 1, 1, 0), (Sharding.GRADIENTS, 1, 3, 0),
    (Sharding.PARAMETERS, 6, 3, 0)])
def test_priced_counts_of_data_parallelism(sharding, gathers, scatters, sums):
    """A layer and 3 micro-batches: ZeRO-1 scatters and gathers once a step, ZeRO-2 scatters for
    each micro-batch, ZeRO-3 gathers for each pass too."""
    one = Strategy(1, 2, sharding=sharding)
    priced = totals([[one] * 3], batch=6, micro_batch_count=3)
    assert priced["gradient", "all-gather"] == 3 * gathers
    assert priced["gradient", "reduce-scatter"] == 3 * scatters
    assert priced["gradient", "all-reduce"] == 3 * sums


def test_priced_counts_of_tokens_that_ranks_share():
    """Rings: three hops of keys and values in each pass, and three of their gradients; Ulysses: 4
    all-to-alls each way."""
    plain = Strategy(1, 4)
    ring = Strategy(1, 1, context_parallel_degree=4)
    priced = totals([[plain, ring, plain]], batch=8, micro_batch_count=2)
    assert priced["context", "send"] == priced["context", "receive"] == 2 * 3 * 3
    # Tokens of all ranks from samples and back, each way.
    assert priced["change of layout", "all-to-all"] == 2 * 2 * 2
    again = dataclasses.replace(ring, recompute=Recompute.SELECTIVE)
    priced = totals([[plain, again, plain]], batch=8, micro_batch_count=2)
    assert priced["context", "send"] == priced["context", "receive"] == 2 * 4 * 3
    ulysses = dataclasses.replace(ring, context_kind=ContextKind.ULYSSES, recompute=Recompute.FULL)
    priced = totals([[plain, ulysses, plain]], batch=8, micro_batch_count=2)
    assert priced["context", "all-to-all"] == 2 * 12


def test_priced_counts_of_experts():
    """Forward how many tokens, which experts, and tokens there and back; backward two gradients.
    Experts are on half of the ranks that share the rest."""
    model = jobs.spec_of("experts", 3)
    spread = Strategy(1, 4, expert_parallel_degree=2, sharding=Sharding.OPTIMIZER)
    plain = Strategy(1, 4)
    priced = totals([[plain, spread, plain]], model=model, batch=8, micro_batch_count=2)
    assert priced["experts", "all-to-all"] == 2 * 6
    assert priced["gradient", "all-gather"] == 2
    # Tensor parallelism: attention and experts, and the gradient of what weighs the experts.
    split = Strategy(4, 1)
    priced = totals([[plain, split, plain]], model=model, batch=8, micro_batch_count=2)
    assert priced["tensor", "all-reduce"] == 2 * (2 + 2 + 1)
    by_tokens = dataclasses.replace(split, sequence_parallel=True)
    priced = totals([[plain, by_tokens, plain]], model=model, batch=8, micro_batch_count=2)
    assert priced["tensor", "all-gather"] == 2 * (2 + 2 + 2)
    assert priced["tensor", "reduce-scatter"] == 2 * (2 + 2 + 1)


def test_messages_between_stages_are_two_for_each_micro_batch():
    one = Strategy(1, 2)
    for rank, neighbours in ((0, 1), (2, 2), (4, 1)):
        priced = totals([[one, one], [one], [one, one]], rank, batch=8, micro_batch_count=4)
        assert priced["pipeline", "send"] == priced["pipeline", "receive"] == 4 * neighbours


def test_a_large_job_is_counted_by_the_ranks_that_differ(tmp_path):
    """64 ranks of a plan of 4 places, in bf16; the groups are those of 64 ranks."""
    wide = Strategy(1, 16, sharding=Sharding.PARAMETERS)
    split = Strategy(4, 4, sharding=Sharding.OPTIMIZER, recompute=Recompute.FULL,
                     sequence_parallel=True)
    stages = [[wide, split], [split] * 2, [split] * 2, [split, wide]]
    model = plans.model_of(8, sequence_length=64)
    model.precision = 2  # PRECISION_BF16
    plan = jobs.plan_of(model, stages, batch=64, micro_batch_count=4,
                        schedule=Schedule.ONE_FORWARD_ONE_BACKWARD)
    assert steps.ranks_that_differ(plan) == [0, 16, 48]
    counted = steps.count_step(plan, plans.topology_of(64), Source("check_models:plain"),
                               jobs.TENSOR_PLAN)
    assert not counted.fault
    wrong = [row for row in counted.rows if not row.is_equal]
    assert not wrong
    assert {row.ranks for row in counted.rows if "gradient" in row.purposes} >= {
        "0-15", "0-12/4", "48-63"}
    assert not counted.notes and not any(row.not_priced for row in counted.rows)


def test_one_collective_more_is_seen():
    one = Strategy(1, 2)
    plan = jobs.plan_of(plans.model_of(4), [[one] * 4], batch=4, micro_batch_count=2)
    counted = steps.count_step(plan, plans.topology_of(2), Source("check_models:add_up_twice"),
                               jobs.TENSOR_PLAN)
    assert not counted.is_equal
    (wrong,) = [row for row in counted.rows if not row.is_equal]
    # A message of each layer, and the loss, are one group here.
    assert (wrong.kind, wrong.priced, wrong.counted) == ("all-reduce", 4 + 1, 8 + 1)


def test_a_broadcast_is_seen_which_no_plan_has():
    one = Strategy(1, 2)
    plan = jobs.plan_of(plans.model_of(4), [[one] * 4], batch=4, micro_batch_count=2)
    counted = steps.count_step(plan, plans.topology_of(2),
                               Source("check_models:broadcast_gradients"), jobs.TENSOR_PLAN)
    assert not counted.is_equal
    (wrong,) = [row for row in counted.rows if not row.is_equal]
    assert (wrong.kind, wrong.priced, wrong.counted, wrong.ranks) == ("broadcast", 0, 4, "0,1")
    assert wrong.purposes == ("unexpected",)


def test_equal_places_run_once():
    one, two = Strategy(1, 2), Strategy(2, 1)
    stages = [[one, one], [one], [one], [one], [one, one]]
    plan = jobs.plan_of(plans.model_of(7), stages, batch=8, micro_batch_count=4)
    # The second and third place stand for the fourth too.
    assert steps.ranks_that_differ(plan) == [0, 2, 8]
    stages[3] = [two]
    plan = jobs.plan_of(plans.model_of(7), stages, batch=8, micro_batch_count=4)
    # The third hands activations to another layout.
    assert steps.ranks_that_differ(plan) == [0, 2, 4, 6, 8]


def test_ranks_are_told_in_short():
    assert traffic.ranks_text((0, 1, 2, 3)) == "0-3"
    assert traffic.ranks_text((1, 5, 9)) == "1-9/4"
    assert traffic.ranks_text((0, 4)) == "0,4"
    assert traffic.ranks_text((0, 1, 3)) == "0,1,3"
