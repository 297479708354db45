"""Digests of models and topologies, by which a plan names what it was made for.

The SHA-256 of canonical texts, those of proto/wire/digest.cc. A field that this release does not
know is refused rather than left out of a digest.
"""

from __future__ import annotations

import hashlib
from typing import Any

from parplan.errors import field_error
from parplan.wire.layer_parameters import with_defaults

_REASON = "SPEC_INVALID"
_LAYER_FIELDS = {
    "layer_definition_id", "kind", "hidden_size", "attention_head_count", "key_value_head_count",
    "head_size", "feed_forward_size", "feed_forward_kind", "sequence_length", "vocabulary_size",
    "tied_embedding", "parameter_count", "expert_count", "experts_per_token",
    "expert_feed_forward_size", "shared_expert_feed_forward_size", "attention_window",
    "attention_chunk_size", "latent_attention", "state_space", "opaque", "prediction_depth",
    "further_token_count", "frozen", "attention_adapter_rank", "feed_forward_adapter_rank",
    "wide_products", "expert_latent_size"}
# In the order of their digests.
_LATENT_FIELDS = ("query_rank", "key_value_rank", "rotary_head_size", "value_head_size")
_STATE_SPACE_FIELDS = ("kind", "inner_size", "state_size", "head_count", "group_count",
                       "time_step_rank", "convolution_width", "chunk_size")
_OPAQUE_FIELDS = ("kept_bytes_per_sample", "boundary_bytes_per_sample", "tensor_degrees")
_OPAQUE_DEGREE_FIELDS = ("tensor_parallel_degree", "parameter_count", "kept_bytes_per_sample",
                         "forward_all_reduce_count", "backward_all_reduce_count",
                         "all_reduce_bytes_per_sample")
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
        _refuse_unknown_parts(definition, field)
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


def _layer_digest(given: Any, precision: int) -> str:
    layer = with_defaults(given)
    experts = []
    if layer.expert_count:
        experts.append(_line("experts", layer.expert_count, layer.experts_per_token,
                             layer.expert_feed_forward_size,
                             layer.shared_expert_feed_forward_size))
    structures = _structure_lines(layer)
    # Version 2 has experts, version 3 other structures.
    version = 3 if structures else 2 if experts else 1
    line = _line("layer", layer.kind, layer.hidden_size, layer.attention_head_count,
                 layer.key_value_head_count, layer.head_size, layer.feed_forward_size,
                 layer.feed_forward_kind, layer.vocabulary_size, int(layer.tied_embedding),
                 layer.parameter_count, precision)
    return _sha256("".join([f"parplan layer {version}\n", *experts, *structures, line]))


def _structure_lines(layer: Any) -> list[str]:
    """Returns a line for each structure that only some layers have."""
    lines = []
    if layer.attention_window or layer.attention_chunk_size:
        lines.append(_line("window", "layer", layer.attention_window, layer.attention_chunk_size))
    if layer.HasField("latent_attention"):
        lines.append(_line("latent_attention", "layer",
                           *_values(layer.latent_attention, _LATENT_FIELDS)))
    if layer.HasField("state_space"):
        lines.append(_line("state_space", "layer",
                           *_values(layer.state_space, _STATE_SPACE_FIELDS)))
    if layer.HasField("opaque"):
        opaque = layer.opaque
        lines.append(_line("opaque", "layer", opaque.kept_bytes_per_sample,
                           opaque.boundary_bytes_per_sample, len(opaque.tensor_degrees)))
        lines += [_line("opaque_degree", "layer", *_values(part, _OPAQUE_DEGREE_FIELDS))
                  for part in opaque.tensor_degrees]
    if layer.prediction_depth or layer.further_token_count:
        lines.append(_line("prediction", "layer", layer.prediction_depth,
                           layer.further_token_count))
    if layer.expert_latent_size:
        lines.append(_line("expert_latent", "layer", layer.expert_latent_size))
    if layer.wide_products:
        lines.append(_line("wide_products", "layer"))
    if layer.frozen:
        lines.append(_line("frozen", "layer", layer.attention_adapter_rank,
                           layer.feed_forward_adapter_rank))
    return lines


def _values(message: Any, fields: tuple[str, ...]) -> list[int]:
    return [getattr(message, field) for field in fields]


def _refuse_unknown_parts(layer: Any, field: str) -> None:
    """Refuses fields of a layer, and of its parts, that this release does not know."""
    _refuse_unknown(layer, field, _LAYER_FIELDS)
    _refuse_unknown(layer.latent_attention, f"{field}.latent_attention", set(_LATENT_FIELDS))
    _refuse_unknown(layer.state_space, f"{field}.state_space", set(_STATE_SPACE_FIELDS))
    _refuse_unknown(layer.opaque, f"{field}.opaque", set(_OPAQUE_FIELDS))
    for index, part in enumerate(layer.opaque.tensor_degrees):
        _refuse_unknown(part, f"{field}.opaque.tensor_degrees[{index}]",
                        set(_OPAQUE_DEGREE_FIELDS))


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
