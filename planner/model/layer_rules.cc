#include "planner/model/layer_rules.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/model/model_limits.h"
#include "planner/model/spec_error.h"

namespace parplan {
namespace {

// Parts and exchanges of an opaque layer that are accepted. Each degree is a row that a user
// measured; more than these are typing errors.
constexpr size_t kMaxOpaqueDegreeCount = 64;
constexpr int kMaxOpaqueExchangeCount = 1024;

// Largest number of bytes of an opaque layer, which must not overflow with the samples of a step.
constexpr int64_t kMaxOpaqueBytes = int64_t{1} << 50;

// A field that must be absent, and its value.
using AbsentField = std::pair<const char*, bool>;

absl::Status CheckAbsent(std::initializer_list<AbsentField> fields, const std::string& field,
                         const char* rule) {
  for (const auto& [name, is_there] : fields) {
    if (is_there) return SpecError(field + name, rule);
  }
  return absl::OkStatus();
}

absl::Status CheckAtLeastOne(std::initializer_list<std::pair<const char*, int>> sizes,
                             const std::string& field) {
  for (const auto& [name, size] : sizes) {
    if (size < 1) return SpecError(field + name, "must be at least 1");
  }
  return absl::OkStatus();
}

// Checks that sizes are 0 to kMaxModelSize.
absl::Status CheckRange(std::initializer_list<std::pair<const char*, int>> sizes,
                        const std::string& field) {
  for (const auto& [name, value] : sizes) {
    if (value < 0 || value > kMaxModelSize) {
      return SpecError(field + name, absl::StrCat("must be 0 to ", kMaxModelSize));
    }
  }
  return absl::OkStatus();
}

bool HasTable(LayerKind kind) {
  return kind == LayerKind::kEmbedding || kind == LayerKind::kHead ||
         kind == LayerKind::kPatchEmbedding;
}

absl::Status CheckExperts(const LayerDefinition& layer, const std::string& field) {
  if (layer.expert_count == 0) {
    return CheckAbsent(
        {{".experts_per_token", layer.experts_per_token != 0},
         {".expert_feed_forward_size", layer.expert_feed_forward_size != 0},
         {".shared_expert_feed_forward_size", layer.shared_expert_feed_forward_size != 0},
         {".expert_latent_size", layer.expert_latent_size != 0}},
        field, "needs an expert_count");
  }
  if (layer.experts_per_token < 1 || layer.experts_per_token > layer.expert_count) {
    return SpecError(field + ".experts_per_token",
                     absl::StrCat("must be 1 to the expert_count ", layer.expert_count));
  }
  if (layer.expert_feed_forward_size < 1) {
    return SpecError(field + ".expert_feed_forward_size", "must be at least 1");
  }
  // A product of three sizes would overflow.
  const int64_t per_width =
      int64_t{layer.feed_forward_kind == FeedForwardKind::kSwiglu ? 3 : 2} * layer.expert_width();
  if (int64_t{layer.expert_count} * layer.expert_feed_forward_size >
      kMaxModelParameterCount / per_width) {
    return SpecError(field + ".expert_count", "makes experts of more than 2^50 parameters");
  }
  return absl::OkStatus();
}

absl::Status CheckLatentAttention(LayerDefinition& layer, const std::string& field) {
  const LatentAttention& latent = *layer.latent_attention;
  const std::string path = field + ".latent_attention";
  if (layer.kind != LayerKind::kDecoder) return SpecError(path, "is for decoders only");
  PARPLAN_RETURN_IF_ERROR(CheckRange({{".query_rank", latent.query_rank},
                                      {".key_value_rank", latent.key_value_rank},
                                      {".rotary_head_size", latent.rotary_head_size},
                                      {".value_head_size", latent.value_head_size}},
                                     path));
  PARPLAN_RETURN_IF_ERROR(CheckAtLeastOne(
      {{".key_value_rank", latent.key_value_rank}, {".value_head_size", latent.value_head_size}},
      path));
  if (latent.rotary_head_size >= layer.head_size) {
    return SpecError(
        path + ".rotary_head_size",
        absl::StrCat("must be below the head_size ", layer.head_size, ", of which it is a part"));
  }
  if (layer.key_value_head_count != layer.attention_head_count) {
    return SpecError(field + ".key_value_head_count",
                     "must be 0 or the attention_head_count with latent_attention");
  }
  if (int64_t{layer.attention_head_count} * latent.value_head_size > kMaxModelSize) {
    return SpecError(path + ".value_head_size",
                     absl::StrCat("makes the values wider than ", kMaxModelSize, " in all"));
  }
  return absl::OkStatus();
}

absl::Status CheckAttention(LayerDefinition& layer, const std::string& field) {
  if (layer.attention_head_count < 1) {
    return SpecError(field + ".attention_head_count", "must be at least 1");
  }
  if (layer.head_size == 0) {
    if (layer.hidden_size % layer.attention_head_count != 0) {
      return SpecError(field + ".attention_head_count",
                       absl::StrCat("must divide hidden_size ", layer.hidden_size,
                                    " unless head_size is given"));
    }
    layer.head_size = layer.hidden_size / layer.attention_head_count;
  }
  if (int64_t{layer.attention_head_count} * layer.head_size > kMaxModelSize) {
    return SpecError(field + ".head_size",
                     absl::StrCat("makes the heads wider than ", kMaxModelSize, " in all"));
  }
  if (layer.key_value_head_count == 0) layer.key_value_head_count = layer.attention_head_count;
  if (layer.key_value_head_count < 1 ||
      layer.attention_head_count % layer.key_value_head_count != 0) {
    return SpecError(field + ".key_value_head_count",
                     absl::StrCat("must divide attention_head_count ", layer.attention_head_count));
  }
  if (layer.attention_window > 0 && layer.attention_chunk_size > 0) {
    return SpecError(field + ".attention_chunk_size", "must be 0 beside an attention_window");
  }
  return layer.latent_attention.has_value() ? CheckLatentAttention(layer, field) : absl::OkStatus();
}

absl::Status CheckNoAttention(const LayerDefinition& layer, const std::string& field) {
  return CheckAbsent({{".attention_head_count", layer.attention_head_count != 0},
                      {".key_value_head_count", layer.key_value_head_count != 0},
                      {".head_size", layer.head_size != 0},
                      {".attention_window", layer.attention_window != 0},
                      {".attention_chunk_size", layer.attention_chunk_size != 0},
                      {".latent_attention", layer.latent_attention.has_value()}},
                     field, "is for layers with attention only");
}

absl::Status CheckStateSpace(LayerDefinition& layer, const std::string& field) {
  const std::string path = field + ".state_space";
  if (!layer.state_space.has_value()) return SpecError(path, "is required for this kind");
  StateSpace& space = *layer.state_space;
  PARPLAN_RETURN_IF_ERROR(CheckRange({{".inner_size", space.inner_size},
                                      {".state_size", space.state_size},
                                      {".head_count", space.head_count},
                                      {".group_count", space.group_count},
                                      {".time_step_rank", space.time_step_rank},
                                      {".convolution_width", space.convolution_width},
                                      {".chunk_size", space.chunk_size}},
                                     path));
  PARPLAN_RETURN_IF_ERROR(CheckAtLeastOne({{".inner_size", space.inner_size},
                                           {".state_size", space.state_size},
                                           {".convolution_width", space.convolution_width}},
                                          path));
  if (space.kind == StateSpaceKind::kSelective) {
    PARPLAN_RETURN_IF_ERROR(CheckAtLeastOne({{".time_step_rank", space.time_step_rank}}, path));
    return CheckAbsent({{".head_count", space.head_count != 0},
                        {".group_count", space.group_count != 0},
                        {".chunk_size", space.chunk_size != 0}},
                       path, "is not of a selective state space");
  }
  PARPLAN_RETURN_IF_ERROR(CheckAbsent({{".time_step_rank", space.time_step_rank != 0}}, path,
                                      "is of a selective state space only"));
  PARPLAN_RETURN_IF_ERROR(CheckAtLeastOne({{".head_count", space.head_count},
                                           {".group_count", space.group_count},
                                           {".chunk_size", space.chunk_size}},
                                          path));
  if (space.inner_size % space.head_count != 0) {
    return SpecError(path + ".head_count",
                     absl::StrCat("must divide the inner_size ", space.inner_size));
  }
  if (space.head_count % space.group_count != 0) {
    return SpecError(path + ".group_count",
                     absl::StrCat("must divide the head_count ", space.head_count));
  }
  if (int64_t{space.group_count} * space.state_size > kMaxModelSize) {
    return SpecError(path + ".state_size",
                     absl::StrCat("makes the groups wider than ", kMaxModelSize, " in all"));
  }
  return absl::OkStatus();
}

absl::Status CheckFeedForward(const LayerDefinition& layer, const std::string& field) {
  if (layer.feed_forward_kind == FeedForwardKind::kNone) {
    return SpecError(field + ".feed_forward_kind", "is required for transformer layers");
  }
  if (layer.feed_forward_kind != FeedForwardKind::kAbsent) {
    if (layer.feed_forward_size < 1 && layer.expert_count == 0) {
      return SpecError(field + ".feed_forward_size", "must be at least 1");
    }
    return CheckExperts(layer, field);
  }
  if (layer.kind == LayerKind::kFeedForward) {
    return SpecError(field + ".feed_forward_kind", "must be of a feed-forward part for this kind");
  }
  return CheckAbsent(
      {{".feed_forward_size", layer.feed_forward_size != 0},
       {".expert_count", layer.expert_count != 0},
       {".experts_per_token", layer.experts_per_token != 0},
       {".expert_feed_forward_size", layer.expert_feed_forward_size != 0},
       {".shared_expert_feed_forward_size", layer.shared_expert_feed_forward_size != 0},
       {".expert_latent_size", layer.expert_latent_size != 0}},
      field, "must be 0 if the layer has no feed-forward part");
}

absl::Status CheckPrediction(const LayerDefinition& layer, const std::string& field) {
  if (layer.kind == LayerKind::kDecoder && layer.prediction_depth > 0) {
    if (layer.vocabulary_size >= 1) return absl::OkStatus();
    return SpecError(field + ".vocabulary_size",
                     "must be that of the embedding with a prediction_depth");
  }
  if (layer.prediction_depth != 0) {
    return SpecError(field + ".prediction_depth", "is for decoders only");
  }
  if (layer.vocabulary_size == 0) return absl::OkStatus();
  return SpecError(field + ".vocabulary_size",
                   "is for embeddings, heads, and decoders with a prediction_depth only");
}

absl::Status CheckAdapters(const LayerDefinition& layer, const std::string& field) {
  if (layer.frozen && layer.kind == LayerKind::kOpaque) {
    return SpecError(field + ".frozen", "is not of an opaque layer");
  }
  if (layer.wide_products && !IsTransformer(layer.kind)) {
    return SpecError(field + ".wide_products", "is for transformer layers only");
  }
  if (!layer.frozen) {
    return CheckAbsent({{".attention_adapter_rank", layer.attention_adapter_rank != 0},
                        {".feed_forward_adapter_rank", layer.feed_forward_adapter_rank != 0}},
                       field, "needs frozen weights");
  }
  if (layer.attention_adapter_rank != 0 &&
      (!HasAttention(layer.kind) || layer.latent_attention.has_value())) {
    return SpecError(field + ".attention_adapter_rank",
                     "is for attention without compressed vectors only");
  }
  if (layer.feed_forward_adapter_rank != 0 &&
      (layer.has_experts() || layer.feed_forward_size == 0)) {
    return SpecError(field + ".feed_forward_adapter_rank", "is for dense feed-forward parts only");
  }
  return absl::OkStatus();
}

absl::Status CheckTransformer(LayerDefinition& layer, const std::string& field) {
  PARPLAN_RETURN_IF_ERROR(HasAttention(layer.kind) ? CheckAttention(layer, field)
                                                   : CheckNoAttention(layer, field));
  if (layer.kind == LayerKind::kStateSpace) {
    PARPLAN_RETURN_IF_ERROR(CheckStateSpace(layer, field));
  } else {
    PARPLAN_RETURN_IF_ERROR(CheckAbsent({{".state_space", layer.state_space.has_value()}}, field,
                                        "is for state-space layers only"));
  }
  PARPLAN_RETURN_IF_ERROR(
      CheckAbsent({{".opaque", layer.opaque.has_value()}}, field, "is for opaque layers only"));
  PARPLAN_RETURN_IF_ERROR(CheckFeedForward(layer, field));
  if (layer.tied_embedding) return SpecError(field + ".tied_embedding", "is for heads only");
  if (layer.further_token_count != 0) {
    return SpecError(field + ".further_token_count", "is for heads only");
  }
  return CheckPrediction(layer, field);
}

// Checks that a layer without inner structure, a table or an opaque layer, has none.
absl::Status CheckNoStructure(const LayerDefinition& layer, const std::string& field) {
  return CheckAbsent(
      {{".attention_head_count", layer.attention_head_count != 0},
       {".key_value_head_count", layer.key_value_head_count != 0},
       {".head_size", layer.head_size != 0},
       {".feed_forward_size", layer.feed_forward_size != 0},
       {".feed_forward_kind", layer.feed_forward_kind != FeedForwardKind::kNone},
       {".expert_count", layer.expert_count != 0},
       {".experts_per_token", layer.experts_per_token != 0},
       {".expert_feed_forward_size", layer.expert_feed_forward_size != 0},
       {".shared_expert_feed_forward_size", layer.shared_expert_feed_forward_size != 0},
       {".expert_latent_size", layer.expert_latent_size != 0},
       {".attention_window", layer.attention_window != 0},
       {".attention_chunk_size", layer.attention_chunk_size != 0},
       {".latent_attention", layer.latent_attention.has_value()},
       {".state_space", layer.state_space.has_value()},
       {".prediction_depth", layer.prediction_depth != 0}},
      field, "is for transformer layers only");
}

absl::Status CheckTable(const LayerDefinition& layer, const std::string& field) {
  if (layer.vocabulary_size < 1) return SpecError(field + ".vocabulary_size", "must be at least 1");
  if (layer.tied_embedding && layer.kind != LayerKind::kHead) {
    return SpecError(field + ".tied_embedding", "is for heads only");
  }
  if (layer.further_token_count != 0 && layer.kind != LayerKind::kHead) {
    return SpecError(field + ".further_token_count", "is for heads only");
  }
  PARPLAN_RETURN_IF_ERROR(
      CheckAbsent({{".opaque", layer.opaque.has_value()}}, field, "is for opaque layers only"));
  return CheckNoStructure(layer, field);
}

absl::Status CheckBytes(const std::string& path, int64_t bytes) {
  if (bytes >= 0 && bytes <= kMaxOpaqueBytes) return absl::OkStatus();
  return SpecError(path, "must be 0 to 2^50");
}

absl::Status CheckOpaque(const LayerDefinition& layer, const std::string& field) {
  if (!layer.opaque.has_value()) return SpecError(field + ".opaque", "is required for this kind");
  PARPLAN_RETURN_IF_ERROR(CheckNoStructure(layer, field));
  PARPLAN_RETURN_IF_ERROR(CheckAbsent({{".vocabulary_size", layer.vocabulary_size != 0},
                                       {".tied_embedding", layer.tied_embedding},
                                       {".further_token_count", layer.further_token_count != 0}},
                                      field, "is not of an opaque layer"));
  const OpaqueLayer& opaque = *layer.opaque;
  const std::string path = field + ".opaque";
  PARPLAN_RETURN_IF_ERROR(
      CheckBytes(path + ".kept_bytes_per_sample", opaque.kept_bytes_per_sample));
  PARPLAN_RETURN_IF_ERROR(
      CheckBytes(path + ".boundary_bytes_per_sample", opaque.boundary_bytes_per_sample));
  if (opaque.tensor_degrees.size() > kMaxOpaqueDegreeCount) {
    return SpecError(path + ".tensor_degrees",
                     absl::StrCat("must be at most ", kMaxOpaqueDegreeCount));
  }
  int last = 1;
  for (size_t i = 0; i < opaque.tensor_degrees.size(); ++i) {
    const OpaqueTensorDegree& part = opaque.tensor_degrees[i];
    const std::string entry = absl::StrCat(path, ".tensor_degrees[", i, "]");
    if (part.tensor_parallel_degree <= last || part.tensor_parallel_degree > kMaxModelSize) {
      return SpecError(entry + ".tensor_parallel_degree",
                       absl::StrCat("must be above ", last, ", the degree before it"));
    }
    last = part.tensor_parallel_degree;
    if (part.parameter_count < 0 || part.parameter_count > kMaxModelParameterCount) {
      return SpecError(entry + ".parameter_count", "must be 0 to 2^50");
    }
    PARPLAN_RETURN_IF_ERROR(
        CheckBytes(entry + ".kept_bytes_per_sample", part.kept_bytes_per_sample));
    PARPLAN_RETURN_IF_ERROR(
        CheckBytes(entry + ".all_reduce_bytes_per_sample", part.all_reduce_bytes_per_sample));
    for (const auto& [name, count] :
         {std::pair{".forward_all_reduce_count", part.forward_all_reduce_count},
          std::pair{".backward_all_reduce_count", part.backward_all_reduce_count}}) {
      if (count < 0 || count > kMaxOpaqueExchangeCount) {
        return SpecError(entry + name, absl::StrCat("must be 0 to ", kMaxOpaqueExchangeCount));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyLayerRules(const std::string& field, LayerDefinition& layer) {
  if (!IsModelId(layer.layer_definition_id)) {
    return SpecError(field + ".layer_definition_id", kModelIdRule);
  }
  if (!IsTransformer(layer.kind) && !HasTable(layer.kind)) {
    return SpecError(field + ".kind", "is required");
  }
  PARPLAN_RETURN_IF_ERROR(
      CheckRange({{".hidden_size", layer.hidden_size},
                  {".attention_head_count", layer.attention_head_count},
                  {".key_value_head_count", layer.key_value_head_count},
                  {".head_size", layer.head_size},
                  {".feed_forward_size", layer.feed_forward_size},
                  {".sequence_length", layer.sequence_length},
                  {".vocabulary_size", layer.vocabulary_size},
                  {".expert_count", layer.expert_count},
                  {".experts_per_token", layer.experts_per_token},
                  {".expert_feed_forward_size", layer.expert_feed_forward_size},
                  {".shared_expert_feed_forward_size", layer.shared_expert_feed_forward_size},
                  {".expert_latent_size", layer.expert_latent_size},
                  {".attention_window", layer.attention_window},
                  {".attention_chunk_size", layer.attention_chunk_size},
                  {".attention_adapter_rank", layer.attention_adapter_rank},
                  {".feed_forward_adapter_rank", layer.feed_forward_adapter_rank}},
                 field));
  PARPLAN_RETURN_IF_ERROR(CheckAdapters(layer, field));
  for (const auto& [name, count] : {std::pair{".prediction_depth", layer.prediction_depth},
                                    std::pair{".further_token_count", layer.further_token_count}}) {
    if (count < 0 || count > kMaxFurtherTokenCount) {
      return SpecError(field + name, absl::StrCat("must be 0 to ", kMaxFurtherTokenCount));
    }
  }
  PARPLAN_RETURN_IF_ERROR(CheckAtLeastOne(
      {{".hidden_size", layer.hidden_size}, {".sequence_length", layer.sequence_length}}, field));
  if (layer.kind == LayerKind::kOpaque) return CheckOpaque(layer, field);
  return IsTransformer(layer.kind) ? CheckTransformer(layer, field) : CheckTable(layer, field);
}

}  // namespace parplan
