"""Parameters of a layer, computed from its sizes as planner/model/layer_definition.cc does."""

from __future__ import annotations

from typing import Any

from parplan.errors import field_error
from parplan.wire import messages

_REASON = "SPEC_INVALID"
# Attention blocks of the kinds between embedding and head, but for opaque layers.
_ATTENTION_BLOCKS = {"LAYER_KIND_DECODER": 1, "LAYER_KIND_ENCODER": 1, "LAYER_KIND_CROSS_DECODER": 2,
                     "LAYER_KIND_STATE_SPACE": 0, "LAYER_KIND_FEED_FORWARD": 0}


def with_defaults(layer: Any) -> Any:
    """Returns a copy of a `LayerDefinition` whose fields that may be 0 have their values."""
    filled = type(layer)()
    filled.CopyFrom(layer)
    kind = messages.enum_name("LayerKind", layer.kind)
    if _ATTENTION_BLOCKS.get(kind):
        if layer.attention_head_count < 1:
            raise field_error(_REASON, "attention_head_count", "must be at least 1")
        filled.head_size = layer.head_size or layer.hidden_size // layer.attention_head_count
        filled.key_value_head_count = layer.key_value_head_count or layer.attention_head_count
    filled.parameter_count = layer.parameter_count or _parameter_count(filled, kind)
    return filled


def _parameter_count(layer: Any, kind: str) -> int:
    hidden: int = layer.hidden_size
    table: int = hidden * layer.vocabulary_size
    if kind == "LAYER_KIND_EMBEDDING":
        return table
    if kind == "LAYER_KIND_PATCH_EMBEDDING":
        return table + hidden
    if kind == "LAYER_KIND_HEAD":
        return hidden if layer.tied_embedding else table + hidden
    if kind == "LAYER_KIND_OPAQUE":
        return 0
    if kind not in _ATTENTION_BLOCKS:
        raise field_error(_REASON, "kind", f"{kind} is not known to this release; upgrade parplan")
    has_feed_forward = layer.expert_count > 0 or layer.feed_forward_size > 0
    mixers = 1 if kind == "LAYER_KIND_STATE_SPACE" else _ATTENTION_BLOCKS[kind]
    # The matrix that takes the embedding of a further token, and the norms around it.
    prediction = 2 * hidden * hidden + 3 * hidden if layer.prediction_depth > 0 else 0
    return (_mixer(layer, kind) + _feed_forward(layer)
            + (mixers + int(has_feed_forward)) * hidden + prediction)


def _mixer(layer: Any, kind: str) -> int:
    """Returns the parameters of attention or of what replaces it."""
    if layer.HasField("state_space"):
        return _state_space(layer.hidden_size, layer.state_space)
    if layer.HasField("latent_attention"):
        return _latent_attention(layer)
    return int(_ATTENTION_BLOCKS[kind] * layer.hidden_size * 2 * layer.head_size
               * (layer.attention_head_count + layer.key_value_head_count))


def _latent_attention(layer: Any) -> int:
    latent, hidden, heads = layer.latent_attention, layer.hidden_size, layer.attention_head_count
    key_head = layer.head_size - latent.rotary_head_size
    to_narrow = hidden * (latent.query_rank + latent.key_value_rank + latent.rotary_head_size)
    to_heads = heads * ((latent.query_rank or hidden) * layer.head_size
                        + latent.key_value_rank * (key_head + latent.value_head_size))
    norms = latent.query_rank + latent.key_value_rank
    return int(to_narrow + to_heads + heads * latent.value_head_size * hidden + norms)


def _state_space(hidden: int, space: Any) -> int:
    inner, heads, width = space.inner_size, space.head_count, space.convolution_width
    kind = messages.enum_name("StateSpaceKind", space.kind)
    if kind == "STATE_SPACE_KIND_SELECTIVE":
        rank, state = space.time_step_rank, space.state_size
        matrices = hidden * 2 * inner + inner * (rank + 2 * state) + rank * inner + inner * hidden
        # Convolution and its bias, bias of the time step, decay of each state, skip.
        return int(matrices + inner * (width + 1) + inner + inner * state + inner)
    if kind not in ("STATE_SPACE_KIND_DUAL", "STATE_SPACE_KIND_GATED_DELTA"):
        raise field_error(_REASON, "state_space.kind",
                          f"{kind} is not known to this release; upgrade parplan")
    states = space.group_count * space.state_size
    is_delta = kind == "STATE_SPACE_KIND_GATED_DELTA"
    # Input and gate, both projections of the state, and one or two numbers a head.
    matrices = (hidden * (2 * inner + 2 * states + (2 if is_delta else 1) * heads)
                + inner * hidden)
    vectors = ((inner + 2 * states) * (width + (0 if is_delta else 1))
               + (2 if is_delta else 3) * heads)
    # The norm in front of the last product is that of a head, or of all.
    return int(matrices + vectors + (inner // heads if is_delta else inner))


def _feed_forward(layer: Any) -> int:
    hidden = layer.hidden_size
    is_gated = messages.enum_name("FeedForwardKind",
                                  layer.feed_forward_kind) == "FEED_FORWARD_KIND_SWIGLU"
    matrices = 3 if is_gated else 2
    if not layer.expert_count:
        return int(matrices * hidden * layer.feed_forward_size)
    experts = (matrices * (layer.expert_latent_size or hidden) * layer.expert_count
               * layer.expert_feed_forward_size)
    shared = matrices * hidden * layer.shared_expert_feed_forward_size
    maps = 2 * hidden * layer.expert_latent_size
    return int(experts + shared + maps + hidden * layer.expert_count)
