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

// The computation of a layer. The numbers are those of proto/parplan/v1/model.proto.
enum class LayerKind {
  kEmbedding = 1,       // table lookup of tokens and positions
  kDecoder = 2,         // causal self-attention and feed-forward
  kEncoder = 3,         // self-attention in both directions and feed-forward
  kCrossDecoder = 4,    // a decoder that also attends to an encoder's output
  kHead = 5,            // final norm, logits and loss
  kPatchEmbedding = 6,  // linear map of image patches to tokens
  kStateSpace = 7,      // a recurrence over the tokens, and feed-forward unless it has none
  kFeedForward = 8,     // feed-forward alone
  kOpaque = 9,          // anything else: only its sizes are known
};
inline constexpr int kLayerKindCount = 9;

// The form of the feed-forward part: two matrices with GELU or ReLU between them (`kGelu`), or
// three (`kSwiglu`). `kNone` is no answer, which `LayerDefinition::Create` requires of tables,
// heads and opaque layers and refuses for all others. `kAbsent` is a layer that has no feed-forward
// part.
enum class FeedForwardKind { kNone = 0, kGelu = 1, kSwiglu = 2, kAbsent = 3 };
// The form of a recurrence: Mamba, each channel with decays of its own (`kSelective`, arXiv
// 2312.00752); Mamba-2, one decay for each head (`kDual`, arXiv 2405.21060); the gated delta rule
// of Qwen3-Next (`kGatedDelta`, arXiv 2412.06464).
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
  // Width of the compressed keys and values, at least 1.
  int key_value_rank = 0;
  // Part of a head's width that carries the position, from 0 to below `head_size`. All heads have
  // this part of the key in common.
  int rotary_head_size = 0;
  // Width of the values of one head, at least 1.
  int value_head_size = 0;

  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

// A linear recurrence over the tokens in place of attention.
struct StateSpace {
  StateSpaceKind kind = StateSpaceKind::kDual;
  // Width of the recurrence's input, at least 1.
  int inner_size = 0;
  // Width of the state of one channel; for `kGatedDelta`, of a key. At least 1.
  int state_size = 0;
  // Heads, which divide `inner_size`, and groups of heads with the same projections of the state,
  // which divide the heads; both 0 for `kSelective`, and at least 1 otherwise.
  int head_count = 0;
  int group_count = 0;
  // Rank of the map to time steps, at least 1 for `kSelective`; 0 for the others.
  int time_step_rank = 0;
  // Tokens that the convolution before the recurrence reads, at least 1.
  int convolution_width = 0;
  // Tokens that matrix products handle at once; 0 for `kSelective`, and at least 1 otherwise.
  int chunk_size = 0;

  friend bool operator==(const StateSpace&, const StateSpace&) = default;
};

// One rank's part of an opaque layer.
struct OpaqueTensorDegree {
  // Number of ranks that share the layer, at least 2 in a definition.
  int tensor_parallel_degree = 0;
  // Parameters of one rank.
  int64_t parameter_count = 0;
  // Bytes that one rank keeps of one sample from its forward to its backward pass.
  int64_t kept_bytes_per_sample = 0;
  // All-reduces over the ranks in one forward and in one backward pass.
  int forward_all_reduce_count = 0;
  int backward_all_reduce_count = 0;
  // Bytes of each of these all-reduces.
  int64_t all_reduce_bytes_per_sample = 0;

  friend bool operator==(const OpaqueTensorDegree&, const OpaqueTensorDegree&) = default;
};

// The sizes of a layer whose computation is not known.
struct OpaqueLayer {
  // Bytes that a rank without tensor parallelism keeps of one sample from its forward to its
  // backward pass, the layer's input among them.
  int64_t kept_bytes_per_sample = 0;
  // Bytes of its output; 0: those of the residual stream.
  int64_t boundary_bytes_per_sample = 0;
  // The parts for the degrees above 1 that the layer allows, ascending.
  std::vector<OpaqueTensorDegree> tensor_degrees;

  friend bool operator==(const OpaqueLayer&, const OpaqueLayer&) = default;
};

// The shape of a layer. Layers of one definition cost the same. Sizes are counts of elements, heads
// or tokens, at most `kMaxModelSize` (model_limits.h); 0 stands for "not given" or "has none".
struct LayerDefinition {
  // Name in its model, of the form that `kModelIdRule` (model_limits.h) states.
  std::string layer_definition_id;
  LayerKind kind = LayerKind::kDecoder;
  // Width of the residual stream, at least 1.
  int hidden_size = 0;
  // Heads of attention; 0 for kinds without.
  int attention_head_count = 0;
  // Heads of keys and values, which divide the heads (grouped-query attention); by default as many.
  int key_value_head_count = 0;
  // Width of one head; by default hidden_size / attention_head_count.
  int head_size = 0;
  // Width of a dense feed-forward part; ignored if there are experts.
  int feed_forward_size = 0;
  FeedForwardKind feed_forward_kind = FeedForwardKind::kNone;
  // Tokens of a sample that pass through the layer, at least 1.
  int sequence_length = 0;
  // Rows of an embedding's table, classes of a head, or values per patch of a patch embedding. Also
  // given for decoders with a `prediction_depth`, which use the table.
  int vocabulary_size = 0;
  // Whether a head shares the table of the embedding.
  bool tied_embedding = false;
  // Parameters of the layer, at most `kMaxModelParameterCount`; by default those of the sizes,
  // without adapters. An opaque layer has no default: 0 is no parameters.
  int64_t parameter_count = 0;
  // Number of experts that replace the feed-forward part; 0 for none, and then the next members up
  // to `expert_latent_size` are 0 as well. Each token passes `experts_per_token` of them, from 1 to
  // all, each `expert_feed_forward_size` wide, at least 1, and a shared one if its size is not 0.
  int expert_count = 0;
  int experts_per_token = 0;
  int expert_feed_forward_size = 0;
  int shared_expert_feed_forward_size = 0;
  // Width of the vectors that experts read and return, behind a map to it and before one back
  // (LatentMoE, arXiv 2601.18089); 0 if these are as wide as the residual stream. Router and shared
  // expert read that in any case.
  int expert_latent_size = 0;
  // Tokens that self-attention of one token reads, itself included: a window that slides, or a
  // chunk of the sequence. At most one is not 0; 0 is no limit.
  int attention_window = 0;
  int attention_chunk_size = 0;
  // Absent for ordinary attention; decoders alone may have it, with as many key-value heads as
  // heads.
  std::optional<LatentAttention> latent_attention;
  // Present if and only if the kind is `kStateSpace`.
  std::optional<StateSpace> state_space;
  // Present if and only if the kind is `kOpaque`.
  std::optional<OpaqueLayer> opaque;
  // n for a decoder that predicts the n-th token after the next one; 0 for all other layers.
  int prediction_depth = 0;
  // Tokens after the next one for which a head also computes logits and loss. Both numbers are at
  // most `kMaxFurtherTokenCount`.
  int further_token_count = 0;
  // The weights are not trained; opaque layers always are. Each linear map of attention, and of a
  // dense feed-forward part, has a pair of narrow trained maps beside it if the rank is not 0, for
  // which the layer must be frozen (LoRA: Hu et al., arXiv 2106.09685, section 4.1). Latent
  // attention and experts have none.
  bool frozen = false;
  int attention_adapter_rank = 0;
  int feed_forward_adapter_rank = 0;
  // Linear maps are not quantised, whatever the precision of the model, as recipes have it for the
  // first and the last layers. Only for transformer layers.
  bool wide_products = false;

  // Returns `raw` with defaults in place of zeros: `key_value_head_count` and `head_size` of kinds
  // with attention, and `parameter_count` of all but opaque layers. Returns INVALID_ARGUMENT
  // (SPEC_INVALID) if a rule of the messages in proto/parplan/v1/model.proto is broken: a size that
  // its kind needs is missing, one that it lacks is given, one is out of range or does not divide
  // another. `field` is the path of the definition, for example `model.layer_definitions[2]`; the
  // error names the first member at fault below it.
  static absl::StatusOr<LayerDefinition> Create(LayerDefinition raw, const std::string& field);

  // True if the layer has experts.
  bool has_experts() const { return expert_count > 0; }
  // Width of the vectors that experts read and return.
  int expert_width() const { return expert_latent_size > 0 ? expert_latent_size : hidden_size; }
  // True if the layer has a feed-forward part, dense or of experts.
  bool has_feed_forward() const { return has_experts() || feed_forward_size > 0; }

  friend bool operator==(const LayerDefinition&, const LayerDefinition&) = default;
};

// Returns whether both describe the same layer: all fields are equal but the local id and the
// sequence length. Measurements of one are then measurements of the other.
bool SameLayer(const LayerDefinition& a, const LayerDefinition& b);

// Returns whether `degree` tensor-parallel ranks can share a transformer layer: `degree` divides
// its heads and key-value heads; the heads and groups, or else the inner size, of a state space;
// the width of a feed-forward part that stands alone, or of one of its experts; or is listed, for
// an opaque layer. True for 1, and false otherwise for tables and heads, which ranks share by other
// rules. REQUIRES: `LayerDefinition::Create` made the layer, and `degree` is at least 1; neither is
// checked.
bool SplitsOverTensorRanks(const LayerDefinition& layer, int64_t degree);

// Returns whether the layer is a table, a head of one token, or has attention and a feed-forward
// part of the usual form: no compressed vectors, also of experts, no recurrence, missing part,
// further token or frozen weights. Windows, chunks and experts are usual here. Programs that know
// no other layers refuse the rest.
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
