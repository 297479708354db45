#include "planner/model/model_spec.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/model/model_limits.h"
#include "planner/model/planning_problem.h"
#include "planner/model/spec_error.h"

namespace parplan {
namespace {

// Checks that layers which predict further tokens follow the others in the order of their depth,
// and that every head predicts as many tokens.
absl::Status CheckPredictions(const ModelSpec& model) {
  int deepest = 0;
  for (const ModelLayerRun& run : model.layer_runs()) {
    const LayerDefinition& layer = model.layer_definitions()[run.definition_index];
    const std::string field = absl::StrCat("model.layer_definitions[", run.definition_index, "]");
    if (layer.kind == LayerKind::kHead) {
      if (layer.further_token_count == deepest) continue;
      return SpecError(field + ".further_token_count",
                       absl::StrCat("must be ", deepest,
                                    ", the number of layers with a prediction_depth before it"));
    }
    if (deepest == 0 && layer.prediction_depth == 0) continue;
    if (layer.prediction_depth != deepest + 1 || run.layer_count != 1) {
      return SpecError(field + ".prediction_depth",
                       absl::StrCat("must be ", deepest + 1,
                                    ", for one layer: these layers follow all others but the head, "
                                    "one for each depth"));
    }
    ++deepest;
  }
  return absl::OkStatus();
}

bool IsTable(LayerKind kind) {
  return kind == LayerKind::kEmbedding || kind == LayerKind::kPatchEmbedding;
}

// Checks that nothing reads the output of a head and something that of the last table: a list that
// is the wrong way round would be planned as it stands. A table after a head begins another tower,
// as that of texts after that of images in CLIP (arXiv 2103.00020), which has a head of its own.
absl::Status CheckOrder(const ModelSpec& model) {
  bool has_head = false;
  // Whether the tower has had a layer that a head can read.
  bool reads = false;
  bool has_other = false;
  for (size_t i = 0; i < model.layer_runs().size(); ++i) {
    const LayerKind kind = model.layer_definitions()[model.layer_runs()[i].definition_index].kind;
    const std::string field = absl::StrCat("model.layer_runs[", i, "].layer_definition_id");
    if (has_head && kind != LayerKind::kHead) {
      if (!IsTable(kind) || !reads) {
        return SpecError(field,
                         "follows a head; runs are in the order of the forward pass, and only an "
                         "embedding, with which another tower begins, or a head may follow the "
                         "head of a tower");
      }
      has_head = false;
      reads = false;
    }
    has_head |= kind == LayerKind::kHead;
    reads |= kind != LayerKind::kHead;
    has_other |= !IsTable(kind);
    if (has_other && IsTable(kind) && i + 1 == model.layer_runs().size()) {
      return SpecError(field,
                       "is an embedding that no layer reads; runs are in the order of the forward "
                       "pass");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsModelId(const std::string& id) {
  if (id.empty() || id.size() > 63) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

absl::StatusOr<ModelSpec> ModelSpec::Create(std::string model_id,
                                            std::vector<LayerDefinition> layer_definitions,
                                            std::vector<ModelLayerRun> layer_runs,
                                            Precision precision, Optimizer optimizer) {
  if (!IsModelId(model_id)) return SpecError("model.model_id", kModelIdRule);
  if (layer_definitions.empty()) return SpecError("model.layer_definitions", "must have an entry");
  if (layer_runs.empty()) return SpecError("model.layer_runs", "must have an entry");
  std::set<std::string> ids;
  for (size_t i = 0; i < layer_definitions.size(); ++i) {
    if (!ids.insert(layer_definitions[i].layer_definition_id).second) {
      return SpecError(
          absl::StrCat("model.layer_definitions[", i, "].layer_definition_id"),
          absl::StrCat("`", layer_definitions[i].layer_definition_id, "` occurs twice"));
    }
  }
  ModelSpec model;
  for (size_t i = 0; i < layer_runs.size(); ++i) {
    const std::string field = absl::StrCat("model.layer_runs[", i, "]");
    const ModelLayerRun& run = layer_runs[i];
    if (run.definition_index < 0 ||
        run.definition_index >= static_cast<int>(layer_definitions.size())) {
      return SpecError(field + ".layer_definition_id", "refers to no layer definition");
    }
    if (run.layer_count < 1) return SpecError(field + ".layer_count", "must be at least 1");
    if (model.layer_count() + int64_t{run.layer_count} > kMaxLayerCount) {
      return SpecError(field + ".layer_count",
                       absl::StrCat("makes more than ", kMaxLayerCount, " layers"));
    }
    model.definition_of_layer_.insert(model.definition_of_layer_.end(), run.layer_count,
                                      run.definition_index);
    const int64_t parameter_count = layer_definitions[run.definition_index].parameter_count;
    if (parameter_count > (kMaxModelParameterCount - model.parameter_count_) / run.layer_count) {
      return SpecError(field + ".layer_count", "makes more than 2^50 parameters");
    }
    model.parameter_count_ += parameter_count * run.layer_count;
  }
  model.model_id_ = std::move(model_id);
  model.layer_definitions_ = std::move(layer_definitions);
  model.layer_runs_ = std::move(layer_runs);
  model.precision_ = precision;
  model.optimizer_ = optimizer;
  PARPLAN_RETURN_IF_ERROR(CheckOrder(model));
  PARPLAN_RETURN_IF_ERROR(CheckPredictions(model));
  return model;
}

}  // namespace parplan
