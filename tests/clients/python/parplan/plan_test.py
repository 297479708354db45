"""What a plan says, and payloads that are signed but are no plan."""

import re

import pytest
import signed_plans as plans

import parplan
from parplan import plan_contents
from parplan.strategy import Recompute, Schedule, Sharding, Strategy
from parplan.wire import messages


def payload_of(stages, **options):
    layers = sum(map(len, stages))
    model = plans.model_of(layers)
    topology = plans.topology_of(stages[0][0].rank_count * len(stages))
    return model, topology, plans.payload_of(
        model, topology, stages, **{"batch": 24, "micro_batch_count": 2, **options})


def test_the_largest_plan_is_that_of_the_planner(source):
    header = (source / "planner/model/planning_problem.h").read_text()
    limits = dict(re.findall(r"^inline constexpr int (kMax\w+Count) = (\d+);$", header, re.M))
    assert plan_contents.MAX_LAYER_COUNT == int(limits["kMaxLayerCount"])
    assert plan_contents.MAX_DEVICE_COUNT == int(limits["kMaxDeviceCount"])


def test_a_plan_says_what_its_layers_do():
    first = Strategy(2, 1, sequence_parallel=True)
    second = Strategy(1, 2, sharding=Sharding.PARAMETERS, recompute=Recompute.FULL)
    model, topology, payload = payload_of([[first, second], [second, first]],
                                          schedule=Schedule.GPIPE)
    payload.job_id = "4711"
    signed = plans.sign(payload.SerializeToString(), plans.FIRST)
    trust = parplan.envelope.TrustBundle.from_json(plans.trust(plans.FIRST))
    plan = parplan.Plan.verify(signed, trust, model, topology, job_id="4711",
                               time=plans.ISSUE_TIME)
    assert plan.name == "clusters/tests/plans/p1"
    assert plan.key_id == plans.FIRST.key_id
    assert [layer.strategy for layer in plan.layers] == [first, second, second, first]
    assert [layer.stage_index for layer in plan.layers] == [0, 0, 1, 1]
    assert [layer.first_rank for layer in plan.layers] == [0, 0, 2, 2]
    assert (plan.device_count, plan.pipeline_parallel_degree) == (4, 2)
    assert plan.schedule == Schedule.GPIPE
    assert plan.predicted_step_seconds == 0.25
    assert plan.expire_time == plans.ISSUE_TIME + plans.DAY
    assert plan.layer_kind(1) == "LAYER_KIND_DECODER" and not plan.has_tied_table
    program = plan.rank(3)
    assert program.stages[0].layers[0].gradient == parplan.Group("gradient", (2, 3))
    assert program.stages[0].layers[1].tensor == parplan.Group("tensor", (2, 3))
    assert parplan.Group("loss", (0, 1, 2, 3)) in plan.groups()
    with pytest.raises(parplan.errors.SpecInvalid, match="ranks 0 to 3"):
        plan.rank(4)
    with pytest.raises(parplan.errors.AudienceMismatch):
        parplan.Plan.verify(signed, trust, model, topology, job_id="4712", time=plans.ISSUE_TIME)


def test_a_plan_says_what_selective_recomputation_computes_again():
    def policy_of(stages, message=None):
        model, topology, payload = payload_of(stages, recompute_policy=message)
        signed = plans.sign(payload.SerializeToString(), plans.FIRST)
        trust = parplan.envelope.TrustBundle.from_json(plans.trust(plans.FIRST))
        return parplan.Plan.verify(signed, trust, model, topology,
                                   time=plans.ISSUE_TIME).recompute_policy

    plain, selective = Strategy(2, 1), Strategy(2, 1, recompute=Recompute.SELECTIVE)
    message = messages.RecomputePolicy(selective_ac_option="op", recomputed_product_interval=2,
                                       saved_operators=["aten.mm.default"])
    assert policy_of([[plain] * 3], message) is None
    # A plan of an earlier release.
    assert policy_of([[plain, selective, plain]]) == parplan.RecomputePolicy("attention")
    found = policy_of([[plain, selective, plain]], message)
    assert found == parplan.RecomputePolicy("op", ("aten.mm.default",), 2)
    assert str(found) == ("op: all but aten.mm.default, of products each number that 2 divides "
                          "again")
    for wrong, field in (({"saved_operators": ["aten.mm.default"]}, "selective_ac_option"),
                         ({"selective_ac_option": "op", "recomputed_product_interval": -1},
                          "recomputed_product_interval")):
        with pytest.raises(parplan.errors.PayloadMalformed, match=f"recompute_policy.{field}"):
            policy_of([[plain] * 3], messages.RecomputePolicy(**wrong))


def change(path, value):
    def apply(payload):
        *way, last = path.split(".")
        place = payload
        for name in way:
            place = place[int(name)] if name.isdigit() else getattr(place, name)
        if isinstance(value, list):
            place.ClearField(last)
            getattr(place, last).extend(value)
        elif value is None:
            place.ClearField(last)
        else:
            setattr(place, last, value)
    return apply


STRATEGY = "stages.0.layer_runs.0.strategy"
SPOILED = [
    ("global_batch_size", 0), ("global_batch_size", 25), ("schedule", 9), ("schedule", -1),
    ("virtual_stage_count", -1), ("virtual_stage_count", 2), ("device_count", 3),
    ("micro_batch_group_size", -1), ("micro_batch_group_size", 4),
    ("stages.0.first_rank", 1), ("stages.1.first_rank", 0), ("stages.0.rank_count", 0),
    ("stages.0.rank_count", 70000), ("stages.0.rank_count", 1), ("stages.0.layer_runs", None),
    ("stages.1.layer_runs", None),
    ("stages.0.layer_runs.1.first_layer_index", 2), ("stages.0.layer_runs.1.layer_count", 0),
    ("stages.0.layer_runs.1.layer_count", 20000), (f"{STRATEGY}.tensor_parallel_degree", 0),
    (f"{STRATEGY}.tensor_parallel_degree", 2**31 - 1), (f"{STRATEGY}.data_parallel_degree", -2),
    (f"{STRATEGY}.data_parallel_degree", 2**30), (f"{STRATEGY}.sharding_level", 5),
    (f"{STRATEGY}.recompute_level", 4), (f"{STRATEGY}.recompute_level", 5),
    (f"{STRATEGY}.recompute_modules", [5]), (f"{STRATEGY}.rank_order", [1]),
    (f"{STRATEGY}.rank_order", [1, 1]), (f"{STRATEGY}.rank_order", [2, 3]),
    (f"{STRATEGY}.context_parallel_degree", -1), (f"{STRATEGY}.context_parallel_degree", 2**30),
    (f"{STRATEGY}.expert_tensor_parallel_degree", -1),
    (f"{STRATEGY}.expert_tensor_parallel_degree", 1),
    (f"{STRATEGY}.expert_tensor_parallel_degree", 3),
    (f"{STRATEGY}.expert_parallel_degree", -1), (f"{STRATEGY}.expert_parallel_degree", 3),
    (f"{STRATEGY}.sharding_degree", -2), (f"{STRATEGY}.sharding_degree", 2),
    (f"{STRATEGY}.context_kind", 2), (f"{STRATEGY}.context_kind", 3),
    (f"{STRATEGY}.context_kind", 7), (f"{STRATEGY}.context_exchange_degree", 2)]


@pytest.mark.parametrize("path, value", SPOILED, ids=[f"{path}={value}" for path, value in SPOILED])
def test_a_payload_that_is_no_plan_is_malformed_and_says_where(path, value):
    _, _, payload = payload_of([[Strategy(1, 2)] * 2] * 2)
    plan_contents.read_contents(payload)
    change(path, value)(payload)
    with pytest.raises(parplan.errors.PayloadMalformed) as raised:
        plan_contents.read_contents(payload)
    assert raised.value.metadata["field"].split(".")[0].split("[")[0] in (
        path.split(".")[0], "stages", "device_count", "micro_batch_count")


@pytest.mark.parametrize("path, value", SPOILED, ids=[f"{path}={value}" for path, value in SPOILED])
def test_the_c_interface_refuses_the_same_payloads_at_the_same_field(library, path, value):
    executor, loaded = library
    model, topology, payload = payload_of([[Strategy(1, 2)] * 2] * 2)
    change(path, value)(payload)
    signed = plans.sign(payload.SerializeToString(), plans.FIRST)
    trust = plans.trust(plans.FIRST)
    files = [plans.json_text(one) for one in (model, topology)]
    with pytest.raises(parplan.Error) as ours:
        parplan.Plan.load(signed.to_json(), trust, *files, time=plans.ISSUE_TIME)
    with pytest.raises(executor.Error) as theirs:
        executor.Plan(loaded, signed.to_json().encode(), trust, *files, time=plans.ISSUE_TIME)
    assert ours.value.reason == theirs.value.reason
    if ours.value.reason == "PAYLOAD_MALFORMED":
        assert f"{ours.value.metadata['field']}:" in str(theirs.value)


def test_a_stage_without_layers_is_read_and_no_program_is_made_of_it(library):
    executor, loaded = library
    model, topology, payload = payload_of([[Strategy(1, 2)] * 2, [], [Strategy(1, 2)] * 2])
    contents = plan_contents.read_contents(payload)
    assert [len(stage.layers) for stage in contents.stages] == [2, 0, 2]
    assert contents.stages[1].ranks() == range(2, 4)
    assert [layer.stage_index for layer in contents.layers] == [0, 0, 2, 2]
    signed = plans.sign(payload.SerializeToString(), plans.FIRST)
    trust = plans.trust(plans.FIRST)
    files = [plans.json_text(one) for one in (model, topology)]
    with pytest.raises(parplan.errors.SpecInvalid, match="it has no layer") as ours:
        parplan.Plan.load(signed.to_json(), trust, *files, time=plans.ISSUE_TIME)
    assert ours.value.metadata["field"] == "stages[1]"
    with pytest.raises(executor.Error, match=r"stages\[1\]: it has no layer") as theirs:
        executor.Plan(loaded, signed.to_json().encode(), trust, *files, time=plans.ISSUE_TIME)
    assert ours.value.reason == theirs.value.reason


def test_a_field_of_the_contract_that_the_code_does_not_know_is_refused(monkeypatch):
    _, _, payload = payload_of([[Strategy(1, 2)] * 3])
    monkeypatch.setattr(plan_contents, "_STRATEGY_FIELDS",
                        plan_contents._STRATEGY_FIELDS - {"rank_order"})
    with pytest.raises(parplan.errors.PayloadMalformed, match="rank_order.*upgrade"):
        plan_contents.read_contents(payload)
