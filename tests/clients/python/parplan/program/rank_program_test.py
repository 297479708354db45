"""The programs of ranks are those of planner/program: its reshards, groups and passes.

One test reads what the C++ code wrote for every plan of the executor's tests, the other compares
random plans with the C interface.
"""

import collections
import json
import time

import pytest
import signed_plans as plans

import parplan
from parplan.program import (ActivationLayout, PassKind, make_reshard, pass_order,
                             rank_program)
from parplan.strategy import ContextKind, Schedule, Strategy


def block(one):
    return [one.samples.begin, one.samples.end, one.tokens.begin, one.tokens.end]


def reshard_json(one):
    return {"sends": [[move.peer, block(move.block)] for move in one.sends],
            "receives": [[move.peer, block(move.block)] for move in one.receives],
            "copies": [block(copy) for copy in one.copies]}


def program_json(program):
    """Returns a program as tests/clients/python/plan_files.cc writes it."""
    def index(group):
        return -1 if group is None else program.groups.index(group)

    def layer_json(layer):
        place = layer.place
        return {"layer": layer.layer.index, "place": [place.tensor, place.context, place.data],
                "tensor": index(layer.tensor), "context": index(layer.context),
                "gradient": index(layer.gradient), "enter": reshard_json(layer.enter),
                "leave_backward": reshard_json(layer.leave_backward)}

    def stage_json(stage):
        moves = ("receive_forward", "send_forward", "receive_backward", "send_backward")
        return {"stage": stage.stage_index, "layers": [layer_json(one) for one in stage.layers],
                "stage_group": index(stage.stage_group),
                **{name: reshard_json(getattr(stage, name)) for name in moves},
                **{f"{name}_group": index(getattr(stage, f"{name}_group")) for name in moves}}

    return {"rank": program.rank, "pipeline_place": program.pipeline_place,
            "groups": [[group.purpose, list(group.ranks)] for group in program.groups],
            "stages": [stage_json(stage) for stage in program.stages],
            "passes": [[one.stage_index, one.micro_batch, one.is_backward]
                       for one in program.passes],
            "tied": index(program.tied)}


def test_all_plans_of_the_executors_tests_have_the_programs_of_cpp(plan_folder):
    folders = sorted(path for path in plan_folder.iterdir() if path.is_dir())
    assert len(folders) > 240
    moved = 0
    for folder in folders:
        plan = parplan.Plan.load_files(folder / "envelope.json", plan_folder / "trust.json",
                                       folder / "model.json", folder / "topology.json")
        expected = json.loads((folder / "programs.json").read_text())
        assert plan.device_count == len(expected)
        for rank, program in enumerate(expected):
            assert program_json(plan.rank(rank)) == program, (folder.name, rank)
            moved += any(layer["enter"]["receives"] for stage in program["stages"]
                         for layer in stage["layers"])
    assert moved > 200


@pytest.mark.parametrize("first_seed", [0, 100, 200])
def test_random_plans_are_what_the_c_interface_says(library, first_seed):
    executor, loaded = library
    trust = plans.trust(plans.FIRST)
    checked = 0
    for seed in range(first_seed, first_seed + 100):
        model, topology, payload = plans.random_plan(seed, plans.ISSUE_TIME)
        envelope = plans.sign(payload.SerializeToString(), plans.FIRST).to_json().encode()
        files = [plans.json_text(one) for one in (model, topology)]
        ours = parplan.Plan.load(envelope, trust, *files, time=plans.ISSUE_TIME)
        try:
            theirs = executor.Plan(loaded, envelope, trust, *files, time=plans.ISSUE_TIME)
        except executor.Error as error:
            # The executor cannot train it; another cause would be a difference.
            assert "the executor" in str(error), (seed, error)
            continue
        checked += 1
        for name in ("name", "device_count", "pipeline_parallel_degree", "virtual_stage_count",
                     "global_batch_size", "micro_batch_count", "predicted_step_seconds",
                     "predicted_peak_memory_bytes", "expire_time"):
            assert getattr(ours, name) == getattr(theirs, name), (seed, name)
        for layer in ours.layers:
            other, own = theirs.layer(layer.index), layer.strategy
            assert ((layer.stage_index, layer.first_rank, layer.rank_count, own.sharding,
                     own.recompute, own.context_kind, own.sequence_parallel, own.tensor_innermost,
                     own.tensor_parallel_degree, own.data_parallel_degree,
                     own.context_parallel_degree) ==
                    (other.stage_index, other.first_rank, other.rank_count, other.sharding,
                     other.recompute, other.context_kind, other.sequence_parallel,
                     other.tensor_innermost, other.tensor_parallel_degree,
                     other.data_parallel_degree, other.context_parallel_degree)), seed
        assert ([(one.purpose, one.ranks) for one in ours.groups()] ==
                [(one.purpose, one.ranks) for one in theirs.groups()]), seed
        for rank in range(ours.device_count):
            own, other = ours.rank(rank), theirs.rank(rank)
            assert ([(one.stage_index, one.micro_batch, one.is_backward) for one in own.passes] ==
                    [(one.stage_index, one.micro_batch, one.is_backward)
                     for one in other.passes()]), seed
            for stage in own.stages:
                for layer in stage.layers:
                    groups = other.layer_groups(layer.layer.index)
                    for name in ("tensor", "context", "gradient"):
                        mine, its = getattr(layer, name), getattr(groups, name)
                        assert (mine and mine.ranks) == (its and its.ranks), (seed, rank)
    assert checked > 60


def verified(model, topology, payload):
    signed = plans.sign(payload.SerializeToString(), plans.FIRST)
    trust = parplan.envelope.TrustBundle.from_json(plans.trust(plans.FIRST))
    return parplan.Plan.verify(signed, trust, model, topology, time=plans.ISSUE_TIME)


def test_groups_of_all_ranks_are_those_of_their_programs():
    for seed in range(100):
        plan = verified(*plans.random_plan(seed, plans.ISSUE_TIME))
        found = {group for rank in range(plan.device_count) for group in plan.rank(rank).groups}
        assert plan.groups() == tuple(sorted(found)), seed


def test_groups_of_many_ranks_need_no_programs(monkeypatch):
    """Each rank of a job asks for them, and programs of all ranks take the square of their number:
    those of 128 ranks with two changes of layout took 49 s."""
    monkeypatch.setattr(rank_program, "make_reshard", None)
    ranks = 2048
    ends, middle = Strategy(1, ranks), Strategy(4, ranks // 4)
    model, topology = plans.model_of(4), plans.topology_of(ranks)
    plan = verified(model, topology, plans.payload_of(
        model, topology, [[ends, middle, middle, ends]], batch=ranks, micro_batch_count=1))
    counts = collections.Counter(group.purpose for group in plan.groups())
    # Gradients of the ends go over all ranks, those of the middle over four groups.
    assert counts == {"loss": 1, "stage": 1, "tensor": ranks // 4, "gradient": 1 + 4}


def test_every_row_of_the_new_layout_comes_from_one_place():
    """The law of resharding, for layouts on the same and on different ranks."""
    strategies = [Strategy(2, 2), Strategy(1, 4), Strategy(4, 1, sequence_parallel=True),
                  Strategy(2, 1, context_parallel_degree=2),
                  Strategy(1, 2, context_parallel_degree=2, context_kind=ContextKind.ULYSSES),
                  Strategy(2, 2, tensor_innermost=False, sequence_parallel=True)]
    for first in strategies:
        for second in strategies:
            for shift in (0, 4):
                source = ActivationLayout(0, first, 4, 24)
                target = ActivationLayout(shift, second, 4, 24)
                parts = {rank: make_reshard(source, target, rank) for rank in range(8)}
                for rank in target.ranks():
                    rows = []
                    for one in (*parts[rank].copies,
                                *(move.block for move in parts[rank].receives)):
                        rows += [(sample, token)
                                 for sample in range(one.samples.begin, one.samples.end)
                                 for token in range(one.tokens.begin, one.tokens.end)]
                    samples, tokens = target.samples_of(rank), target.tokens_of(rank)
                    wanted = [(sample, token) for sample in range(samples.begin, samples.end)
                              for part in tokens for token in range(part.begin, part.end)]
                    assert sorted(rows) == sorted(wanted)
                    for move in parts[rank].receives:
                        sent = [one.block for one in parts[move.peer].sends if one.peer == rank]
                        assert move.block in sent


@pytest.mark.parametrize("schedule, degree, chunks, count", [
    (Schedule.GPIPE, 3, 1, 5), (Schedule.ONE_FORWARD_ONE_BACKWARD, 4, 1, 3),
    (Schedule.INTERLEAVED, 2, 3, 4), (Schedule.INTERLEAVED, 4, 2, 6),
    (Schedule.INTERLEAVED, 1, 3, 2), (Schedule.INTERLEAVED, 3, 1, 4),
    (Schedule.ZERO_BUBBLE, 4, 1, 7), (Schedule.ZERO_BUBBLE, 4, 1, 2),
    (Schedule.ZERO_BUBBLE, 1, 1, 2)])
def test_passes_run_every_micro_batch_once_and_never_wait_in_a_circle(schedule, degree, chunks,
                                                                      count):
    orders = [pass_order(schedule, degree, chunks, count, device) for device in range(degree)]
    done, places = set(), [0] * degree
    last = degree * chunks - 1
    while any(place < len(order) for place, order in zip(places, orders)):
        moved = False
        for device, order in enumerate(orders):
            while places[device] < len(order):
                one = order[places[device]]
                stage, micro_batch = one.stage_index, one.micro_batch
                if one.kind == PassKind.BACKWARD_WEIGHTS:
                    ready = (stage, micro_batch, True) in done
                elif not one.is_backward:
                    ready = stage == 0 or (stage - 1, micro_batch, False) in done
                elif stage == last:
                    ready = (stage, micro_batch, False) in done
                else:
                    ready = (stage + 1, micro_batch, True) in done
                if not ready:
                    break
                done.add((stage, micro_batch, "weights" if one.kind == PassKind.BACKWARD_WEIGHTS
                          else one.is_backward))
                places[device] += 1
                moved = True
        assert moved, "devices wait for each other"
    parts = 3 if schedule == Schedule.ZERO_BUBBLE else 2
    assert len(done) == parts * degree * chunks * count == sum(map(len, orders))


def test_split_backward_passes_have_the_order_of_pass_order_test():
    # The example of tests/planner/model/pass_order_test.cc.
    def names(device):
        return [f"{one.kind.value}{one.micro_batch}"
                for one in pass_order(Schedule.ZERO_BUBBLE, 3, 1, 4, device)]

    assert names(0) == ["F0", "F1", "F2", "I0", "W0", "F3", "I1", "W1", "I2", "W2", "I3", "W3"]
    assert names(2) == ["F0", "I0", "F1", "I1", "F2", "I2", "W0", "F3", "I3", "W1", "W2", "W3"]


def test_a_plan_that_divides_unevenly_is_refused_with_the_layer():
    model, topology = plans.model_of(4), plans.topology_of(2)
    cases = [
        ({"batch": 3}, Strategy(1, 2), "layer 0"),
        ({"batch": 2}, Strategy(1, 1, context_parallel_degree=2), "layer 0"),
        ({"batch": 2}, Strategy(2, 1, sequence_parallel=True), "layer 0")]
    models = [model, plans.model_of(4, sequence_length=22), plans.model_of(4, sequence_length=23)]
    for (options, strategy, named), model in zip(cases, models):
        payload = plans.payload_of(model, topology, [[strategy] * 4], micro_batch_count=1,
                                   **options)
        envelope = plans.sign(payload.SerializeToString(), plans.FIRST)
        bundle = parplan.envelope.TrustBundle.from_json(plans.trust(plans.FIRST))
        with pytest.raises(parplan.errors.SpecInvalid) as raised:
            parplan.Plan.verify(envelope, bundle, model, topology, time=plans.ISSUE_TIME)
        assert raised.value.metadata["field"] == named


def test_the_same_plan_for_another_time_is_refused(plan_folder):
    folder = next(path for path in plan_folder.iterdir() if path.is_dir())
    with pytest.raises(parplan.errors.PlanExpired):
        parplan.Plan.load_files(folder / "envelope.json", plan_folder / "trust.json",
                                folder / "model.json", folder / "topology.json",
                                time=time.time() + 2 * plans.DAY)


def test_virtual_stages_of_one_device_are_refused_by_both(library):
    executor, loaded = library
    model, topology = plans.model_of(4), plans.topology_of(2)
    stages = [[Strategy(1, 2)] * 2, [Strategy(1, 2)] * 2]
    payload = plans.payload_of(model, topology, stages, batch=4, micro_batch_count=2,
                               schedule=Schedule.INTERLEAVED, virtual_stage_count=2)
    envelope = plans.sign(payload.SerializeToString(), plans.FIRST).to_json().encode()
    files = [plans.trust(plans.FIRST), *(plans.json_text(one) for one in (model, topology))]
    for load in (parplan.Plan.load, lambda *given, **options: executor.Plan(
            loaded, *given, **options)):
        with pytest.raises(Exception, match="above 1 needs a pipeline of several devices"):
            load(envelope, *files, time=plans.ISSUE_TIME)
