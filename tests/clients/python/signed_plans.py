"""Plans made and signed by tests: payloads, models, topologies, envelopes and trust bundles."""

from __future__ import annotations

import base64
import dataclasses
import json
import random
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from parplan.envelope import Signature, SignedPlan
from parplan.envelope.envelope import PAYLOAD_TYPE
from parplan.envelope.trust_bundle import key_id_of
from parplan.strategy import ContextKind, Recompute, Schedule, Sharding, Strategy
from parplan.wire import digests, json_file, messages

# Levels that need no names of modules, which PyTorch does not repeat.
WHOLE_LEVELS = [level for level in Recompute if level != Recompute.MODULES]

# The keys of tests/proto/envelope/plan_fixture.cc, by their seeds, and its issue time.
SEEDS = ("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
         "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
ISSUE_TIME = 1772366400
DAY = 86400


class Key:
    """A private key of tests."""

    def __init__(self, seed: str) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
        self.raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.key_id = key_id_of(self.raw)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def jwk(self, not_before: int, not_after: int) -> dict[str, str]:
        def text(seconds: int) -> str:
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

        return {"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": self.key_id,
                "x": base64.urlsafe_b64encode(self.raw).decode().rstrip("="),
                "parplan_not_before": text(not_before), "parplan_not_after": text(not_after)}


FIRST, SECOND = Key(SEEDS[0]), Key(SEEDS[1])


def trust(*keys: Key, at: int = ISSUE_TIME) -> bytes:
    """Returns a bundle that trusts keys around a time."""
    return json.dumps({"keys": [key.jwk(at - 30 * DAY, at + 60 * DAY) for key in keys]}).encode()


def sign(payload: bytes, *keys: Key, payload_type: str = PAYLOAD_TYPE) -> SignedPlan:
    unsigned = SignedPlan(payload, payload_type, ())
    return dataclasses.replace(unsigned, signatures=tuple(
        Signature(key.sign(unsigned.signed_bytes()), key.key_id) for key in keys))


def model_of(layer_count: int, *, is_tied: bool = False, sequence_length: int = 24,
             **decoder: object) -> object:
    """Returns the model of tests/planner/program/program_cases.cc: an embedding, decoders of 12
    heads, and a head over 96 tokens."""
    common = {"hidden_size": 48, "sequence_length": sequence_length}
    return json_file.from_dict({
        "model_id": "small",
        "layer_definitions": [
            {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING",
             "vocabulary_size": 96, **common},
            {"layer_definition_id": "middle", "kind": "LAYER_KIND_DECODER",
             "attention_head_count": 12, "feed_forward_size": 192,
             "feed_forward_kind": "FEED_FORWARD_KIND_GELU", **common, **decoder},
            {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD", "vocabulary_size": 96,
             "tied_embedding": is_tied, **common}],
        "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                       {"layer_definition_id": "middle", "layer_count": layer_count - 2},
                       {"layer_definition_id": "head", "layer_count": 1}],
        "precision": "PRECISION_FP32", "optimizer": "OPTIMIZER_ADAM"}, "ModelSpec", "model")


def topology_of(device_count: int, **fields: object) -> object:
    return json_file.from_dict({
        "cluster": "tests",
        "node_groups": [{"node_group_id": "all", "device_kind": "CPU test", "node_count": 1,
                         "devices_per_node": device_count, "device_memory_bytes": 1 << 30}],
        "link_tiers": [{"tier_id": "node", "reach_device_count": device_count}], **fields},
        "ClusterTopology", "topology")


def json_text(message: object) -> bytes:
    """Returns a message as the content of a file."""
    return json.dumps(json_file.to_dict(message)).encode()


def strategy_message(strategy: Strategy) -> object:
    axes = ["PARALLEL_AXIS_TENSOR", "PARALLEL_AXIS_DATA"]
    message = {
        "tensor_parallel_degree": strategy.tensor_parallel_degree,
        "data_parallel_degree": strategy.data_parallel_degree,
        "sharding_level": int(strategy.sharding),
        "rank_order": axes if strategy.tensor_innermost else axes[::-1],
        "recompute_level": int(strategy.recompute),
        "sequence_parallel": strategy.sequence_parallel,
        "context_parallel_degree": strategy.context_parallel_degree,
        "expert_parallel_degree": strategy.expert_parallel_degree}
    if strategy.context_kind == ContextKind.ULYSSES:
        message["context_kind"] = int(strategy.context_kind)
    if strategy.expert_tensor_parallel_degree:
        message["expert_tensor_parallel_degree"] = strategy.expert_tensor_parallel_degree
    if strategy.sharding_degree:
        message["sharding_degree"] = strategy.sharding_degree
    if strategy.recompute_modules:
        message["recompute_modules"] = [int(module) for module in strategy.recompute_modules]
    return json_file.from_dict(message, "Strategy", "strategy")


def payload_of(model: object, topology: object, stages: list[list[Strategy]], *,
               batch: int, micro_batch_count: int,
               schedule: Schedule = Schedule.ONE_FORWARD_ONE_BACKWARD,
               virtual_stage_count: int = 1, issued: int = ISSUE_TIME,
               recompute_policy: object = None) -> object:
    """Returns the payload of a plan: a strategy for each layer of each stage."""
    payload = messages.PlanPayload(
        plan="clusters/tests/plans/p1", cluster="tests",
        topology_digest=digests.topology_digest(topology),
        model_digest=digests.model_digest(model), global_batch_size=batch,
        micro_batch_count=micro_batch_count, schedule=int(schedule),
        virtual_stage_count=virtual_stage_count)
    if recompute_policy is not None:
        payload.recompute_policy.CopyFrom(recompute_policy)
    payload.issue_time.seconds = issued
    payload.expire_time.seconds = issued + DAY
    payload.prediction.step_duration.nanos = 250_000_000
    # A prediction is read only with a cause and one entry for each device.
    payload.prediction.bottleneck = 1
    payload.prediction.confidence = 1
    depth = len(stages) // virtual_stage_count
    for _ in range(depth):
        payload.prediction.stages.add()
    rank_count = stages[0][0].rank_count
    payload.device_count = depth * rank_count
    names = [run.layer_definition_id for run in model.layer_runs for _ in range(run.layer_count)]
    layer = 0
    for index, strategies in enumerate(stages):
        stage = payload.stages.add(first_rank=index % depth * rank_count, rank_count=rank_count)
        for strategy in strategies:
            run = stage.layer_runs.add(first_layer_index=layer, layer_count=1,
                                       layer_definition_id=names[layer])
            run.strategy.CopyFrom(strategy_message(strategy))
            layer += 1
    return payload


def random_strategy(draw: random.Random, rank_count: int, *, is_middle: bool = True) -> Strategy:
    """Returns a strategy that splits the model of `model_of`."""
    while True:
        tensor = draw.choice([one for one in range(1, rank_count + 1)
                              if rank_count % one == 0 and 12 % one == 0])
        rest = rank_count // tensor
        context = draw.choice([one for one in range(1, rest + 1)
                               if rest % one == 0 and 12 % one == 0])
        kind = draw.choice(list(ContextKind)) if context > 1 else ContextKind.RING
        if kind == ContextKind.ULYSSES and 12 % (tensor * context):
            continue
        return Strategy(
            tensor, rest // context, draw.random() < 0.5 or tensor in (1, rank_count),
            draw.choice(list(Sharding)), draw.choice(WHOLE_LEVELS) if is_middle
            else Recompute.NONE,
            tensor > 1 and 24 // context % tensor == 0 and draw.random() < 0.5, context, 1, kind)


def random_plan(seed: int, issued: int) -> tuple[object, object, object]:
    """Returns model, topology and payload of a plan of 1 to 8 ranks with a strategy of its own for
    each layer; now and then interleaved, with GPipe's schedule, or tied."""
    draw = random.Random(seed)
    degree, chunks = draw.choice([(1, 1), (2, 1), (2, 2), (4, 1), (3, 1), (4, 2), (2, 3)])
    rank_count = draw.choice([1, 2, 4, 6])
    layer_count = draw.randint(max(3, degree * chunks), 12)
    cuts = sorted(draw.sample(range(1, layer_count), degree * chunks - 1))
    sizes = [end - begin for begin, end in zip([0, *cuts], [*cuts, layer_count])]
    is_tied = draw.random() < 0.3
    model = model_of(layer_count, is_tied=is_tied)
    micro_batches = draw.choice([1, 2, 3, 4]) * (degree if chunks > 1 else 1)
    strategies = [random_strategy(draw, rank_count, is_middle=0 < index < layer_count - 1)
                  for index in range(layer_count)]
    if is_tied:
        plain = dataclasses.replace(strategies[0], sharding=Sharding.NONE)
        strategies[0] = strategies[-1] = plain
    stages, taken = [], 0
    for size in sizes:
        stages.append(strategies[taken:taken + size])
        taken += size
    schedule = (Schedule.INTERLEAVED if chunks > 1 else
                draw.choice([Schedule.ONE_FORWARD_ONE_BACKWARD, Schedule.GPIPE]))
    topology = topology_of(degree * rank_count)
    payload = payload_of(model, topology, stages, batch=24 * micro_batches,
                         micro_batch_count=micro_batches, schedule=schedule,
                         virtual_stage_count=chunks, issued=issued)
    return model, topology, payload
