#include "clients/import/megatron_comparison.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "clients/import/megatron_layers.h"
#include "exports/uniform_plan.h"
#include "planner/model/precision.h"
#include "proto/wire/model_wire.h"

namespace parplan {
namespace {

// Compares the arguments of the model with `model`.
class ModelComparison {
 public:
  ModelComparison(const ArgumentList& arguments, const ModelSpec& model)
      : arguments_(arguments), model_(model) {}

  absl::Status Compare() {
    if (!arguments_.Has("num-layers")) {
      return arguments_.Fault("num-layers", "is missing");
    }
    predictions_ = FurtherTokenCount(model_);
    decoders_ = DecoderLayerCount(model_);
    CompareShapes();
    CompareAttention();
    CompareWindows();
    CompareExperts();
    CompareTraining();
    CompareWideProducts();
    return status_;
  }

 private:
  void CompareCount(absl::string_view name, int expected) {
    const int value = arguments_.Count(name, expected);
    if (value != expected)
      Fault(name, absl::StrCat("is ", value, ", and the model's is ", expected));
  }
  void CompareSwitch(absl::string_view name, bool expected) {
    if (arguments_.Has(name) == expected) return;
    Fault(name,
          expected ? "is missing, and the model needs it" : "is given, and the model lacks it");
  }
  void Fault(absl::string_view name, absl::string_view rule) {
    if (status_.ok()) status_ = arguments_.Fault(name, rule);
  }

  void CompareShapes() {
    CompareCount("num-layers", decoders_);
    if (arguments_.Count("mtp-num-layers", 0) != predictions_) {
      Fault("mtp-num-layers", absl::StrCat("must be ", predictions_, ", the model's layers for ",
                                           "further tokens, or be left out if that is 0"));
    }
    CompareCount("vocab-size", model_.layer(0).vocabulary_size);
    for (int layer = 1; layer + 1 < model_.layer_count(); ++layer) {
      const LayerDefinition& definition = model_.layer(layer);
      CompareCount("hidden-size", definition.hidden_size);
      CompareCount("num-attention-heads", definition.attention_head_count);
      CompareCount("seq-length", definition.sequence_length);
      if (definition.expert_count == 0) {
        CompareCount("ffn-hidden-size", definition.feed_forward_size);
      }
      // Both gate the feed-forward part.
      CompareSwitch(arguments_.Has("quick-geglu") ? "quick-geglu" : "swiglu",
                    definition.feed_forward_kind == FeedForwardKind::kSwiglu);
    }
    CompareSwitch("untie-embeddings-and-output-weights",
                  !model_.layer(model_.layer_count() - 1).tied_embedding);
  }

  void CompareAttention() {
    for (int layer = 1; layer + 1 < model_.layer_count(); ++layer) {
      const LayerDefinition& definition = model_.layer(layer);
      const bool is_latent = definition.latent_attention.has_value();
      CompareSwitch("multi-latent-attention", is_latent);
      if (is_latent) {
        const LatentAttention& latent = *definition.latent_attention;
        // Queries are only compressed if the argument is given.
        if (arguments_.Count("q-lora-rank", 0) != latent.query_rank) {
          Fault("q-lora-rank",
                absl::StrCat("must be ", latent.query_rank, ", or be left out if that is 0"));
        }
        CompareCount("kv-lora-rank", latent.key_value_rank);
        CompareCount("qk-head-dim", definition.head_size - latent.rotary_head_size);
        CompareCount("qk-pos-emb-head-dim", latent.rotary_head_size);
        CompareCount("v-head-dim", latent.value_head_size);
        continue;
      }
      CompareCount("kv-channels", definition.head_size);
      const int groups = arguments_.Has("group-query-attention")
                             ? arguments_.Count("num-query-groups", 1)
                             : definition.attention_head_count;
      if (groups != definition.key_value_head_count) {
        Fault("num-query-groups", absl::StrCat("leaves ", groups,
                                               " key-value heads, and the model "
                                               "has ",
                                               definition.key_value_head_count));
      }
    }
  }

  // A window that is as long as the sequence is none.
  void CompareWindows() {
    const absl::StatusOr<MegatronWindow> window =
        ReadMegatronWindow(arguments_, decoders_, predictions_);
    if (!window.ok()) {
      if (status_.ok()) status_ = window.status();
      return;
    }
    for (int layer = 1; layer + 1 < model_.layer_count(); ++layer) {
      const LayerDefinition& definition = model_.layer(layer);
      const bool has_window = window->size > 0 && window->size < definition.sequence_length &&
                              window->has_window[static_cast<size_t>(layer) - 1];
      const int size = has_window ? window->size : 0;
      const int expected = definition.attention_window < definition.sequence_length
                               ? definition.attention_window
                               : 0;
      if (definition.attention_chunk_size > 0) {
        return Fault("window-size", absl::StrCat("has windows that slide, and the model's layer ",
                                                 layer, " attends within chunks"));
      }
      if (size == expected) continue;
      return Fault("window-size",
                   absl::StrCat("gives layer ", layer, " a window of ", size, " tokens, and the ",
                                "model's has ", expected, " (0: none)"));
    }
  }

  void CompareWideProducts() {
    const absl::StatusOr<std::vector<bool>> wide = ReadMegatronWideProducts(arguments_, decoders_);
    if (!wide.ok()) {
      if (status_.ok()) status_ = wide.status();
      return;
    }
    if (!TraitsOf(model_.precision()).quantisation.has_value()) return;
    for (int layer = 1; layer <= decoders_; ++layer) {
      const bool is_wide = !wide->empty() && (*wide)[static_cast<size_t>(layer) - 1];
      if (is_wide == model_.layer(layer).wide_products) continue;
      return Fault("first-last-layers-bf16",
                   absl::StrCat(is_wide ? "has" : "lacks", " layer ", layer, ", and the model's ",
                                is_wide ? "has no" : "has", " `wide_products`"));
    }
  }

  void CompareExperts() {
    const auto layer_count = static_cast<size_t>(decoders_);
    const std::string text = arguments_.Text("moe-layer-freq", "1");
    const std::optional<std::vector<bool>> pattern = ReadMegatronExpertLayers(text, layer_count);
    if (!pattern.has_value() || pattern->size() != layer_count) {
      return Fault("moe-layer-freq",
                   absl::StrCat("must be a number or lists of 0 and 1 for ", layer_count,
                                " layers, such as `([0]*3+[1]*5)`, and is `", text, "`"));
    }
    const bool has_experts = arguments_.Has("num-experts");
    for (size_t i = 0; i < layer_count; ++i) {
      const int layer = static_cast<int>(i) + 1;
      const LayerDefinition& definition = model_.layer(layer);
      if (definition.expert_count == 0) {
        if (has_experts && (*pattern)[i]) {
          return Fault("num-experts", absl::StrCat("gives layer ", layer,
                                                   " experts, and the "
                                                   "model's has none"));
        }
        continue;
      }
      if (!has_experts) return Fault("num-experts", "is missing, and the model has experts");
      if (!(*pattern)[i]) {
        return Fault("moe-layer-freq", absl::StrCat("gives layer ", layer,
                                                    " no experts, and the "
                                                    "model's has some"));
      }
      CompareCount("num-experts", definition.expert_count);
      CompareCount("moe-router-topk", definition.experts_per_token);
      CompareCount("moe-ffn-hidden-size", definition.expert_feed_forward_size);
      for (const auto& [name, size] :
           {std::pair{"moe-shared-expert-intermediate-size",
                      definition.shared_expert_feed_forward_size},
            std::pair{"moe-latent-size", definition.expert_latent_size}}) {
        if (arguments_.Count(name, 0) != size) Fault(name, absl::StrCat("must be ", size));
      }
    }
  }

  // Compares recipes of 8 and 4 bits.
  void ComparePrecision() {
    const absl::StatusOr<v1::Precision> precision = MegatronPrecisionOf(arguments_);
    if (!precision.ok()) {
      if (status_.ok()) status_ = precision.status();
      return;
    }
    if (*precision == PrecisionToProto(model_.precision())) return;
    const absl::string_view of_model = TraitsOf(model_.precision()).name;
    if (arguments_.Has("fp4-format") || arguments_.Has("fp8-format")) {
      Fault(arguments_.Has("fp4-format") ? "fp4-format" : "fp8-format",
            absl::StrCat("and its recipe give another precision than the model's, which is ",
                         of_model));
    } else {
      Fault("fp8-format", absl::StrCat("is absent, and the model has ", of_model));
    }
  }

  void CompareTraining() {
    // The precisions of 8 and 4 bits have bf16 beside them.
    CompareSwitch("bf16", TraitsOf(model_.precision()).storage == StorageFormat::kBf16);
    CompareSwitch("fp16", model_.precision() == Precision::kFp16);
    ComparePrecision();
    const char* const expected = model_.optimizer() == Optimizer::kSgd ? "sgd" : "adam";
    const std::string optimizer = arguments_.Text("optimizer", "adam");
    if (optimizer != expected) {
      Fault("optimizer", absl::StrCat("is `", optimizer, "`, and the model's is ", expected));
    }
  }

  const ArgumentList& arguments_;
  const ModelSpec& model_;
  // Layers that predict further tokens, and decoder layers without them.
  int predictions_ = 0;
  int decoders_ = 0;
  absl::Status status_;
};

}  // namespace

absl::Status CompareMegatronModel(const ArgumentList& arguments, const ModelSpec& model) {
  return ModelComparison(arguments, model).Compare();
}

}  // namespace parplan
