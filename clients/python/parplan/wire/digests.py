"""Digests of models and topologies, by which a plan names what it was made for.

The SHA-256 of canonical texts, those of proto/wire/digest.cc. A field that this release does not
know is refused rather than left out of a digest.
"""

from __future__ import annotations

import hashlib
from typing import Any

from parplan.errors import field_error
from parplan.wire import messages

_REASON = "SPEC_INVALID"
_TRANSFORMERS = {"LAYER_KIND_DECODER": 1, "LAYER_KIND_ENCODER": 1, "LAYER_KIND_CROSS_DECODER": 2}
_LAYER_FIELDS = {
    "layer_definition_id", "kind", "hidden_size", "attention_head_count", "key_value_head_count",
    "head_size", "feed_forward_size", "feed_forward_kind", "sequence_length", "vocabulary_size",
    "tied_embedding", "parameter_count", "expert_count", "experts_per_token",
    "expert_feed_forward_size", "shared_expert_feed_forward_size"}
_MODEL_FIELDS = {"model_id", "layer_definitions", "layer_runs", "precision", "optimizer"}
_TOPOLOGY_FIELDS = {"cluster", "node_groups", "link_tiers", "fabric_id"}
_GROUP_FIELDS = {"node_group_id", "device_kind", "node_count", "node_names", "devices_per_node",
                 "device_memory_bytes", "reserved_memory_bytes"}


def model_digest(model: Any) -> str:
    """Returns the digest of a `ModelSpec`. Names and the division into runs do not matter."""
    _refuse_unknown(model, "model", _MODEL_FIELDS)
    words_of: dict[str, str] = {}
    for index, definition in enumerate(model.layer_definitions):
        field = f"model.layer_definitions[{index}]"
        _refuse_unknown(definition, field, _LAYER_FIELDS)
        words_of[definition.layer_definition_id] = (
            f"{_layer_digest(definition, model.precision)} {definition.sequence_length}")
    lines = ["parplan model 1\n", _line("precision", model.precision),
             _line("optimizer", model.optimizer)]
    # Consecutive equal layers are one line, whatever runs they were given in.
    counted: list[tuple[str, int]] = []
    for index, run in enumerate(model.layer_runs):
        words = words_of.get(run.layer_definition_id)
        if words is None:
            raise field_error(_REASON, f"model.layer_runs[{index}].layer_definition_id",
                              "no entry of layer_definitions has this id")
        if run.layer_count < 1:
            raise field_error(_REASON, f"model.layer_runs[{index}].layer_count",
                              "must be at least 1")
        if counted and counted[-1][0] == words:
            counted[-1] = (words, counted[-1][1] + run.layer_count)
        else:
            counted.append((words, run.layer_count))
    lines += [_line("layers", count, words) for words, count in counted]
    return _sha256("".join(lines))


def topology_digest(topology: Any) -> str:
    """Returns the digest of a `ClusterTopology`."""
    _refuse_unknown(topology, "topology", _TOPOLOGY_FIELDS)
    lines = ["parplan topology 1\n"]
    if topology.fabric_id:
        lines = ["parplan topology 2\n", _line("fabric", _quoted(topology.fabric_id))]
    lines.append(_line("cluster", _quoted(topology.cluster)))
    for index, group in enumerate(topology.node_groups):
        _refuse_unknown(group, f"topology.node_groups[{index}]", _GROUP_FIELDS)
        lines.append(_line("node_group", _quoted(group.node_group_id), _quoted(group.device_kind),
                           group.node_count, group.devices_per_node, group.device_memory_bytes,
                           group.reserved_memory_bytes))
        lines += [_line("node", _quoted(name)) for name in group.node_names]
    lines += [_line("link_tier", _quoted(tier.tier_id), tier.reach_device_count)
              for tier in topology.link_tiers]
    return _sha256("".join(lines))


def _layer_digest(layer: Any, precision: int) -> str:
    kind = messages.enum_name("LayerKind", layer.kind)
    heads, key_value_heads, head_size = (layer.attention_head_count, layer.key_value_head_count,
                                         layer.head_size)
    if kind in _TRANSFORMERS:
        if heads < 1:
            raise field_error(_REASON, "attention_head_count", "must be at least 1")
        head_size = head_size or layer.hidden_size // heads
        key_value_heads = key_value_heads or heads
    parameters = layer.parameter_count or _parameter_count(layer, kind, heads, key_value_heads,
                                                           head_size)
    lines = ["parplan layer 1\n"]
    if layer.expert_count:
        lines = ["parplan layer 2\n",
                 _line("experts", layer.expert_count, layer.experts_per_token,
                       layer.expert_feed_forward_size, layer.shared_expert_feed_forward_size)]
    lines.append(_line("layer", layer.kind, layer.hidden_size, heads, key_value_heads, head_size,
                       layer.feed_forward_size, layer.feed_forward_kind, layer.vocabulary_size,
                       int(layer.tied_embedding), parameters, precision))
    return _sha256("".join(lines))


def _parameter_count(layer: Any, kind: str, heads: int, key_value_heads: int,
                     head_size: int) -> int:
    hidden: int = layer.hidden_size
    table: int = hidden * layer.vocabulary_size
    if kind == "LAYER_KIND_EMBEDDING":
        return table
    if kind == "LAYER_KIND_PATCH_EMBEDDING":
        return table + hidden
    if kind == "LAYER_KIND_HEAD":
        return hidden if layer.tied_embedding else table + hidden
    if kind not in _TRANSFORMERS:
        raise field_error(_REASON, "kind", f"{kind} is not known to this release; upgrade parplan")
    attention = hidden * (2 * heads * head_size + 2 * key_value_heads * head_size)
    swiglu = messages.enum_name("FeedForwardKind",
                                layer.feed_forward_kind) == "FEED_FORWARD_KIND_SWIGLU"
    per_width = (3 if swiglu else 2) * hidden
    feed_forward: int = per_width * layer.feed_forward_size
    if layer.expert_count:
        feed_forward = (per_width * (layer.expert_count * layer.expert_feed_forward_size
                                     + layer.shared_expert_feed_forward_size)
                        + hidden * layer.expert_count)
    blocks = _TRANSFORMERS[kind]
    return blocks * attention + feed_forward + (blocks + 1) * hidden


def _refuse_unknown(message: Any, field: str, known: set[str]) -> None:
    for descriptor, _ in message.ListFields():
        if descriptor.name not in known:
            raise field_error(_REASON, f"{field}.{descriptor.name}",
                              "is not known to this release of the package; upgrade parplan")


def _line(keyword: str, *words: object) -> str:
    return " ".join([keyword, *map(str, words)]) + "\n"


def _quoted(text: str) -> str:
    return '"' + "".join(
        f"\\x{byte:02x}" if byte < 0x20 or byte > 0x7e or byte in b'"\\' else chr(byte)
        for byte in text.encode()) + '"'


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
