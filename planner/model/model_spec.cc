#include "planner/model/model_spec.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/model/planning_problem.h"
#include "planner/model/spec_error.h"

namespace parplan {
namespace {

// Largest size of a layer. Larger ones are typing errors, and their products would overflow.
constexpr int kMaxSize = 1 << 24;

// Largest number of parameters of a model. Its bytes, multiplied by any factor of a plan, stay
// within 64 bits.
constexpr int64_t kMaxParameterCount = int64_t{1} << 50;

constexpr char kModelIdRule[] = "must be 1 to 63 letters, digits, `-`, `_` or `.`";

bool IsModelId(const std::string& id) {
  if (id.empty() || id.size() > 63) return false;
  for (const char c : id) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

bool HasTable(LayerKind kind) {
  return kind == LayerKind::kEmbedding || kind == LayerKind::kHead ||
         kind == LayerKind::kPatchEmbedding;
}

int FeedForwardMatrixCount(FeedForwardKind kind) {
  return kind == FeedForwardKind::kSwiglu ? 3 : 2;
}

// Returns the number of attention blocks of a layer: a cross decoder has two.
int AttentionCount(LayerKind kind) { return kind == LayerKind::kCrossDecoder ? 2 : 1; }

// Returns the number of elements of the matrices of one attention block: query and output, and key
// and value with possibly fewer heads.
int64_t AttentionMatrixElements(const LayerDefinition& layer) {
  const int64_t query = int64_t{layer.attention_head_count} * layer.head_size;
  const int64_t key_value = int64_t{layer.key_value_head_count} * layer.head_size;
  return int64_t{layer.hidden_size} * (2 * query + 2 * key_value);
}

// Returns the parameters of all experts and the router, or only of those that one token passes.
int64_t FeedForwardMatrixElements(const LayerDefinition& layer, bool only_active) {
  const int64_t per_width =
      int64_t{FeedForwardMatrixCount(layer.feed_forward_kind)} * layer.hidden_size;
  if (layer.expert_count == 0) return per_width * layer.feed_forward_size;
  const int64_t experts = only_active ? layer.experts_per_token : layer.expert_count;
  return per_width *
             (experts * layer.expert_feed_forward_size + layer.shared_expert_feed_forward_size) +
         int64_t{layer.hidden_size} * layer.expert_count;
}

absl::Status CheckExperts(const LayerDefinition& layer, const std::string& field) {
  if (layer.expert_count == 0) {
    const std::pair<const char*, int> absent[] = {
        {".experts_per_token", layer.experts_per_token},
        {".expert_feed_forward_size", layer.expert_feed_forward_size},
        {".shared_expert_feed_forward_size", layer.shared_expert_feed_forward_size},
    };
    for (const auto& [name, value] : absent) {
      if (value != 0) return SpecError(field + name, "needs an expert_count");
    }
    return absl::OkStatus();
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
      int64_t{FeedForwardMatrixCount(layer.feed_forward_kind)} * layer.hidden_size;
  if (int64_t{layer.expert_count} * layer.expert_feed_forward_size >
      kMaxParameterCount / per_width) {
    return SpecError(field + ".expert_count", "makes experts of more than 2^50 parameters");
  }
  return absl::OkStatus();
}

int64_t ParameterCountOf(const LayerDefinition& layer) {
  const int64_t hidden = layer.hidden_size;
  switch (layer.kind) {
    case LayerKind::kEmbedding:
      return hidden * layer.vocabulary_size;
    case LayerKind::kPatchEmbedding:
      return hidden * layer.vocabulary_size + hidden;
    case LayerKind::kHead:
      return layer.tied_embedding ? hidden : hidden * layer.vocabulary_size + hidden;
    case LayerKind::kDecoder:
    case LayerKind::kEncoder:
    case LayerKind::kCrossDecoder: {
      const int64_t attention_count = AttentionCount(layer.kind);
      // One norm before each block.
      return attention_count * AttentionMatrixElements(layer) +
             FeedForwardMatrixElements(layer, /*only_active=*/false) +
             (attention_count + 1) * hidden;
    }
  }
  return 0;
}

absl::Status CheckTransformer(LayerDefinition& layer, const std::string& field) {
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
  if (int64_t{layer.attention_head_count} * layer.head_size > kMaxSize) {
    return SpecError(field + ".head_size",
                     absl::StrCat("makes the heads wider than ", kMaxSize, " in all"));
  }
  if (layer.key_value_head_count == 0) layer.key_value_head_count = layer.attention_head_count;
  if (layer.key_value_head_count < 1 ||
      layer.attention_head_count % layer.key_value_head_count != 0) {
    return SpecError(field + ".key_value_head_count",
                     absl::StrCat("must divide attention_head_count ", layer.attention_head_count));
  }
  if (layer.feed_forward_size < 1 && layer.expert_count == 0) {
    return SpecError(field + ".feed_forward_size", "must be at least 1");
  }
  if (layer.feed_forward_kind == FeedForwardKind::kNone) {
    return SpecError(field + ".feed_forward_kind", "is required for transformer layers");
  }
  if (layer.vocabulary_size != 0) {
    return SpecError(field + ".vocabulary_size", "is for embeddings and heads only");
  }
  if (layer.tied_embedding) return SpecError(field + ".tied_embedding", "is for heads only");
  return CheckExperts(layer, field);
}

absl::Status CheckTable(const LayerDefinition& layer, const std::string& field) {
  if (layer.vocabulary_size < 1) return SpecError(field + ".vocabulary_size", "must be at least 1");
  if (layer.tied_embedding && layer.kind != LayerKind::kHead) {
    return SpecError(field + ".tied_embedding", "is for heads only");
  }
  const std::pair<const char*, int> absent[] = {
      {".attention_head_count", layer.attention_head_count},
      {".key_value_head_count", layer.key_value_head_count},
      {".head_size", layer.head_size},
      {".feed_forward_size", layer.feed_forward_size},
      {".feed_forward_kind", static_cast<int>(layer.feed_forward_kind)},
      {".expert_count", layer.expert_count},
      {".experts_per_token", layer.experts_per_token},
      {".expert_feed_forward_size", layer.expert_feed_forward_size},
      {".shared_expert_feed_forward_size", layer.shared_expert_feed_forward_size},
  };
  for (const auto& [name, value] : absent) {
    if (value != 0) return SpecError(field + name, "is for transformer layers only");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsTransformer(LayerKind kind) {
  return kind == LayerKind::kDecoder || kind == LayerKind::kEncoder ||
         kind == LayerKind::kCrossDecoder;
}

absl::StatusOr<LayerDefinition> LayerDefinition::Create(LayerDefinition raw,
                                                        const std::string& field) {
  if (!IsModelId(raw.layer_definition_id))
    return SpecError(field + ".layer_definition_id", kModelIdRule);
  if (!IsTransformer(raw.kind) && !HasTable(raw.kind)) {
    return SpecError(field + ".kind", "is required");
  }
  const std::pair<const char*, int> sizes[] = {
      {".hidden_size", raw.hidden_size},
      {".attention_head_count", raw.attention_head_count},
      {".key_value_head_count", raw.key_value_head_count},
      {".head_size", raw.head_size},
      {".feed_forward_size", raw.feed_forward_size},
      {".sequence_length", raw.sequence_length},
      {".vocabulary_size", raw.vocabulary_size},
      {".expert_count", raw.expert_count},
      {".experts_per_token", raw.experts_per_token},
      {".expert_feed_forward_size", raw.expert_feed_forward_size},
      {".shared_expert_feed_forward_size", raw.shared_expert_feed_forward_size},
  };
  for (const auto& [name, value] : sizes) {
    if (value < 0 || value > kMaxSize) {
      return SpecError(field + name, absl::StrCat("must be 0 to ", kMaxSize));
    }
  }
  if (raw.hidden_size < 1) return SpecError(field + ".hidden_size", "must be at least 1");
  if (raw.sequence_length < 1) return SpecError(field + ".sequence_length", "must be at least 1");
  if (IsTransformer(raw.kind)) {
    PARPLAN_RETURN_IF_ERROR(CheckTransformer(raw, field));
  } else {
    PARPLAN_RETURN_IF_ERROR(CheckTable(raw, field));
  }
  if (raw.parameter_count == 0) raw.parameter_count = ParameterCountOf(raw);
  if (raw.parameter_count < 0 || raw.parameter_count > kMaxParameterCount) {
    return SpecError(field + ".parameter_count", "must be 0 (computed) to 2^50");
  }
  return raw;
}

bool SameLayer(const LayerDefinition& a, const LayerDefinition& b) {
  LayerDefinition renamed = a;
  renamed.layer_definition_id = b.layer_definition_id;
  renamed.sequence_length = b.sequence_length;
  return renamed == b;
}

double ForwardFlopsPerSample(const LayerDefinition& definition, int sequence_length) {
  const double tokens = sequence_length;
  switch (definition.kind) {
    case LayerKind::kEmbedding:
      return 0.0;
    case LayerKind::kPatchEmbedding:
    case LayerKind::kHead:
      return 2.0 * tokens * definition.hidden_size * definition.vocabulary_size;
    case LayerKind::kDecoder:
    case LayerKind::kEncoder:
    case LayerKind::kCrossDecoder:
      break;
  }
  const int attention_count = AttentionCount(definition.kind);
  const double matrices =
      2.0 * tokens *
      static_cast<double>(attention_count * AttentionMatrixElements(definition) +
                          FeedForwardMatrixElements(definition, /*only_active=*/true));
  // Scores and their product with the values; half of them under a causal mask.
  const double full = 4.0 * tokens * tokens * definition.attention_head_count *
                      static_cast<double>(definition.head_size);
  switch (definition.kind) {
    case LayerKind::kDecoder:
      return matrices + 0.5 * full;
    case LayerKind::kCrossDecoder:
      return matrices + 1.5 * full;
    default:
      return matrices + full;
  }
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
    if (parameter_count > (kMaxParameterCount - model.parameter_count_) / run.layer_count) {
      return SpecError(field + ".layer_count", "makes more than 2^50 parameters");
    }
    model.parameter_count_ += parameter_count * run.layer_count;
  }
  model.model_id_ = std::move(model_id);
  model.layer_definitions_ = std::move(layer_definitions);
  model.layer_runs_ = std::move(layer_runs);
  model.precision_ = precision;
  model.optimizer_ = optimizer;
  return model;
}

}  // namespace parplan
