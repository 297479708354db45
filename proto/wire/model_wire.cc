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
static_assert(v1::LayerKind_MAX == kLayerKindCount);
static_assert(v1::FeedForwardKind_MAX == static_cast<int>(FeedForwardKind::kAbsent));
static_assert(v1::StateSpaceKind_MAX == static_cast<int>(StateSpaceKind::kGatedDelta));
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

LatentAttention LatentAttentionFromProto(const v1::LatentAttention& message) {
  return {.query_rank = message.query_rank(),
          .key_value_rank = message.key_value_rank(),
          .rotary_head_size = message.rotary_head_size(),
          .value_head_size = message.value_head_size()};
}

absl::StatusOr<StateSpace> StateSpaceFromProto(const v1::StateSpace& message,
                                               absl::string_view field, Reason reason) {
  StateSpace space = {.inner_size = message.inner_size(),
                      .state_size = message.state_size(),
                      .head_count = message.head_count(),
                      .group_count = message.group_count(),
                      .time_step_rank = message.time_step_rank(),
                      .convolution_width = message.convolution_width(),
                      .chunk_size = message.chunk_size()};
  PARPLAN_ASSIGN_OR_RETURN(
      space.kind, EnumFromProto<StateSpaceKind>(message.kind(), JoinPath(field, "kind"), reason));
  return space;
}

OpaqueLayer OpaqueLayerFromProto(const v1::OpaqueLayer& message) {
  OpaqueLayer opaque = {.kept_bytes_per_sample = message.kept_bytes_per_sample(),
                        .boundary_bytes_per_sample = message.boundary_bytes_per_sample()};
  for (const v1::OpaqueTensorDegree& part : message.tensor_degrees()) {
    opaque.tensor_degrees.push_back(
        {.tensor_parallel_degree = part.tensor_parallel_degree(),
         .parameter_count = part.parameter_count(),
         .kept_bytes_per_sample = part.kept_bytes_per_sample(),
         .forward_all_reduce_count = part.forward_all_reduce_count(),
         .backward_all_reduce_count = part.backward_all_reduce_count(),
         .all_reduce_bytes_per_sample = part.all_reduce_bytes_per_sample()});
  }
  return opaque;
}

}  // namespace

void LatentAttentionToProto(const LatentAttention& latent, v1::LatentAttention& message) {
  message.set_query_rank(latent.query_rank);
  message.set_key_value_rank(latent.key_value_rank);
  message.set_rotary_head_size(latent.rotary_head_size);
  message.set_value_head_size(latent.value_head_size);
}

void StateSpaceToProto(const StateSpace& space, v1::StateSpace& message) {
  message.set_kind(static_cast<v1::StateSpaceKind>(space.kind));
  message.set_inner_size(space.inner_size);
  message.set_state_size(space.state_size);
  message.set_head_count(space.head_count);
  message.set_group_count(space.group_count);
  message.set_time_step_rank(space.time_step_rank);
  message.set_convolution_width(space.convolution_width);
  message.set_chunk_size(space.chunk_size);
}

void OpaqueLayerToProto(const OpaqueLayer& opaque, v1::OpaqueLayer& message) {
  message.set_kept_bytes_per_sample(opaque.kept_bytes_per_sample);
  message.set_boundary_bytes_per_sample(opaque.boundary_bytes_per_sample);
  for (const OpaqueTensorDegree& part : opaque.tensor_degrees) {
    v1::OpaqueTensorDegree& entry = *message.add_tensor_degrees();
    entry.set_tensor_parallel_degree(part.tensor_parallel_degree);
    entry.set_parameter_count(part.parameter_count);
    entry.set_kept_bytes_per_sample(part.kept_bytes_per_sample);
    entry.set_forward_all_reduce_count(part.forward_all_reduce_count);
    entry.set_backward_all_reduce_count(part.backward_all_reduce_count);
    entry.set_all_reduce_bytes_per_sample(part.all_reduce_bytes_per_sample);
  }
}

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
  raw.expert_latent_size = message.expert_latent_size();
  raw.attention_window = message.attention_window();
  raw.attention_chunk_size = message.attention_chunk_size();
  if (message.has_latent_attention()) {
    raw.latent_attention = LatentAttentionFromProto(message.latent_attention());
  }
  if (message.has_state_space()) {
    PARPLAN_ASSIGN_OR_RETURN(
        raw.state_space,
        StateSpaceFromProto(message.state_space(), JoinPath(field, "state_space"), reason));
  }
  if (message.has_opaque()) raw.opaque = OpaqueLayerFromProto(message.opaque());
  raw.prediction_depth = message.prediction_depth();
  raw.further_token_count = message.further_token_count();
  raw.frozen = message.frozen();
  raw.attention_adapter_rank = message.attention_adapter_rank();
  raw.feed_forward_adapter_rank = message.feed_forward_adapter_rank();
  raw.wide_products = message.wide_products();
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
  message.set_expert_latent_size(definition.expert_latent_size);
  message.set_attention_window(definition.attention_window);
  message.set_attention_chunk_size(definition.attention_chunk_size);
  if (definition.latent_attention.has_value()) {
    LatentAttentionToProto(*definition.latent_attention, *message.mutable_latent_attention());
  }
  if (definition.state_space.has_value()) {
    StateSpaceToProto(*definition.state_space, *message.mutable_state_space());
  }
  if (definition.opaque.has_value()) {
    OpaqueLayerToProto(*definition.opaque, *message.mutable_opaque());
  }
  message.set_prediction_depth(definition.prediction_depth);
  message.set_further_token_count(definition.further_token_count);
  message.set_frozen(definition.frozen);
  message.set_attention_adapter_rank(definition.attention_adapter_rank);
  message.set_feed_forward_adapter_rank(definition.feed_forward_adapter_rank);
  message.set_wide_products(definition.wide_products);
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
