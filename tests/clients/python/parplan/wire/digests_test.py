"""Digests of models and topologies are those of proto/wire/digest.cc.

A plan is only accepted if its digests are those of the files, so every plan that the C++ tests
write and that loads here proves a pair of digests (program/rank_program_test.py). These tests draw
models and topologies with every field, and let the C interface judge.
"""

import json
import random

import pytest
import signed_plans as plans

import parplan
from parplan.strategy import Strategy
from parplan.wire import digests, json_file, messages
from parplan.wire.layer_parameters import with_defaults


def random_model(draw):
    transformer = {
        "layer_definition_id": "middle",
        "kind": draw.choice(["LAYER_KIND_DECODER", "LAYER_KIND_ENCODER"]),
        "attention_head_count": 12, "key_value_head_count": draw.choice([0, 3, 12]),
        "head_size": draw.choice([0, 4, 16]), "feed_forward_size": draw.choice([96, 192]),
        "feed_forward_kind": draw.choice(["FEED_FORWARD_KIND_GELU", "FEED_FORWARD_KIND_SWIGLU"]),
        "parameter_count": draw.choice([0, 12345])}
    embedding = {"layer_definition_id": "first", "kind": "LAYER_KIND_EMBEDDING",
                 "vocabulary_size": draw.choice([96, 101])}
    head = {"layer_definition_id": "last", "kind": "LAYER_KIND_HEAD", "vocabulary_size": 96,
            "tied_embedding": draw.random() < 0.3 and embedding["vocabulary_size"] == 96}
    sizes = {"hidden_size": 48, "sequence_length": draw.choice([8, 24])}
    return json_file.from_dict({
        "model_id": f"model-{draw.randint(0, 9)}.a_b",
        "layer_definitions": [{**one, **sizes} for one in (embedding, transformer, head)],
        # Runs of one layer make the same model as one run of two.
        "layer_runs": [{"layer_definition_id": name, "layer_count": 1}
                       for name in ("first", "middle", "middle", "last")],
        "precision": draw.choice(["PRECISION_FP32", "PRECISION_BF16", "PRECISION_FP16"]),
        "optimizer": draw.choice(["OPTIMIZER_ADAM", "OPTIMIZER_SGD"])}, "ModelSpec", "model")


def random_topology(draw):
    nodes = draw.choice([1, 2])
    names = [f"nöde \"{draw.randint(0, 9)}\\{number}" for number in range(nodes)]
    return json_file.from_dict({
        "cluster": "tests",
        "node_groups": [{"node_group_id": "all", "device_kind": draw.choice(["CPU test", "H\t100"]),
                         "node_count": nodes, "devices_per_node": 2 // nodes,
                         "node_names": names if draw.random() < 0.5 else [],
                         "device_memory_bytes": 1 << 33,
                         "reserved_memory_bytes": draw.choice([0, 1 << 20])}],
        "link_tiers": ([{"tier_id": "node", "reach_device_count": 1}] if nodes == 2 else []) + [
            {"tier_id": "all", "reach_device_count": 2}],
        "fabric_id": draw.choice(["", "roce-400g"])}, "ClusterTopology", "topology")


def test_the_c_interface_computes_the_same_digests(library):
    executor, loaded = library
    for seed in range(150):
        draw = random.Random(seed)
        model, topology = random_model(draw), random_topology(draw)
        payload = plans.payload_of(model, topology, [[Strategy(1, 2)] * 4], batch=2,
                                   micro_batch_count=1)
        envelope = plans.sign(payload.SerializeToString(), plans.FIRST).to_json().encode()
        files = [plans.json_text(one) for one in (model, topology)]
        executor.Plan(loaded, envelope, plans.trust(plans.FIRST), *files, time=plans.ISSUE_TIME)
        parplan.Plan.load(envelope, plans.trust(plans.FIRST), *files, time=plans.ISSUE_TIME)


def test_the_c_code_computes_the_same_digests_of_models(plan_folder):
    listed = json.loads((plan_folder / "models.json").read_text())
    kinds = set()
    for one in listed:
        model = json_file.from_dict(one["model"], "ModelSpec", one["name"])
        assert digests.model_digest(model) == one["digest"], one["name"]
        counts = {definition.layer_definition_id: with_defaults(definition).parameter_count
                  for definition in model.layer_definitions}
        assert one["parameters"] == sum(counts[run.layer_definition_id] * run.layer_count
                                        for run in model.layer_runs), one["name"]
        kinds |= {messages.enum_name("LayerKind", definition.kind)
                  for definition in model.layer_definitions}
    names = [one["name"] for one in listed]
    # Configurations that import, examples, structures, and random models.
    assert {"deepseek-v3.json", "jamba-1.5.json", "gpt-oss-120b.json", "llama2-7b.model.json",
            "opaque", "prediction", "gated-delta"} <= set(names)
    assert sum(name.startswith("random") for name in names) > 100
    assert len(kinds) == 9, kinds


@pytest.mark.parametrize("part, field, value", [
    ({}, "attention_window", 16), ({}, "attention_chunk_size", 16), ({}, "prediction_depth", 1),
    ({"latent_attention": {"key_value_rank": 4, "value_head_size": 8}}, "query_rank", 6),
    ({"state_space": {"kind": "STATE_SPACE_KIND_DUAL", "inner_size": 96, "head_count": 4,
                      "group_count": 2, "convolution_width": 4, "state_size": 8}},
     "chunk_size", 64),
    ({"opaque": {"kept_bytes_per_sample": 8}}, "boundary_bytes_per_sample", 64)])
def test_a_digest_of_structures_depends_on_each_number(part, field, value):
    changed = {name: {**inner, field: value} for name, inner in part.items()} or {field: value}
    found = {digests.model_digest(plans.model_of(4, **more)) for more in ({}, part, changed)}
    assert len(found) == (3 if part else 2)


def test_a_digest_of_experts_depends_on_each_number():
    experts = {"feed_forward_size": 0, "expert_count": 8, "experts_per_token": 2,
               "expert_feed_forward_size": 64, "shared_expert_feed_forward_size": 32,
               "expert_latent_size": 48}
    found = {digests.model_digest(plans.model_of(4))}
    found.add(digests.model_digest(plans.model_of(4, **experts)))
    for name in list(experts)[1:]:
        found.add(digests.model_digest(plans.model_of(4, **{**experts, name: 1})))
    assert len(found) == 7


def test_another_model_or_topology_is_refused():
    model, topology = plans.model_of(4), plans.topology_of(2)
    payload = plans.payload_of(model, topology, [[Strategy(1, 2)] * 4], batch=2,
                               micro_batch_count=1)
    signed = plans.sign(payload.SerializeToString(), plans.FIRST)
    trust = parplan.envelope.TrustBundle.from_json(plans.trust(plans.FIRST))

    def load(model, topology):
        return parplan.Plan.verify(signed, trust, model, topology, time=plans.ISSUE_TIME)

    assert load(model, topology).device_count == 2
    with pytest.raises(parplan.errors.SpecInvalid, match="another model"):
        load(plans.model_of(5), topology)
    with pytest.raises(parplan.errors.TopologyMismatch):
        load(model, plans.topology_of(3))


def test_a_field_of_a_later_release_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(digests, "_LAYER_FIELDS", digests._LAYER_FIELDS - {"sequence_length"})
    with pytest.raises(parplan.errors.SpecInvalid, match=r"definitions\[0\].sequence_length.*upgr"):
        digests.model_digest(plans.model_of(4))
    monkeypatch.undo()
    monkeypatch.setattr(digests, "_OPAQUE_DEGREE_FIELDS", ("tensor_parallel_degree",))
    opaque = {"tensor_degrees": [{"tensor_parallel_degree": 2, "parameter_count": 1}]}
    with pytest.raises(parplan.errors.SpecInvalid,
                       match=r"definitions\[1\].opaque.tensor_degrees\[0\].parameter_count: is n"):
        digests.model_digest(plans.model_of(4, opaque=opaque))


@pytest.mark.parametrize("text", [
    b"", b"[]", b'{"model_id": null}', b'{"modle_id": "a"}', b'{"model_id": "a", "model_id": "b"}',
    b'{"layer_runs": [{"layer_count": 1.5}]}', b'{"layer_runs": [{"layer_count": 1e10}]}',
    b'{"precision": "PRECISION_FP64"}', b'{"model_id": NaN}', b'{"model_id": "\\ud800"}'])
def test_a_file_that_breaks_a_rule_is_refused(text):
    with pytest.raises(parplan.errors.SpecInvalid, match="model"):
        json_file.parse(text, "ModelSpec", "model")


def test_files_may_use_either_form_of_names():
    plain = json_file.parse(b'{"model_id": "a"}', "ModelSpec", "model")
    camel = json_file.parse(b'{"modelId": "a"}', "ModelSpec", "model")
    assert plain == camel == messages.ModelSpec(model_id="a")
