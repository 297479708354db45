#include "clients/import/megatron_model.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/transformer_config.h"
#include "planner/model/planning_problem.h"

namespace parplan {
namespace {

// Returns the name of a file without folders and its ending, or of what is no file.
std::string ModelName(absl::string_view file_name) {
  file_name = file_name.substr(file_name.find_last_of('/') + 1);
  file_name = file_name.substr(0, file_name.find('.'));
  return file_name.empty() || absl::StartsWith(file_name, "-") ? "megatron"
                                                               : std::string(file_name);
}

// Reads the vocabulary; 0 if the arguments do not give it.
int ReadVocabulary(const ArgumentList& arguments, std::vector<std::string>* notes) {
  const int size = arguments.Count("vocab-size", arguments.Count("padded-vocab-size", 0));
  if (size > 0 || arguments.Text("tokenizer-type", "") != "GPT2BPETokenizer") return size;
  notes->push_back(
      absl::StrCat("vocabulary_size ", kGpt2VocabularySize, " is that of GPT2BPETokenizer"));
  return kGpt2VocabularySize;
}

absl::Status ReadExpertSizes(const ArgumentList& arguments, const TransformerRunFacts& run,
                             TransformerRunFacts* mixture) {
  mixture->expert_count = arguments.Count("num-experts", 0);
  mixture->experts_per_token = arguments.Count("moe-router-topk", 2);
  mixture->expert_feed_forward_size = arguments.Count("moe-ffn-hidden-size", run.feed_forward_size);
  mixture->shared_expert_feed_forward_size =
      arguments.Count("moe-shared-expert-intermediate-size", 0);
  mixture->feed_forward_size = 0;
  if (mixture->experts_per_token <= mixture->expert_count) return absl::OkStatus();
  return arguments.Fault("moe-router-topk", absl::StrCat("is ", mixture->experts_per_token, " of ",
                                                         mixture->expert_count, " experts"));
}

// The parameters that model.proto does not derive from the sizes.
class ExtraParameters {
 public:
  explicit ExtraParameters(const ArgumentList& arguments)
      : has_bias_(!arguments.Has("disable-bias-linear")),
        has_query_key_value_bias_(has_bias_ || arguments.Has("add-qkv-bias")),
        has_query_key_norm_(arguments.Has("qk-layernorm")),
        norm_vectors_(arguments.Text("normalization", "LayerNorm") == "LayerNorm" ? 2 : 1) {}

  int64_t OfLayer(const TransformerRunFacts& run) const {
    const int head_size =
        run.head_size > 0 ? run.head_size : run.hidden_size / run.attention_head_count;
    // Two norms of one vector each are derived; a norm of queries and one of keys are not.
    return int64_t{2} * (norm_vectors_ - 1) * run.hidden_size +
           (has_query_key_norm_ ? int64_t{2} * norm_vectors_ * head_size : 0) +
           BiasCount(run, 1, has_query_key_value_bias_, has_bias_, has_bias_);
  }
  int64_t OfHead(int hidden_size) const { return int64_t{norm_vectors_ - 1} * hidden_size; }

 private:
  bool has_bias_;
  bool has_query_key_value_bias_;
  bool has_query_key_norm_;
  int norm_vectors_;
};

// Reads whether positions are learned, the default.
absl::StatusOr<bool> HasPositionTable(const ArgumentList& arguments) {
  const std::string kind = arguments.Text("position-embedding-type", "learned_absolute");
  const bool is_learned = kind == "learned_absolute";
  for (const char* const known : {"learned_absolute", "rope", "mrope", "yarn", "none"}) {
    if (kind != known) continue;
    return is_learned && !arguments.Has("no-position-embedding") &&
           !arguments.Has("use-rotary-position-embeddings");
  }
  return arguments.Fault("position-embedding-type",
                         absl::StrCat("must be learned_absolute, rope, mrope, yarn or none, and "
                                      "is `",
                                      kind, "`"));
}

absl::Status ReadTraining(const ArgumentList& arguments, ModelFacts* facts) {
  if (arguments.Has("bf16") && arguments.Has("fp16")) {
    return arguments.Fault("fp16", "contradicts --bf16");
  }
  facts->precision = arguments.Has("bf16")   ? v1::PRECISION_BF16
                     : arguments.Has("fp16") ? v1::PRECISION_FP16
                                             : v1::PRECISION_FP32;
  const std::string optimizer = arguments.Text("optimizer", "adam");
  if (optimizer != "adam" && optimizer != "sgd") {
    return arguments.Fault("optimizer",
                           absl::StrCat("must be adam or sgd, and is `", optimizer, "`"));
  }
  facts->optimizer = optimizer == "sgd" ? v1::OPTIMIZER_SGD : v1::OPTIMIZER_ADAM;
  return absl::OkStatus();
}

// Reads sizes and kinds of one layer without experts.
absl::StatusOr<TransformerRunFacts> ReadLayer(const ArgumentList& arguments) {
  TransformerRunFacts run;
  run.kind = v1::LAYER_KIND_DECODER;
  run.layer_count = arguments.Count("num-layers", 0);
  run.hidden_size = arguments.Count("hidden-size", 0);
  run.attention_head_count = arguments.Count("num-attention-heads", 0);
  run.head_size = arguments.Count("kv-channels", 0);
  run.sequence_length = arguments.Count("seq-length", 0);
  if (run.layer_count > kMaxLayerCount) {
    return arguments.Fault("num-layers", absl::StrCat("must be at most ", kMaxLayerCount));
  }
  const bool is_gated = arguments.Has("swiglu");
  run.feed_forward_kind = is_gated ? v1::FEED_FORWARD_KIND_SWIGLU : v1::FEED_FORWARD_KIND_GELU;
  run.feed_forward_size =
      arguments.Count("ffn-hidden-size", MegatronFeedForwardSize(run.hidden_size, is_gated));
  const bool is_grouped = arguments.Has("group-query-attention");
  run.key_value_head_count =
      is_grouped ? arguments.Count("num-query-groups", 1) : run.attention_head_count;
  if (run.attention_head_count == 0) return run;
  if (run.attention_head_count % run.key_value_head_count != 0) {
    return arguments.Fault("num-query-groups",
                           absl::StrCat("must divide the ", run.attention_head_count,
                                        " heads of --num-attention-heads"));
  }
  if (run.head_size == 0 && run.hidden_size % run.attention_head_count != 0) {
    return arguments.Fault(
        "num-attention-heads",
        absl::StrCat("must divide the hidden size ", run.hidden_size, " without --kv-channels"));
  }
  return run;
}

}  // namespace

int MegatronFeedForwardSize(int hidden_size, bool is_gated) {
  if (!is_gated) return FourTimes(hidden_size);
  return static_cast<int>(4.0 * hidden_size * 2 / 3) / 64 * 64;
}

std::optional<std::vector<bool>> ReadMegatronExpertLayers(absl::string_view text,
                                                          size_t layer_count) {
  std::vector<bool> pattern;
  int interval = 0;
  if (absl::SimpleAtoi(text, &interval)) {
    if (interval < 1) return std::nullopt;
    for (size_t layer = 0; layer < layer_count; ++layer) {
      pattern.push_back(layer % static_cast<size_t>(interval) == 0);
    }
    return pattern;
  }
  if (absl::ConsumePrefix(&text, "(") && !absl::ConsumeSuffix(&text, ")")) return std::nullopt;
  for (absl::string_view term : absl::StrSplit(text, '+')) {
    if (!absl::ConsumePrefix(&term, "[")) return std::nullopt;
    const size_t close = term.find(']');
    if (close == absl::string_view::npos) return std::nullopt;
    std::vector<bool> values;
    for (const absl::string_view value : absl::StrSplit(term.substr(0, close), ',')) {
      if (value != "0" && value != "1") return std::nullopt;
      values.push_back(value == "1");
    }
    term.remove_prefix(close + 1);
    int count = 1;
    if (!term.empty() && !(absl::ConsumePrefix(&term, "*") && absl::SimpleAtoi(term, &count))) {
      return std::nullopt;
    }
    if (count < 0 || values.size() * static_cast<size_t>(count) > layer_count - pattern.size()) {
      return std::nullopt;
    }
    for (int i = 0; i < count; ++i) pattern.insert(pattern.end(), values.begin(), values.end());
  }
  return pattern;
}

absl::StatusOr<v1::ModelSpec> MegatronModelSpecOf(const ArgumentList& arguments,
                                                  const ModelFlags& flags,
                                                  std::vector<std::string>* notes) {
  ModelFacts facts;
  facts.model_id = ModelName(arguments.file_name());
  facts.vocabulary_size = ReadVocabulary(arguments, notes);
  facts.tied_embedding = !arguments.Has("untie-embeddings-and-output-weights");
  PARPLAN_RETURN_IF_ERROR(ReadTraining(arguments, &facts));
  PARPLAN_ASSIGN_OR_RETURN(TransformerRunFacts run, ReadLayer(arguments));
  const bool has_sizes = run.layer_count > 0 && run.hidden_size > 0 && run.attention_head_count > 0;
  const ExtraParameters extra(arguments);
  if (has_sizes) run.extra_parameter_count = extra.OfLayer(run);
  if (!arguments.Has("num-experts") || !has_sizes) {
    facts.runs.push_back(run);
  } else {
    TransformerRunFacts mixture = run;
    PARPLAN_RETURN_IF_ERROR(ReadExpertSizes(arguments, run, &mixture));
    mixture.extra_parameter_count = extra.OfLayer(mixture);
    const std::string text = arguments.Text("moe-layer-freq", "1");
    const auto layer_count = static_cast<size_t>(run.layer_count);
    const auto layers = ReadMegatronExpertLayers(text, layer_count);
    if (!layers.has_value() || layers->size() != layer_count) {
      return arguments.Fault("moe-layer-freq",
                             absl::StrCat("must be a number or lists of 0 and 1 for ", layer_count,
                                          " layers, such as `([0]*3+[1]*5)`, and is `", text, "`"));
    }
    run.name = "decoder-dense";
    mixture.name = "decoder-experts";
    for (size_t i = 0; i < layer_count; ++i) {
      if (i > 0 && (*layers)[i] == (*layers)[i - 1]) {
        ++facts.runs.back().layer_count;
        continue;
      }
      facts.runs.push_back((*layers)[i] ? mixture : run);
      facts.runs.back().layer_count = 1;
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(const bool has_positions, HasPositionTable(arguments));
  if (has_positions) {
    facts.embedding_extra_parameter_count =
        int64_t{arguments.Count("max-position-embeddings", run.sequence_length)} * run.hidden_size;
  }
  facts.head_extra_parameter_count = extra.OfHead(run.hidden_size);
  PARPLAN_RETURN_IF_ERROR(ApplyModelFlags(flags, &facts));
  return BuildModelSpec(facts, arguments.file_name());
}

}  // namespace parplan
