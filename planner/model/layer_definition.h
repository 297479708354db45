// The shape of one layer: its kind, its sizes, and the structures that only some layers have.
// proto/wire/model_wire.h and clients/calibrate/run_model.h make definitions, and a `ModelSpec`
// holds those of its layers.

#ifndef PARPLAN_PLANNER_MODEL_LAYER_DEFINITION_H_
#define PARPLAN_PLANNER_MODEL_LAYER_DEFINITION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace parplan {

// Values as in proto/parplan/v1/model.proto.
enum class LayerKind {
  kEmbedding = 1,
  kDecoder = 2,
  kEncoder = 3,
  kCrossDecoder = 4,
  kHead = 5,
  kPatchEmbedding = 6,
  kStateSpace = 7,
  kFeedForward = 8,
  kOpaque = 9,
};
inline constexpr int kLayerKindCount = 9;

// `kNone` is no answer, which `LayerDefinition::Create` requires of tables, heads and opaque layers
// and refuses for all others. `kAbsent` is a layer that has no feed-forward part.
enum class FeedForwardKind { kNone = 0, kGelu = 1, kSwiglu = 2, kAbsent = 3 };
enum class StateSpaceKind { kSelective = 1, kDual = 2, kGatedDelta = 3 };

// Returns true for the kinds between embedding and head. They may recompute and be split over
// tensor-parallel ranks; layers of all these kinds count where a rule speaks of transformer layers.
bool IsTransformer(LayerKind kind);

// Returns true for the transformer kinds with attention.
bool HasAttention(LayerKind kind);

// Multi-head latent attention: queries, keys and values are products of narrow vectors
// (DeepSeek-V2, arXiv 2405.04434, section 2.1). `LayerDefinition::head_size` is the width of a
// query and of a key.
struct LatentAttention {
  // Width of the compressed queries; 0 if they are not compressed.
  int query_rank = 0;
  // Width of the compressed keys and values.
  int key_value_rank = 0;
  // Part of a head's width that carries the position. All heads have this part of the key in
  // common.
  int rotary_head_size = 0;
  int value_head_size = 0;

  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

// A linear recurrence in place of attention. Fields are those of the proto.
struct StateSpace {
  StateSpaceKind kind = StateSpaceKind::kDual;
  int inner_size = 0;
  int state_size = 0;
  // Heads, and groups of heads with the same projections of the state; both 0 for `kSelective`.
  int head_count = 0;
  int group_count = 0;
  // Rank of the map to time steps; 0 but for `kSelective`.
  int time_step_rank = 0;
  // Tokens that the convolution before the recurrence reads, at least 1.
  int convolution_width = 0;
  // Tokens that matrix products handle at once; 0 for `kSelective`.
  int chunk_size = 0;

  friend bool operator==(const StateSpace&, const StateSpace&) = default;
};

// One rank's part of an opaque layer.
struct OpaqueTensorDegree {
  int tensor_parallel_degree = 0;
  int64_t parameter_count = 0;
  int64_t kept_bytes_per_sample = 0;
  int forward_all_reduce_count = 0;
  int backward_all_reduce_count = 0;
  // Bytes of each of these all-reduces.
  int64_t all_reduce_bytes_per_sample = 0;

  friend bool operator==(const OpaqueTensorDegree&, const OpaqueTensorDegree&) = default;
};

// The sizes of a layer whose computation is not known.
struct OpaqueLayer {
  int64_t kept_bytes_per_sample = 0;
  // Bytes of its output; 0: those of the residual stream.
  int64_t boundary_bytes_per_sample = 0;
  // Ascending, all above 1.
  std::vector<OpaqueTensorDegree> tensor_degrees;

  friend bool operator==(const OpaqueLayer&, const OpaqueLayer&) = default;
};

// The shape of a layer. Fields are those of the proto; `LayerDefinition::Create` fills in defaults.
struct LayerDefinition {
  std::string layer_definition_id;
  LayerKind kind = LayerKind::kDecoder;
  int hidden_size = 0;
  int attention_head_count = 0;
  int key_value_head_count = 0;
  int head_size = 0;
  int feed_forward_size = 0;
  FeedForwardKind feed_forward_kind = FeedForwardKind::kNone;
  int sequence_length = 0;
  int vocabulary_size = 0;
  bool tied_embedding = false;
  int64_t parameter_count = 0;
  // Number of experts that replace the feed-forward part; 0 for none. Each token passes
  // `experts_per_token` of them, each `expert_feed_forward_size` wide, and a shared one if its size
  // is not 0.
  int expert_count = 0;
  int experts_per_token = 0;
  int expert_feed_forward_size = 0;
  int shared_expert_feed_forward_size = 0;
  // Tokens that self-attention of one token reads, itself included: a window that slides, or a
  // chunk of the sequence. At most one is not 0; 0 is no limit.
  int attention_window = 0;
  int attention_chunk_size = 0;
  std::optional<LatentAttention> latent_attention;
  // Present if and only if the kind is `kStateSpace`.
  std::optional<StateSpace> state_space;
  // Present if and only if the kind is `kOpaque`.
  std::optional<OpaqueLayer> opaque;
  // A decoder that predicts the n-th further token; 0 for the others.
  int prediction_depth = 0;
  // Tokens after the next one for which a head also computes logits and loss.
  int further_token_count = 0;
  // The weights are not trained. Each linear map of attention, and of a dense feed-forward part,
  // has a pair of narrow trained maps beside it if the rank is not 0 (LoRA: Hu et al., arXiv
  // 2106.09685, section 4.1).
  bool frozen = false;
  int attention_adapter_rank = 0;
  int feed_forward_adapter_rank = 0;
  // Linear maps are not quantised, whatever the precision of the model, as recipes have it for the
  // first and the last layers.
  bool wide_products = false;

  // Checks the rules of the proto for one layer. If they are 0, fills in `key_value_head_count` and
  // `head_size` of kinds with attention, and `parameter_count` of all but opaque layers. Returns
  // INVALID_ARGUMENT (SPEC_INVALID) if a rule is broken; `field` names the definition in the error,
  // for example `model.layer_definitions[2]`.
  static absl::StatusOr<LayerDefinition> Create(LayerDefinition raw, const std::string& field);

  bool has_experts() const { return expert_count > 0; }
  // True if the layer has a feed-forward part, dense or of experts.
  bool has_feed_forward() const { return has_experts() || feed_forward_size > 0; }

  friend bool operator==(const LayerDefinition&, const LayerDefinition&) = default;
};

// Returns whether both describe the same layer: all fields are equal but the local id and the
// sequence length. Measurements of one are then measurements of the other.
bool SameLayer(const LayerDefinition& a, const LayerDefinition& b);

// Returns whether `degree` tensor-parallel ranks can share a transformer layer: `degree` divides
// its heads and key-value heads; the heads and groups, or else the inner size, of a state space;
// the width of a feed-forward part that stands alone; or is listed, for an opaque layer. True
// for 1, and false otherwise for tables and heads, which ranks share by other rules. REQUIRES:
// `LayerDefinition::Create` made the layer, and `degree` is at least 1; neither is checked.
bool SplitsOverTensorRanks(const LayerDefinition& layer, int64_t degree);

// Returns whether the layer is a table, a head of one token, or has attention and a feed-forward
// part of the usual form: no compressed vectors, recurrence, missing part, further token or frozen
// weights. Windows, chunks and experts are usual here. Programs that know no other layers refuse
// the rest.
bool HasUsualParts(const LayerDefinition& layer);

// Returns whether ranks may share the tokens of a sample. State-space layers would have to hand on
// their state, and of opaque layers it is not known.
bool SharesTokens(const LayerDefinition& layer);

// Returns the part of an opaque layer that one of `degree` ranks has. With degree 1 it is the
// layer. REQUIRES: an opaque layer, which is not checked, and
// `SplitsOverTensorRanks(layer, degree)`; aborts otherwise.
OpaqueTensorDegree OpaquePart(const LayerDefinition& layer, int degree);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_LAYER_DEFINITION_H_
