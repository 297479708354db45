#include "proto/wire/model_wire.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/model/planning_problem.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/field_path.h"

namespace parplan {
namespace {

// A value added to the contract must be added to the planner too.
static_assert(v1::LayerKind_MAX == static_cast<int>(LayerKind::kPatchEmbedding));
static_assert(v1::FeedForwardKind_MAX == static_cast<int>(FeedForwardKind::kSwiglu));
static_assert(v1::Precision_MAX == kPrecisionCount);
static_assert(v1::Optimizer_MAX == static_cast<int>(Optimizer::kSgd));

// Checks the limits of a model before anything is allocated for it.
absl::Status CheckSizes(const v1::ModelSpec& message, absl::string_view field) {
  if (message.layer_definitions_size() > kMaxLayerCount) {
    return FieldError(Reason::kSpecInvalid, JoinPath(field, "layer_definitions"),
                      absl::StrCat("at most ", kMaxLayerCount, " definitions"));
  }
  int64_t layer_count = 0;
  for (const v1::ModelLayerRun& run : message.layer_runs()) {
    if (run.layer_count() > 0) layer_count += run.layer_count();
    if (layer_count > kMaxLayerCount) {
      return FieldError(Reason::kSpecInvalid, JoinPath(field, "layer_runs"),
                        absl::StrCat("at most ", kMaxLayerCount, " layers in all runs"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Precision> PrecisionFromProto(v1::Precision precision, absl::string_view field,
                                             Reason reason) {
  return EnumFromProto<Precision>(precision, field, reason);
}

absl::StatusOr<Optimizer> OptimizerFromProto(v1::Optimizer optimizer, absl::string_view field,
                                             Reason reason) {
  return EnumFromProto<Optimizer>(optimizer, field, reason);
}

v1::Precision PrecisionToProto(Precision precision) {
  return static_cast<v1::Precision>(precision);
}

v1::Optimizer OptimizerToProto(Optimizer optimizer) {
  return static_cast<v1::Optimizer>(optimizer);
}

absl::StatusOr<LayerDefinition> LayerDefinitionFromProto(const v1::LayerDefinition& message,
                                                         absl::string_view field, Reason reason) {
  LayerDefinition raw;
  raw.layer_definition_id = message.layer_definition_id();
  PARPLAN_ASSIGN_OR_RETURN(
      raw.kind, EnumFromProto<LayerKind>(message.kind(), JoinPath(field, "kind"), reason));
  raw.hidden_size = message.hidden_size();
  raw.attention_head_count = message.attention_head_count();
  raw.key_value_head_count = message.key_value_head_count();
  raw.head_size = message.head_size();
  raw.feed_forward_size = message.feed_forward_size();
  if (message.feed_forward_kind() != v1::FEED_FORWARD_KIND_UNSPECIFIED) {
    PARPLAN_ASSIGN_OR_RETURN(
        raw.feed_forward_kind,
        EnumFromProto<FeedForwardKind>(message.feed_forward_kind(),
                                       JoinPath(field, "feed_forward_kind"), reason));
  }
  raw.sequence_length = message.sequence_length();
  raw.vocabulary_size = message.vocabulary_size();
  raw.tied_embedding = message.tied_embedding();
  raw.parameter_count = message.parameter_count();
  raw.expert_count = message.expert_count();
  raw.experts_per_token = message.experts_per_token();
  raw.expert_feed_forward_size = message.expert_feed_forward_size();
  raw.shared_expert_feed_forward_size = message.shared_expert_feed_forward_size();
  absl::StatusOr<LayerDefinition> definition =
      LayerDefinition::Create(std::move(raw), std::string(field));
  if (!definition.ok()) return MoveFieldError(definition.status(), field, field, reason);
  return definition;
}

v1::LayerDefinition LayerDefinitionToProto(const LayerDefinition& definition) {
  v1::LayerDefinition message;
  message.set_layer_definition_id(definition.layer_definition_id);
  message.set_kind(static_cast<v1::LayerKind>(definition.kind));
  message.set_hidden_size(definition.hidden_size);
  message.set_attention_head_count(definition.attention_head_count);
  message.set_key_value_head_count(definition.key_value_head_count);
  message.set_head_size(definition.head_size);
  message.set_feed_forward_size(definition.feed_forward_size);
  message.set_feed_forward_kind(static_cast<v1::FeedForwardKind>(definition.feed_forward_kind));
  message.set_sequence_length(definition.sequence_length);
  message.set_vocabulary_size(definition.vocabulary_size);
  message.set_tied_embedding(definition.tied_embedding);
  message.set_parameter_count(definition.parameter_count);
  message.set_expert_count(definition.expert_count);
  message.set_experts_per_token(definition.experts_per_token);
  message.set_expert_feed_forward_size(definition.expert_feed_forward_size);
  message.set_shared_expert_feed_forward_size(definition.shared_expert_feed_forward_size);
  return message;
}

absl::StatusOr<ModelSpec> ModelFromProto(const v1::ModelSpec& message, absl::string_view field) {
  PARPLAN_RETURN_IF_ERROR(CheckSizes(message, field));
  std::vector<LayerDefinition> definitions;
  std::map<std::string, int> index_of_id;
  for (int i = 0; i < message.layer_definitions_size(); ++i) {
    const std::string path = JoinPath(field, "layer_definitions", i);
    PARPLAN_ASSIGN_OR_RETURN(LayerDefinition definition,
                             LayerDefinitionFromProto(message.layer_definitions(i), path));
    if (!index_of_id.emplace(definition.layer_definition_id, i).second) {
      return FieldError(Reason::kSpecInvalid, JoinPath(path, "layer_definition_id"),
                        absl::StrCat("`", definition.layer_definition_id,
                                     "` is the id of another definition too"));
    }
    definitions.push_back(std::move(definition));
  }
  std::vector<ModelLayerRun> runs;
  for (int i = 0; i < message.layer_runs_size(); ++i) {
    const v1::ModelLayerRun& run = message.layer_runs(i);
    const auto found = index_of_id.find(run.layer_definition_id());
    if (found == index_of_id.end()) {
      return FieldError(Reason::kSpecInvalid,
                        JoinPath(JoinPath(field, "layer_runs", i), "layer_definition_id"),
                        absl::StrCat("no entry of layer_definitions has the id `",
                                     run.layer_definition_id(), "`"));
    }
    runs.push_back(ModelLayerRun{found->second, run.layer_count()});
  }
  PARPLAN_ASSIGN_OR_RETURN(const Precision precision,
                           PrecisionFromProto(message.precision(), JoinPath(field, "precision")));
  PARPLAN_ASSIGN_OR_RETURN(const Optimizer optimizer,
                           OptimizerFromProto(message.optimizer(), JoinPath(field, "optimizer")));
  absl::StatusOr<ModelSpec> model = ModelSpec::Create(message.model_id(), std::move(definitions),
                                                      std::move(runs), precision, optimizer);
  if (!model.ok()) return MoveFieldError(model.status(), "model", field, Reason::kSpecInvalid);
  return model;
}

v1::ModelSpec ModelToProto(const ModelSpec& model) {
  v1::ModelSpec message;
  message.set_model_id(model.model_id());
  for (const LayerDefinition& definition : model.layer_definitions()) {
    *message.add_layer_definitions() = LayerDefinitionToProto(definition);
  }
  for (const ModelLayerRun& run : model.layer_runs()) {
    v1::ModelLayerRun& entry = *message.add_layer_runs();
    entry.set_layer_definition_id(
        model.layer_definitions()[run.definition_index].layer_definition_id);
    entry.set_layer_count(run.layer_count);
  }
  message.set_precision(PrecisionToProto(model.precision()));
  message.set_optimizer(OptimizerToProto(model.optimizer()));
  return message;
}

}  // namespace parplan
