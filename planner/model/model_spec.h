// The model to train: layer definitions and the order they come in. proto/wire/model_wire.h makes
// it from messages, and `planctl calibrate` from published runs (clients/calibrate/run_model.h).

#ifndef PARPLAN_PLANNER_MODEL_MODEL_SPEC_H_
#define PARPLAN_PLANNER_MODEL_MODEL_SPEC_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "planner/model/layer_definition.h"
#include "planner/model/layer_flops.h"  // IWYU pragma: export
#include "planner/model/precision.h"

namespace parplan {

// The optimizer, which decides the states of each parameter: Adam has two moments, SGD none. The
// numbers are those of proto/parplan/v1/model.proto.
enum class Optimizer { kAdam = 1, kSgd = 2 };

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
  // Returns INVALID_ARGUMENT (SPEC_INVALID) naming the field, for example
  // `model.layer_runs[1].layer_count`, for a `model_id` of another form than `kModelIdRule`
  // (model_limits.h); no definition or no run; two definitions of one id; a run of no definition or
  // of fewer than one layer; more than `kMaxLayerCount` (planning_problem.h) layers or
  // `kMaxModelParameterCount` parameters in all; a layer after a head, unless it is an
  // embedding with which another tower begins, or an embedding that no layer follows; and layers
  // with a `prediction_depth` that do not follow all others but the head, one for each depth from 1
  // on, or a head whose `further_token_count` is not their number. `layer_definitions` must come
  // from `LayerDefinition::Create`, whose rules are not checked again; a definition may be in no
  // run, and runs of one definition may be adjacent.
  static absl::StatusOr<ModelSpec> Create(std::string model_id,
                                          std::vector<LayerDefinition> layer_definitions,
                                          std::vector<ModelLayerRun> layer_runs,
                                          Precision precision, Optimizer optimizer);

  // A name for people and metrics, which decides nothing.
  const std::string& model_id() const { return model_id_; }
  // The distinct layers in the order of `Create`, which need not be that of the model; layers of
  // one definition cost the same.
  const std::vector<LayerDefinition>& layer_definitions() const { return layer_definitions_; }
  // The layers first to last; embedding and head are layers too.
  const std::vector<ModelLayerRun>& layer_runs() const { return layer_runs_; }
  // The number formats of weights, activations and messages.
  Precision precision() const { return precision_; }
  Optimizer optimizer() const { return optimizer_; }

  // The number of layers of all runs.
  int layer_count() const { return static_cast<int>(definition_of_layer_.size()); }
  // Indices into `layer_definitions()`, one per layer, first to last.
  const std::vector<int>& definition_of_layer() const { return definition_of_layer_; }
  // Returns the definition of a layer, counted from 0. REQUIRES: 0 <= index < layer_count(), which
  // is not checked.
  const LayerDefinition& layer(int index) const {
    return layer_definitions_[definition_of_layer_[index]];
  }
  // Parameters of all layers; a tied head adds only its norm, unless its definition says otherwise.
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
