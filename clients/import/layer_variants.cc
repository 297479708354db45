#include "clients/import/layer_variants.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/import/attention_config.h"
#include "clients/import/compressed_attention.h"
#include "clients/import/layer_lists.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

bool IsMiMo(const FamilyTraits& traits) { return traits.model_type == "mimo_v2_flash"; }
bool IsGemma3n(const FamilyTraits& traits) { return traits.model_type == "gemma3n_text"; }
bool IsUnified(const FamilyTraits& traits) { return traits.model_type == "gemma4_unified_text"; }
bool IsGemma4(const FamilyTraits& traits) {
  return traits.model_type == "gemma4_text" || IsUnified(traits);
}

int GroupsOf(const TransformerRunFacts& run, const LayerParts& layer) {
  if (layer.key_value_head_count > 0) return layer.key_value_head_count;
  return run.key_value_head_count > 0 ? run.key_value_head_count : run.attention_head_count;
}

int HeadSizeOf(const TransformerRunFacts& run, const LayerParts& layer) {
  return layer.head_size > 0 ? layer.head_size : HeadSize(run);
}

// Checks the width of all heads of a layer together, each of `size`, which `field` gives.
void CheckWidth(const TransformerRunFacts& run, int size, const char* field, ConfigFields& fields) {
  if (int64_t{run.attention_head_count} * size <= kMaxImportCount) return;
  fields.Fail(field, absl::StrCat("times the number of heads must be at most ", kMaxImportCount));
}

// Checks the heads of a layer, whose sizes the fields `groups_field` and `size_field` give.
void CheckHeads(const TransformerRunFacts& run, const LayerParts& layer, const char* groups_field,
                const char* size_field, ConfigFields& fields) {
  if (run.attention_head_count % GroupsOf(run, layer) != 0) {
    fields.Fail(groups_field,
                absl::StrCat("must divide the number of heads ", run.attention_head_count));
  }
  CheckWidth(run, HeadSizeOf(run, layer), size_field, fields);
}

// Reads MiMo-V2: layers with windows have key-value heads of their own and sinks, and all layers
// have values of another width than queries and keys.
void ReadHeadsOfWindows(ConfigFields& fields, const TransformerRunFacts& run,
                        std::vector<LayerParts>& layers, std::vector<std::string>* notes) {
  const int heads = run.attention_head_count;
  const int groups = GroupsOf(run, {});
  const int value_size = fields.Optional({"v_head_dim"}, 128);
  const int window_groups = fields.Optional({"swa_num_key_value_heads"}, 2 * groups);
  const int window_size = fields.Optional({"swa_head_dim"}, HeadSize(run));
  const int window_value_size = fields.Optional({"swa_v_head_dim"}, value_size);
  if (fields.Optional({"swa_num_attention_heads"}, heads) != heads) {
    fields.Fail("swa_num_attention_heads", absl::StrCat("must be num_attention_heads, ", heads));
  }
  const bool has_sinks = fields.Flag({"add_full_attention_sink_bias"}, false);
  const bool windows_have_sinks = fields.Flag({"add_swa_attention_sink_bias"}, true);
  // A factor of the values.
  fields.MarkRead("attention_value_scale");
  for (const auto& [field, size] :
       {std::pair("v_head_dim", value_size), std::pair("swa_v_head_dim", window_value_size)}) {
    CheckWidth(run, size, field, fields);
  }
  for (LayerParts& layer : layers) {
    const bool has_window = layer.attention_window > 0;
    layer.key_value_head_count = has_window ? window_groups : groups;
    layer.head_size = has_window ? window_size : HeadSize(run);
    CheckHeads(run, layer, "swa_num_key_value_heads", "swa_head_dim", fields);
  }
  // The products below need not fit 64 bits after an error.
  if (!fields.status().ok()) return;
  for (LayerParts& layer : layers) {
    const bool has_window = layer.attention_window > 0;
    const int64_t narrower = layer.head_size - (has_window ? window_value_size : value_size);
    layer.extra_parameter_count =
        (has_window ? windows_have_sinks : has_sinks) ? int64_t{heads} : int64_t{0};
    layer.extra_parameter_count -=
        narrower * run.hidden_size * (int64_t{heads} + layer.key_value_head_count);
  }
  if (value_size == HeadSize(run) && window_value_size == window_size) return;
  notes->push_back(absl::StrCat("v_head_dim ", value_size,
                                ": the layers have the parameters of such values, and attention "
                                "is priced with values as wide as the keys, ",
                                HeadSize(run)));
}

// Reads Gemma 4: layers without a window have wider heads, fewer key-value heads, and may take
// their keys for values. Returns whether they do so.
bool ReadGlobalHeads(ConfigFields& fields, const TransformerRunFacts& run,
                     std::vector<LayerParts>& layers, std::vector<std::string>* notes) {
  const int groups = GroupsOf(run, {});
  const int global_size = fields.Optional({"global_head_dim"}, 512);
  const bool keys_are_values = fields.Flag({"attention_k_eq_v"}, false);
  const int given_groups = fields.Optional({"num_global_key_value_heads"}, groups);
  // The class makes it so.
  if (!layers.empty()) layers.back().attention_window = 0;
  for (LayerParts& layer : layers) {
    const bool has_window = layer.attention_window > 0;
    layer.key_value_head_count = !has_window && keys_are_values ? given_groups : groups;
    layer.head_size = has_window ? HeadSize(run) : global_size;
  }
  ReadSizesByPlace(fields, layers);
  for (LayerParts& layer : layers) {
    if (layer.attention_head_count > 0 && layer.attention_head_count != run.attention_head_count) {
      fields.Fail("per_layer_config", "must leave num_attention_heads to the model");
    }
    layer.attention_head_count = 0;
    CheckHeads(run, layer, "num_global_key_value_heads", "global_head_dim", fields);
  }
  // The products below need not fit 64 bits after an error.
  if (!fields.status().ok()) return keys_are_values;
  for (LayerParts& layer : layers) {
    // Norms of queries and keys.
    layer.extra_parameter_count += 2 * (int64_t{layer.head_size} - HeadSize(run));
    if (!keys_are_values || layer.attention_window > 0) continue;
    layer.extra_parameter_count -=
        int64_t{run.hidden_size} * layer.key_value_head_count * layer.head_size;
  }
  if (keys_are_values) {
    notes->push_back(
        "attention_k_eq_v: layers without a window lack the parameters of the product to values; "
        "its time is priced");
  }
  return keys_are_values;
}

// Takes the products to keys and values out of the last layers, which read those of earlier ones.
// Returns the values of a token that are passed on for it.
int64_t ShareKeys(const FamilyTraits& traits, bool keys_are_values, ConfigFields& fields,
                  const TransformerRunFacts& run, std::vector<LayerParts>& layers) {
  const int count = fields.Count({"num_kv_shared_layers"}, IsGemma3n(traits) ? 15 : 0);
  const int layer_count = static_cast<int>(layers.size());
  const bool are_wide = fields.Flag({"use_double_wide_mlp"}, false) && count > 0;
  if (count >= layer_count) {
    fields.Fail("num_kv_shared_layers",
                absl::StrCat("must be below the ", layer_count, " layers of the model"));
    return 0;
  }
  // The keys and values of either kind come from its last layer that has its own.
  for (const bool has_window : {false, true}) {
    const auto is_of_kind = [has_window](const LayerParts& layer) {
      return (layer.attention_window > 0) == has_window;
    };
    const auto first_shared = layers.end() - count;
    if (std::any_of(first_shared, layers.end(), is_of_kind) &&
        std::none_of(layers.begin(), first_shared, is_of_kind)) {
      fields.Fail("num_kv_shared_layers",
                  absl::StrCat(count, " leaves no layer ", has_window ? "with" : "without",
                               " a window that has keys and values of its own"));
      return 0;
    }
  }
  const int width = are_wide ? fields.Size({"intermediate_size"}) : 0;
  // The last layers of either kind that have keys and values of their own.
  int64_t of_window = 0;
  int64_t of_all = 0;
  for (int i = 0; i < layer_count; ++i) {
    LayerParts& layer = layers[i];
    const int64_t size = HeadSizeOf(run, layer);
    const int64_t key_width = size * GroupsOf(run, layer);
    if (are_wide) layer.feed_forward_size = width;
    if (i < layer_count - count) {
      (layer.attention_window > 0 ? of_window : of_all) = 2 * key_width;
      continue;
    }
    layer.shares_keys = true;
    if (are_wide) layer.feed_forward_size = CappedProduct(2, width);
    const bool has_values = !keys_are_values || layer.attention_window > 0;
    layer.extra_parameter_count -=
        (has_values ? int64_t{2} : int64_t{1}) * run.hidden_size * key_width + size;
  }
  return count > 0 ? of_window + of_all : 0;
}

// Reads what Gemma 3n and Gemma 4 pass from layer to layer beside the output: vectors of each token
// for each layer, further streams, and keys and values of earlier layers. Layers that do so are
// opaque, since the next stage receives more than their output.
void ReadPassedValues(const FamilyTraits& traits, bool keys_are_values, ConfigFields& fields,
                      const TransformerRunFacts& run, std::vector<LayerParts>& layers,
                      ModelFacts& facts, std::vector<std::string>* notes) {
  const int64_t hidden = run.hidden_size;
  const int64_t layer_count = static_cast<int64_t>(layers.size());
  const int64_t keys = ShareKeys(traits, keys_are_values, fields, run, layers);
  const int64_t width = fields.Count({"hidden_size_per_layer_input"}, IsUnified(traits) ? 0 : 256);
  const int64_t words = fields.Optional({"vocab_size_per_layer_input"}, 262144);
  const int64_t streams = IsGemma3n(traits) ? fields.Optional({"altup_num_inputs"}, 4) : 1;
  const int64_t rank = IsGemma3n(traits) ? fields.Optional({"laurel_rank"}, 64) : 0;
  for (const char* key : {"altup_active_idx", "altup_coef_clip", "altup_correct_scale",
                          "altup_lr_multiplier", "activation_sparsity_pattern"}) {
    fields.MarkRead(key);
  }
  constexpr int64_t kMostStreams = 64;
  if (streams > kMostStreams) {
    fields.Fail("altup_num_inputs", absl::StrCat("must be at most ", kMostStreams));
  }
  if (width > hidden) fields.Fail("hidden_size_per_layer_input", "must be at most hidden_size");
  if (!fields.status().ok() || (width == 0 && keys == 0 && streams == 1)) return;
  int64_t extra = 0;
  if (width > 0) {
    // Into and out of the narrow vector, with a norm.
    extra += 2 * hidden * width + hidden;
    // One table for all layers, and a product of the embedding with a norm.
    facts.embedding_extra_parameter_count += (words + hidden) * layer_count * width + width;
  }
  if (IsGemma3n(traits)) {
    // AltUp: a scale, a norm, the router, and coefficients that predict and correct the streams.
    // LAuReL: two products and a norm.
    extra += 2 * hidden + hidden * streams + streams * streams * (streams + 1) + 2 * hidden * rank +
             hidden;
    facts.embedding_extra_parameter_count += (streams - 1) * hidden * hidden;
    facts.head_extra_parameter_count += (streams - 1) * hidden * hidden;
  }
  const int64_t passed = streams * hidden + width * layer_count + keys;
  for (LayerParts& layer : layers) {
    layer.extra_parameter_count += extra;
    layer.passed_values = passed;
  }
  notes->push_back(absl::StrCat(
      "layers pass ", passed, " values of a token on: ", streams, " times the width",
      width > 0 ? ", vectors for later layers (hidden_size_per_layer_input)" : "",
      keys > 0 ? ", keys and values for later layers (num_kv_shared_layers)" : "",
      ". They are opaque, without tensor parallelism, and are planned with measured times only; "
      "their parameters follow from the fields, and they keep what they receive, attention and the "
      "feed-forward part"));
}

}  // namespace

void ReadLayerVariants(const FamilyTraits& traits, ConfigFields& fields,
                       const TransformerRunFacts& run, std::vector<LayerParts>& layers,
                       ModelFacts& facts, std::vector<std::string>* notes) {
  if (HasCompressedAttention(traits)) ReadCompressedAttention(fields, run, layers, facts, notes);
  if (traits.model_type == "hy_v4") ReadIndependentStreams(fields, run, layers, facts, notes);
  if (IsMiMo(traits)) ReadHeadsOfWindows(fields, run, layers, notes);
  if (!IsGemma3n(traits) && !IsGemma4(traits)) return;
  const bool keys_are_values = IsGemma4(traits) && ReadGlobalHeads(fields, run, layers, notes);
  if (!fields.status().ok()) return;
  ReadPassedValues(traits, keys_are_values, fields, run, layers, facts, notes);
}

}  // namespace parplan
