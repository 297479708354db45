#include "clients/import/megatron_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/extra_parameters.h"
#include "clients/import/megatron_layers.h"

namespace parplan {
namespace {

// Returns the name of a file without folders and its ending, or of what is no file.
std::string ModelName(absl::string_view file_name) {
  file_name = file_name.substr(file_name.find_last_of('/') + 1);
  file_name = file_name.substr(0, file_name.find('.'));
  return file_name.empty() || absl::StartsWith(file_name, "-") ? "megatron"
                                                               : std::string(file_name);
}

// Returns the vocabulary; 0 if neither sizes nor tokenizer give it.
int VocabularyOf(const ArgumentList& arguments, const MegatronSizes& sizes,
                 std::vector<std::string>* notes) {
  // This tokenizer is the default of pretrain_gpt.py, and no other reads a file of merges.
  const std::vector<std::string> ignored = absl::StrSplit(arguments.ignored(), ", ");
  const bool has_merges =
      std::find(ignored.begin(), ignored.end(), "--merge-file") != ignored.end();
  const std::string type = arguments.Text("tokenizer-type", has_merges ? "GPT2BPETokenizer" : "");
  if (sizes.vocabulary_size > 0 || type != "GPT2BPETokenizer") return sizes.vocabulary_size;
  notes->push_back(absl::StrCat(
      "vocabulary_size ", kGpt2VocabularySize, " is that of GPT2BPETokenizer",
      arguments.Has("tokenizer-type") ? ""
                                      : ", the program's tokenizer for --merge-file without "
                                        "--tokenizer-type"));
  return kGpt2VocabularySize;
}

// The parameters that model.proto does not derive from the sizes.
class ExtraParameters {
 public:
  explicit ExtraParameters(const ArgumentList& arguments)
      : has_bias_(!arguments.Has("disable-bias-linear")),
        has_query_key_value_bias_(has_bias_ || arguments.Has("add-qkv-bias")),
        has_query_key_norm_(arguments.Has("qk-layernorm")),
        has_shared_gate_(arguments.Has("moe-shared-expert-gate")),
        has_sinks_(arguments.Text("softmax-type", "vanilla") == "learnable"),
        norm_vectors_(arguments.Text("normalization", "LayerNorm") == "LayerNorm" ? 2 : 1) {}

  // REQUIRES: `run` has its sizes.
  int64_t OfLayer(const TransformerRunFacts& run) const {
    // Two norms of one vector each are derived, and three more before and behind a further token.
    const int norms = run.prediction_depth > 0 ? 5 : 2;
    int64_t count = int64_t{norms} * (norm_vectors_ - 1) * run.hidden_size;
    if (run.latent_attention.has_value()) {
      // The norms of compressed queries and keys are derived; the program has them on demand. Its
      // maps from and to compressed vectors have no biases.
      const int64_t vectors = has_query_key_norm_ ? norm_vectors_ : 0;
      count += (vectors - 1) *
               (int64_t{run.latent_attention->query_rank} + run.latent_attention->key_value_rank);
      count += BiasCount(run, 1, false, has_bias_, has_bias_);
    } else {
      const int head_size =
          run.head_size > 0 ? run.head_size : run.hidden_size / run.attention_head_count;
      // A norm of queries and one of keys are not derived.
      count += has_query_key_norm_ ? int64_t{2} * norm_vectors_ * head_size : 0;
      count += BiasCount(run, 1, has_query_key_value_bias_, has_bias_, has_bias_);
    }
    if (has_shared_gate_ && run.shared_expert_feed_forward_size > 0) count += run.hidden_size;
    if (has_sinks_) count += run.attention_head_count;
    return count;
  }
  int64_t OfHead(int hidden_size) const { return int64_t{norm_vectors_ - 1} * hidden_size; }

 private:
  bool has_bias_;
  bool has_query_key_value_bias_;
  bool has_query_key_norm_;
  bool has_shared_gate_;
  bool has_sinks_;
  int norm_vectors_;
};

// Returns whether layers differ.
bool Differ(const std::vector<bool>& layers) {
  return std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) != layers.end();
}

// Returns layer `index` with its name. It is one of those that predict further tokens if it is
// behind the others.
TransformerRunFacts LayerOf(const MegatronSizes& sizes, int index) {
  const int last = sizes.dense.layer_count - 1;
  const bool is_prediction = index > last;
  const bool has_experts =
      sizes.mixture.has_value() && sizes.has_experts[static_cast<size_t>(std::min(index, last))];
  TransformerRunFacts layer = has_experts ? *sizes.mixture : sizes.dense;
  layer.layer_count = 1;
  if (sizes.mixture.has_value()) {
    layer.name = has_experts ? "decoder-experts" : "decoder-dense";
  } else if (sizes.window > 0 || sizes.prediction_count > 0 || !sizes.has_wide_products.empty()) {
    layer.name = "decoder";
  }
  if (!is_prediction && !sizes.has_wide_products.empty() &&
      sizes.has_wide_products[static_cast<size_t>(index)]) {
    layer.wide_products = true;
    absl::StrAppend(&layer.name, "-wide");
  }
  if (sizes.window > 0 && sizes.has_window[static_cast<size_t>(index)]) {
    layer.attention_window = sizes.window;
    if (Differ(sizes.has_window)) absl::StrAppend(&layer.name, kWindowSuffix);
  }
  if (is_prediction) {
    layer.prediction_depth = index - last;
    layer.name = absl::StrCat("prediction-", layer.prediction_depth);
  }
  return layer;
}

void AddRuns(const MegatronSizes& sizes, const ExtraParameters& extra, ModelFacts* facts) {
  for (int index = 0; index < sizes.dense.layer_count + sizes.prediction_count; ++index) {
    TransformerRunFacts layer = LayerOf(sizes, index);
    layer.extra_parameter_count = extra.OfLayer(layer);
    if (!facts->runs.empty()) {
      layer.layer_count = facts->runs.back().layer_count;
      if (layer == facts->runs.back()) {
        ++facts->runs.back().layer_count;
        continue;
      }
      layer.layer_count = 1;
    }
    facts->runs.push_back(std::move(layer));
  }
}

// Returns INVALID_ARGUMENT if sizes of the model are missing, and names the arguments of
// Megatron-LM that have them and the flags of planctl that complete them.
absl::Status CheckHasAllFacts(const ModelFacts& facts, absl::string_view file_name) {
  const std::vector<std::string> missing = MissingModelFacts(facts);
  if (missing.empty()) return absl::OkStatus();
  const std::string names = absl::StrReplaceAll(
      absl::StrJoin(missing, ", "),
      {{"(--layers)", "(--num-layers, or the flag --layers)"},
       {"(--attention-heads)", "(--num-attention-heads, or the flag --attention-heads)"},
       {"(--feed-forward-size)", "(--ffn-hidden-size, or the flag --feed-forward-size)"},
       {"(--sequence-length)", "(--seq-length, or the flag --sequence-length)"},
       {"(--vocabulary-size)", "(--vocab-size, or the flag --vocabulary-size)"}});
  return FieldError(Reason::kSpecInvalid, file_name,
                    absl::StrCat("these facts of the model are not among the arguments: ", names,
                                 "; add them, or give a model file with --model"));
}

}  // namespace

absl::StatusOr<v1::ModelSpec> MegatronModelSpecOf(const ArgumentList& arguments,
                                                  const ModelFlags& flags,
                                                  std::vector<std::string>* notes) {
  PARPLAN_ASSIGN_OR_RETURN(const MegatronSizes sizes, ReadMegatronSizes(arguments));
  ModelFacts facts;
  facts.model_id = ModelName(arguments.file_name());
  facts.vocabulary_size = VocabularyOf(arguments, sizes, notes);
  facts.tied_embedding = sizes.tied_embedding;
  facts.precision = sizes.precision;
  facts.optimizer = sizes.optimizer;
  const TransformerRunFacts& dense = sizes.dense;
  const ExtraParameters extra(arguments);
  if (dense.layer_count > 0 && dense.hidden_size > 0 && dense.attention_head_count > 0) {
    AddRuns(sizes, extra, &facts);
  } else {
    // CheckHasAllFacts lists what is missing.
    facts.runs.push_back(dense);
  }
  facts.embedding_extra_parameter_count = int64_t{sizes.position_count} * dense.hidden_size;
  facts.head_extra_parameter_count = extra.OfHead(dense.hidden_size);
  PARPLAN_RETURN_IF_ERROR(ApplyModelFlags(flags, &facts));
  if (sizes.window > 0) DropLongWindows(&facts);
  PARPLAN_RETURN_IF_ERROR(CheckHasAllFacts(facts, arguments.file_name()));
  return BuildModelSpec(facts, arguments.file_name());
}

}  // namespace parplan
