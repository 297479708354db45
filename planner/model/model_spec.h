// The model to train: layer definitions and the order they come in.

#ifndef PARPLAN_PLANNER_MODEL_MODEL_SPEC_H_
#define PARPLAN_PLANNER_MODEL_MODEL_SPEC_H_

#include <algorithm>
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

// Returns true for the kinds with attention and a feed-forward part.
bool IsTransformer(LayerKind kind);

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

  // Checks the rules of the proto and fills in `key_value_head_count`, `head_size` and
  // `parameter_count` if they are 0. Returns INVALID_ARGUMENT (SPEC_INVALID) if a rule is broken;
  // `field` names the definition in the error, for example `model.layer_definitions[2]`.
  static absl::StatusOr<LayerDefinition> Create(LayerDefinition raw, const std::string& field);

  friend bool operator==(const LayerDefinition&, const LayerDefinition&) = default;
};

// Returns whether both describe the same layer: all fields are equal but the local id and the
// sequence length. Measurements of one are then measurements of the other.
bool SameLayer(const LayerDefinition& a, const LayerDefinition& b);

// Returns the floating-point operations of matrices and attention in one layer's forward pass over
// one sample of `sequence_length` tokens (a multiply-add is two). 0 for a table lookup. Only meant
// for ratios between sequence lengths and for splitting times that were measured together.
double ForwardFlopsPerSample(const LayerDefinition& definition, int sequence_length);

// A run of equal layers.
struct ModelLayerRun {
  // Index into `ModelSpec::layer_definitions()`.
  int definition_index = 0;
  int layer_count = 0;
  friend bool operator==(const ModelLayerRun&, const ModelLayerRun&) = default;
};

// A valid model. Immutable.
class ModelSpec {
 public:
  // Returns INVALID_ARGUMENT (SPEC_INVALID) naming the field if a rule of model.proto is broken.
  // `layer_definitions` must come from `LayerDefinition::Create`.
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
  // Indices into `layer_definitions()`, one per layer, first to last.
  const std::vector<int>& definition_of_layer() const { return definition_of_layer_; }
  const LayerDefinition& layer(int index) const {
    return layer_definitions_[definition_of_layer_[index]];
  }
  // Parameters of all layers; a tied head adds only its norm.
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

// Returns whether some layer definition has experts.
inline bool HasExperts(const ModelSpec& model) {
  return std::any_of(model.layer_definitions().begin(), model.layer_definitions().end(),
                     [](const LayerDefinition& each) { return each.expert_count > 0; });
}

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_MODEL_SPEC_H_
