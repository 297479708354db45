#include "clients/import/model_facts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "proto/wire/model_wire.h"

namespace parplan {
namespace {

const char* KindName(v1::LayerKind kind) {
  switch (kind) {
    case v1::LAYER_KIND_ENCODER:
      return "encoder";
    case v1::LAYER_KIND_CROSS_DECODER:
      return "cross-decoder";
    case v1::LAYER_KIND_STATE_SPACE:
      return "state-space";
    case v1::LAYER_KIND_FEED_FORWARD:
      return "feed-forward";
    case v1::LAYER_KIND_OPAQUE:
      return "opaque";
    default:
      return "decoder";
  }
}

absl::Status SetSize(const char* flag, std::optional<int> value, int* size) {
  if (!value.has_value()) return absl::OkStatus();
  if (*value < 1) return FieldError(Reason::kSpecInvalid, flag, "must be at least 1");
  *size = *value;
  return absl::OkStatus();
}

bool HasAttentionKind(v1::LayerKind kind) {
  return kind != v1::LAYER_KIND_STATE_SPACE && kind != v1::LAYER_KIND_FEED_FORWARD &&
         kind != v1::LAYER_KIND_OPAQUE;
}

// Drops the layers that predict further tokens after the first `wanted`.
absl::Status KeepPredictions(int wanted, ModelFacts* facts) {
  int count = 0;
  for (const TransformerRunFacts& run : facts->runs) count = std::max(count, run.prediction_depth);
  if (wanted < 0 || wanted > count) {
    return FieldError(Reason::kSpecInvalid, "--prediction-layers",
                      absl::StrCat("must be 0 to ", count, ", the number in the file"));
  }
  std::erase_if(facts->runs,
                [wanted](const TransformerRunFacts& run) { return run.prediction_depth > wanted; });
  return absl::OkStatus();
}

// Adds `extra` to the number of parameters that follows from the sizes of `definition`.
absl::Status AddParameters(int64_t extra, absl::string_view source,
                           v1::LayerDefinition& definition) {
  if (extra == 0) return absl::OkStatus();
  const absl::StatusOr<LayerDefinition> checked =
      LayerDefinitionFromProto(definition, definition.layer_definition_id());
  if (!checked.ok()) return FieldError(Reason::kSpecInvalid, source, checked.status().message());
  definition.set_parameter_count(checked->parameter_count + extra);
  return absl::OkStatus();
}

}  // namespace

absl::string_view GivenModelFlag(const ModelFlags& flags) {
  const std::pair<absl::string_view, bool> given[] = {
      {"--model-id", flags.model_id.has_value()},
      {"--layer-kind", flags.layer_kind.has_value()},
      {"--layers", !flags.layer_counts.empty()},
      {"--sequence-length", !flags.sequence_lengths.empty()},
      {"--hidden-size", flags.hidden_size.has_value()},
      {"--attention-heads", flags.attention_head_count.has_value()},
      {"--key-value-heads", flags.key_value_head_count.has_value()},
      {"--head-size", flags.head_size.has_value()},
      {"--feed-forward-size", flags.feed_forward_size.has_value()},
      {"--feed-forward-kind", flags.feed_forward_kind.has_value()},
      {"--vocabulary-size", flags.vocabulary_size.has_value()},
      {"--tied-embedding", flags.tied_embedding.has_value()},
      {"--prediction-layers", flags.prediction_layer_count.has_value()},
      {"--precision", flags.precision.has_value()},
      {"--optimizer", flags.optimizer.has_value()},
  };
  for (const auto& [name, is_given] : given) {
    if (is_given) return name;
  }
  return "";
}

absl::Status ApplyModelFlags(const ModelFlags& flags, ModelFacts* facts) {
  if (flags.model_id.has_value()) facts->model_id = *flags.model_id;
  if (facts->runs.empty()) facts->runs.resize(flags.layer_counts.size());
  if (!flags.layer_counts.empty() && flags.layer_counts.size() != facts->runs.size()) {
    return FieldError(Reason::kSpecInvalid, "--layers",
                      absl::StrCat("must be given ", facts->runs.size(),
                                   " times, once for each kind of layer of the model"));
  }
  const size_t lengths = flags.sequence_lengths.size();
  if (lengths > 1 && lengths != facts->runs.size()) {
    return FieldError(Reason::kSpecInvalid, "--sequence-length",
                      absl::StrCat("must be given once, or ", facts->runs.size(),
                                   " times, once for each kind of layer of the model"));
  }
  for (size_t i = 0; i < facts->runs.size(); ++i) {
    TransformerRunFacts& run = facts->runs[i];
    if (flags.layer_kind.has_value()) run.kind = *flags.layer_kind;
    if (flags.feed_forward_kind.has_value()) run.feed_forward_kind = *flags.feed_forward_kind;
    if (!run.opaque.has_value() &&
        (flags.feed_forward_kind || flags.hidden_size || flags.attention_head_count ||
         flags.key_value_head_count || flags.head_size || flags.feed_forward_size)) {
      run.extra_parameter_count = 0;
    }
    const std::pair<const char*, bool> given[] = {
        {"--hidden-size", flags.hidden_size.has_value()},
        {"--feed-forward-size", flags.feed_forward_size.has_value()},
        {"--feed-forward-kind", flags.feed_forward_kind.has_value()},
        {"--attention-heads", flags.attention_head_count.has_value()},
        {"--key-value-heads", flags.key_value_head_count.has_value()},
        {"--head-size", flags.head_size.has_value()},
    };
    for (const auto& [flag, is_given] : given) {
      if (!is_given || run.opaque_kept_values_per_token == 0) continue;
      return FieldError(Reason::kSpecInvalid, flag,
                        "would contradict the sizes of opaque layers, which follow from the file");
    }
    std::optional<int> layer_count;
    std::optional<int> sequence_length;
    if (!flags.layer_counts.empty()) layer_count = flags.layer_counts[i];
    if (lengths > 0) sequence_length = flags.sequence_lengths[lengths == 1 ? 0 : i];
    const struct {
      const char* flag;
      std::optional<int> value;
      int* size;
    } sizes[] = {
        {"--layers", layer_count, &run.layer_count},
        {"--sequence-length", sequence_length, &run.sequence_length},
        {"--hidden-size", flags.hidden_size, &run.hidden_size},
        {"--attention-heads", flags.attention_head_count, &run.attention_head_count},
        {"--key-value-heads", flags.key_value_head_count, &run.key_value_head_count},
        {"--head-size", flags.head_size, &run.head_size},
        {"--feed-forward-size", flags.feed_forward_size, &run.feed_forward_size},
    };
    for (const auto& size : sizes) {
      PARPLAN_RETURN_IF_ERROR(SetSize(size.flag, size.value, size.size));
    }
  }
  // A flag that completes the file leaves what the file says of the ends of the model.
  const bool replaces_vocabulary = flags.vocabulary_size.has_value() && facts->vocabulary_size > 0;
  PARPLAN_RETURN_IF_ERROR(
      SetSize("--vocabulary-size", flags.vocabulary_size, &facts->vocabulary_size));
  if (flags.hidden_size.has_value() || replaces_vocabulary) {
    facts->embedding_extra_parameter_count = 0;
    facts->head_extra_parameter_count = 0;
  }
  if (flags.prediction_layer_count.has_value()) {
    PARPLAN_RETURN_IF_ERROR(KeepPredictions(*flags.prediction_layer_count, facts));
  }
  if (flags.tied_embedding.has_value()) facts->tied_embedding = *flags.tied_embedding;
  if (flags.precision.has_value()) facts->precision = *flags.precision;
  if (flags.optimizer.has_value()) facts->optimizer = *flags.optimizer;
  return absl::OkStatus();
}

void DropLongWindows(ModelFacts* facts) {
  std::vector<TransformerRunFacts> runs;
  for (TransformerRunFacts run : facts->runs) {
    for (int* const tokens : {&run.attention_window, &run.attention_chunk_size}) {
      if (*tokens < run.sequence_length) continue;
      *tokens = 0;
      if (absl::EndsWith(run.name, kWindowSuffix)) {
        run.name.resize(run.name.size() - kWindowSuffix.size());
      }
    }
    if (!runs.empty()) {
      TransformerRunFacts like = runs.back();
      like.layer_count = run.layer_count;
      if (like == run && run.prediction_depth == 0 && !run.name.empty()) {
        runs.back().layer_count += run.layer_count;
        continue;
      }
    }
    runs.push_back(std::move(run));
  }
  facts->runs = std::move(runs);
}

std::vector<std::string> MissingModelFacts(const ModelFacts& facts) {
  std::vector<std::string> missing;
  if (facts.runs.empty()) missing.push_back("layer_count (--layers)");
  for (size_t i = 0; i < facts.runs.size(); ++i) {
    const TransformerRunFacts& run = facts.runs[i];
    const std::string of = facts.runs.size() == 1 ? "" : absl::StrCat(" of layer type ", i);
    const struct {
      const char* name;
      const char* flag;
      bool known;
    } needs[] = {
        {"layer_count", "--layers", run.layer_count > 0},
        {"hidden_size", "--hidden-size", run.hidden_size > 0},
        {"attention_head_count", "--attention-heads",
         run.attention_head_count > 0 || !HasAttentionKind(run.kind)},
        {"feed_forward_size", "--feed-forward-size",
         run.feed_forward_size > 0 || run.expert_count > 0 ||
             run.feed_forward_kind == v1::FEED_FORWARD_KIND_NONE || run.opaque.has_value()},
        {"feed_forward_kind", "--feed-forward-kind",
         run.feed_forward_kind != v1::FEED_FORWARD_KIND_UNSPECIFIED || run.opaque.has_value()},
        {"layer_kind", "--layer-kind", run.kind != v1::LAYER_KIND_UNSPECIFIED},
        {"sequence_length", "--sequence-length", run.sequence_length > 0},
    };
    for (const auto& need : needs) {
      if (!need.known) missing.push_back(absl::StrCat(need.name, of, " (", need.flag, ")"));
    }
  }
  if (facts.vocabulary_size == 0 && facts.patch_value_count == 0) {
    missing.push_back("vocabulary_size (--vocabulary-size)");
  }
  return missing;
}

absl::StatusOr<v1::ModelSpec> BuildModelSpec(const ModelFacts& facts, absl::string_view source) {
  const std::vector<std::string> missing = MissingModelFacts(facts);
  if (!missing.empty()) {
    return FieldError(Reason::kSpecInvalid, source,
                      absl::StrCat("these facts of the model are in no file; give a model "
                                   "config or the flag: ",
                                   absl::StrJoin(missing, ", ")));
  }
  const bool image = facts.patch_value_count > 0;
  v1::ModelSpec model;
  model.set_model_id(ModelIdFrom(facts.model_id));
  model.set_precision(facts.precision == v1::PRECISION_UNSPECIFIED ? v1::PRECISION_BF16
                                                                   : facts.precision);
  model.set_optimizer(facts.optimizer == v1::OPTIMIZER_UNSPECIFIED ? v1::OPTIMIZER_ADAM
                                                                   : facts.optimizer);

  const auto add = [&model](const std::string& id, v1::LayerKind kind, int layer_count) {
    v1::ModelLayerRun* run = model.add_layer_runs();
    run->set_layer_definition_id(id);
    run->set_layer_count(layer_count);
    v1::LayerDefinition* definition = model.add_layer_definitions();
    definition->set_layer_definition_id(id);
    definition->set_kind(kind);
    return definition;
  };

  const TransformerRunFacts& first = facts.runs.front();
  v1::LayerDefinition* embedding =
      add("embedding", image ? v1::LAYER_KIND_PATCH_EMBEDDING : v1::LAYER_KIND_EMBEDDING, 1);
  embedding->set_hidden_size(first.hidden_size);
  embedding->set_sequence_length(first.sequence_length);
  embedding->set_vocabulary_size(image ? facts.patch_value_count : facts.vocabulary_size);
  PARPLAN_RETURN_IF_ERROR(AddParameters(facts.embedding_extra_parameter_count, source, *embedding));

  std::map<std::string, int> length_of;
  int further_token_count = 0;
  for (size_t i = 0; i < facts.runs.size(); ++i) {
    const TransformerRunFacts& run = facts.runs[i];
    int same_kind = 0;
    for (const TransformerRunFacts& other : facts.runs) same_kind += other.kind == run.kind;
    std::string id = run.name;
    if (id.empty()) {
      id = same_kind == 1 ? std::string(KindName(run.kind))
                          : absl::StrCat(KindName(run.kind), "-", i);
    }
    const auto [earlier, is_new] = length_of.emplace(id, run.sequence_length);
    if (!is_new) {
      if (earlier->second != run.sequence_length) {
        return FieldError(Reason::kSpecInvalid, "--sequence-length",
                          absl::StrCat("must be equal for all runs of `", id, "`"));
      }
      v1::ModelLayerRun* again = model.add_layer_runs();
      again->set_layer_definition_id(id);
      again->set_layer_count(run.layer_count);
      continue;
    }
    v1::LayerDefinition* layer = add(id, run.kind, run.layer_count);
    layer->set_hidden_size(run.hidden_size);
    if (HasAttentionKind(run.kind)) {
      layer->set_attention_head_count(run.attention_head_count);
      if (run.key_value_head_count != run.attention_head_count) {
        layer->set_key_value_head_count(run.key_value_head_count);
      }
      if (int64_t{run.head_size} * run.attention_head_count != run.hidden_size) {
        layer->set_head_size(run.head_size);
      }
    }
    layer->set_attention_window(run.attention_window);
    layer->set_wide_products(run.wide_products);
    layer->set_attention_chunk_size(run.attention_chunk_size);
    if (run.latent_attention.has_value()) {
      LatentAttentionToProto(*run.latent_attention, *layer->mutable_latent_attention());
    }
    if (run.state_space.has_value()) {
      StateSpaceToProto(*run.state_space, *layer->mutable_state_space());
    }
    if (run.opaque.has_value()) {
      OpaqueLayer opaque = *run.opaque;
      if (run.opaque_kept_values_per_token > 0) {
        const int64_t value_bytes = model.precision() == v1::PRECISION_FP32 ? 4 : 2;
        // The limit of opaque layers. The product of the three may not fit.
        constexpr int64_t kMaxKeptBytes = int64_t{1} << 50;
        if (run.opaque_kept_values_per_token > kMaxKeptBytes / value_bytes / run.sequence_length) {
          return FieldError(Reason::kSpecInvalid, source,
                            "has layers that would keep more than 2^50 bytes of a sample");
        }
        opaque.kept_bytes_per_sample =
            run.opaque_kept_values_per_token * run.sequence_length * value_bytes;
        // At most as many as are kept.
        opaque.boundary_bytes_per_sample =
            run.opaque_passed_values_per_token * run.sequence_length * value_bytes;
      }
      OpaqueLayerToProto(opaque, *layer->mutable_opaque());
    }
    if (run.prediction_depth > 0) {
      layer->set_prediction_depth(run.prediction_depth);
      layer->set_vocabulary_size(facts.vocabulary_size);
      further_token_count = run.prediction_depth;
    }
    layer->set_feed_forward_size(run.feed_forward_size);
    layer->set_feed_forward_kind(run.feed_forward_kind);
    layer->set_sequence_length(run.sequence_length);
    layer->set_expert_count(run.expert_count);
    layer->set_experts_per_token(run.experts_per_token);
    layer->set_expert_feed_forward_size(run.expert_feed_forward_size);
    layer->set_shared_expert_feed_forward_size(run.shared_expert_feed_forward_size);
    layer->set_expert_latent_size(run.expert_latent_size);
    PARPLAN_RETURN_IF_ERROR(AddParameters(run.extra_parameter_count, source, *layer));
  }

  const TransformerRunFacts& last = facts.runs.back();
  v1::LayerDefinition* head = add("head", v1::LAYER_KIND_HEAD, 1);
  head->set_hidden_size(last.hidden_size);
  head->set_sequence_length(last.sequence_length);
  head->set_vocabulary_size(image ? facts.class_count : facts.vocabulary_size);
  head->set_tied_embedding(facts.tied_embedding);
  head->set_further_token_count(further_token_count);
  PARPLAN_RETURN_IF_ERROR(AddParameters(facts.head_extra_parameter_count, source, *head));

  const absl::StatusOr<ModelSpec> checked = ModelFromProto(model, "model");
  if (!checked.ok()) {
    return FieldError(Reason::kSpecInvalid, source, checked.status().message());
  }
  return model;
}

std::string ModelIdFrom(absl::string_view text) {
  std::string id(text.substr(0, 63));
  for (char& c : id) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.') c = '-';
  }
  return id.empty() ? "model" : id;
}

}  // namespace parplan
