// The model to train: layer definitions and the order they come in.

#ifndef PARPLAN_PLANNER_MODEL_MODEL_SPEC_H_
#define PARPLAN_PLANNER_MODEL_MODEL_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "planner/model/precision.h"

namespace parplan {

// Values as in proto/parplan/v1/model.proto.
enum class LayerKind {
  kEmbedding = 1,
  kDecoder = 2,
  kEncoder = 3,
  kCrossDecoder = 4,
  kHead = 5,
  kPatchEmbedding = 6,
};
enum class FeedForwardKind { kNone = 0, kGelu = 1, kSwiglu = 2 };
enum class Optimizer { kAdam = 1, kSgd = 2 };

// True for the kinds with attention and a feed-forward part.
bool IsTransformer(LayerKind kind);

// What a layer is. Fields as in the proto, with defaults filled in by
// `LayerDefinition::Create`.
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
  // Mixture of experts in the place of the feed-forward part: 0 for none. Then
  // each token passes `experts_per_token` of `expert_count` experts, each
  // `expert_feed_forward_size` wide, and a shared one when its size is not 0.
  int expert_count = 0;
  int experts_per_token = 0;
  int expert_feed_forward_size = 0;
  int shared_expert_feed_forward_size = 0;

  // Checks the rules of the proto and fills in `key_value_head_count`,
  // `head_size` and `parameter_count` where they are 0. `field` names the
  // definition in errors, for example `model.layer_definitions[2]`.
  static absl::StatusOr<LayerDefinition> Create(LayerDefinition raw, const std::string& field);

  friend bool operator==(const LayerDefinition&, const LayerDefinition&) = default;
};

// True when both describe the same layer: all fields equal but the local id
// and the sequence length. Measurements of one are measurements of the other.
bool SameLayer(const LayerDefinition& a, const LayerDefinition& b);

// Floating-point operations of the matrices and the attention of one layer's
// forward pass over one sample of `sequence_length` tokens (a multiply-add is
// two). Used for ratios between sequence lengths and to split times that were
// measured together, not for absolute times. 0 for a table lookup.
double ForwardFlopsPerSample(const LayerDefinition& definition, int sequence_length);

// Equal layers one after the other.
struct ModelLayerRun {
  // Index into `ModelSpec::layer_definitions()`.
  int definition_index = 0;
  int layer_count = 0;
  friend bool operator==(const ModelLayerRun&, const ModelLayerRun&) = default;
};

// A valid model. Immutable.
class ModelSpec {
 public:
  // INVALID_ARGUMENT (SPEC_INVALID) naming the field when a rule of model.proto
  // is broken. `layer_definitions` have been through `LayerDefinition::Create`.
  static absl::StatusOr<ModelSpec> Create(std::string model_id,
                                          std::vector<LayerDefinition> layer_definitions,
                                          std::vector<ModelLayerRun> layer_runs,
                                          Precision precision, Optimizer optimizer);

  const std::string& model_id() const { return model_id_; }
  const std::vector<LayerDefinition>& layer_definitions() const { return layer_definitions_; }
  const std::vector<ModelLayerRun>& layer_runs() const { return layer_runs_; }
  Precision precision() const { return precision_; }
  Optimizer optimizer() const { return optimizer_; }

  int layer_count() const { return static_cast<int>(definition_of_layer_.size()); }
  // Index into `layer_definitions()` of each layer, first to last.
  const std::vector<int>& definition_of_layer() const { return definition_of_layer_; }
  const LayerDefinition& layer(int index) const {
    return layer_definitions_[definition_of_layer_[index]];
  }
  // Over all layers; a tied head adds its norm.
  int64_t parameter_count() const { return parameter_count_; }

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;

 private:
  ModelSpec() = default;
  std::string model_id_;
  std::vector<LayerDefinition> layer_definitions_;
  std::vector<ModelLayerRun> layer_runs_;
  Precision precision_ = Precision::kBf16;
  Optimizer optimizer_ = Optimizer::kAdam;
  std::vector<int> definition_of_layer_;
  int64_t parameter_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_MODEL_SPEC_H_
