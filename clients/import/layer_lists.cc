#include "clients/import/layer_lists.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "clients/import/attention_config.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

constexpr char kSparseAttention[] = "sparse_attention_config";
constexpr char kQueryHeads[] = "num_query_heads";

// Checks the heads of a layer, whose number the field `heads_field` gives.
void CheckListedHeads(const TransformerRunFacts& run, const LayerParts& layer,
                      const char* heads_field, ConfigFields& fields) {
  const int heads =
      layer.attention_head_count > 0 ? layer.attention_head_count : run.attention_head_count;
  const int groups =
      layer.key_value_head_count > 0 ? layer.key_value_head_count : run.key_value_head_count;
  if (groups > 0 && heads % groups != 0) {
    fields.Fail(heads_field, absl::StrCat("must be multiples of the key-value heads, ", groups));
  }
  const int size = layer.head_size > 0 ? layer.head_size : HeadSize(run);
  if (int64_t{heads} * size > kMaxImportCount) {
    fields.Fail(heads_field,
                absl::StrCat("times the size of a head must be at most ", kMaxImportCount));
  }
}

// Returns the width that is nearest to `wide` among the multiples of `divisor`, at least
// `divisor` and nine tenths of `wide` (`make_divisible` of OpenELM's code).
int NearestMultiple(double wide, int divisor) {
  double width = std::floor((wide + divisor / 2.0) / divisor) * divisor;
  width = std::max<double>(width, divisor);
  if (width < 0.9 * wide) width += divisor;
  return static_cast<int>(std::min<double>(width, kMaxImportCount));
}

// Reads OpenELM's lists of heads and widths.
void ReadListsOfSizes(ConfigFields& fields, const TransformerRunFacts& run,
                      std::vector<LayerParts>& layers) {
  const std::vector<int> heads = fields.List(kQueryHeads, 1);
  const std::vector<int> groups = fields.List("num_kv_heads", 1);
  const int divisor = fields.Optional({"ffn_dim_divisor"}, 256);
  const nlohmann::json* const multipliers = fields.Array("ffn_multipliers");
  if (multipliers == nullptr) {
    fields.Fail("ffn_multipliers", "is required beside num_query_heads, with a number a layer");
    return;
  }
  // The lists follow from these; what an activation and a norm are called.
  for (const char* key : {"num_gqa_groups", "qkv_multipliers", "activation_fn_name",
                          "rope_freq_constant", "rope_max_length"}) {
    fields.MarkRead(key);
  }
  const std::string norm = fields.Text("normalization_layer_name");
  if (!norm.empty() && norm != "rms_norm") {
    fields.Fail("normalization_layer_name", "must be `rms_norm`");
  }
  for (const auto& [key, size] :
       {std::pair<const char*, size_t>(kQueryHeads, heads.size()),
        std::pair<const char*, size_t>("num_kv_heads", groups.size()),
        std::pair<const char*, size_t>("ffn_multipliers", multipliers->size())}) {
    if (size == layers.size()) continue;
    fields.Fail(key, absl::StrCat("must have an entry for each of the ", layers.size(),
                                  " layers of the model"));
    return;
  }
  for (size_t i = 0; i < layers.size() && fields.status().ok(); ++i) {
    const nlohmann::json& times = (*multipliers)[i];
    if (!times.is_number() || !(times.get<double>() > 0) || times.get<double>() > kMaxImportCount) {
      fields.Fail(absl::StrCat("ffn_multipliers[", i, "]"), "must be a number above 0");
      return;
    }
    layers[i].attention_head_count = heads[i];
    layers[i].key_value_head_count = groups[i];
    layers[i].feed_forward_size = NearestMultiple(times.get<double>() * run.hidden_size, divisor);
    CheckListedHeads(run, layers[i], kQueryHeads, fields);
  }
}

// Reads the heads of the layers with windows.
void ReadOtherHeadsOfWindows(ConfigFields& fields, const TransformerRunFacts& run,
                             std::vector<LayerParts>& layers) {
  const char* const flat = "num_sliding_attention_heads";
  const char* const nested = "attention_other_setting";
  LayerParts sizes;
  sizes.attention_head_count = fields.Optional({flat}, 0);
  if (const nlohmann::json* const other = fields.Object(nested)) {
    ConfigFields inner(*other, fields.file_name(), absl::StrCat(nested, "."));
    const std::string type = inner.Text("attention_type");
    if (type != "sliding_attention") {
      inner.Fail("attention_type", "must be `sliding_attention`");
    }
    sizes.attention_head_count =
        inner.Optional({"num_attention_heads"}, sizes.attention_head_count);
    sizes.key_value_head_count = inner.Optional({"num_attention_groups", "num_key_value_heads"}, 0);
    sizes.head_size = inner.Optional({"head_dim"}, 0);
    inner.MarkRead("true_head_dim");
    inner.RefuseAllUnknown();
    fields.Take(inner);
  }
  for (LayerParts& layer : layers) {
    if (layer.attention_window == 0) continue;
    if (sizes.attention_head_count > 0) layer.attention_head_count = sizes.attention_head_count;
    if (sizes.key_value_head_count > 0) layer.key_value_head_count = sizes.key_value_head_count;
    if (sizes.head_size > 0 && sizes.head_size != HeadSize(run)) layer.head_size = sizes.head_size;
    if (layer.attention_head_count == 0) continue;
    CheckListedHeads(run, layer, fields.Has(nested) ? nested : flat, fields);
  }
}

// Returns whether Laguna's gates are one number of each head; other gates are as wide as the heads.
bool HasLagunasHeadGates(ConfigFields& fields) {
  if (!fields.IsText("gating")) {
    if (!fields.Flag({"gating"}, true)) fields.Fail("gating", "must be true or a text");
    return true;
  }
  const std::string form = fields.Text("gating");
  if (form == "per-head") return true;
  if (form != "per-element") fields.Fail("gating", "must be `per-head` or `per-element`");
  return false;
}

// Reads the heads of each layer.
void ReadListOfHeads(ConfigFields& fields, const TransformerRunFacts& run,
                     std::vector<LayerParts>& layers) {
  constexpr char kList[] = "num_attention_heads_per_layer";
  const std::vector<int> heads = fields.List(kList, 1);
  if (heads.empty()) return;
  if (heads.size() != layers.size()) {
    fields.Fail(kList, absl::StrCat("must have an entry for each of the ", layers.size(),
                                    " layers of the model"));
    return;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (heads[i] == run.attention_head_count) continue;
    layers[i].attention_head_count = heads[i];
    CheckListedHeads(run, layers[i], kList, fields);
    // Their gates count for as many heads as the model has (extra_parameters.h).
    if (fields.IsText("gating") && fields.Text("gating") == "per-element") {
      fields.Fail(kList, "must be num_attention_heads in each layer beside gates per element");
    }
  }
}

// Takes what chooses tokens out of the layers that read those that an earlier one has chosen.
void ShareIndexers(const FamilyTraits& traits, ConfigFields& fields, const TransformerRunFacts& run,
                   std::vector<LayerParts>& layers) {
  std::vector<std::string> types = fields.Texts("indexer_types");
  // Hunyuan 4's class shares them by fours behind the first layer.
  if (types.empty() && traits.model_type == "hy_v4") {
    for (size_t i = 0; i < layers.size(); ++i) {
      types.emplace_back(i == 0 || (i - 1) % 4 == 0 ? "full" : "shared");
    }
  }
  if (types.empty() || !fields.Has("index_n_heads")) return;
  if (types.size() != layers.size()) {
    fields.Fail("indexer_types", absl::StrCat("must have an entry for each of the ", layers.size(),
                                              " layers of the model"));
    return;
  }
  std::vector<std::string> notes;
  const int64_t count = ReadIndexer(traits, fields, run, &notes);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (types[i] != "full" && types[i] != "shared") {
      fields.Fail(absl::StrCat("indexer_types[", i, "]"), "must be `full` or `shared`");
      return;
    }
    layers[i].shares_indexer = types[i] == "shared";
    if (layers[i].shares_indexer) layers[i].extra_parameter_count -= count;
  }
  if (layers.front().shares_indexer) {
    fields.Fail("indexer_types[0]", "must be `full`: there is no layer before it");
  }
}

// Counts a gate of each head, a product of the layer's input.
void CountHeadGates(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, std::vector<LayerParts>& layers,
                    std::vector<std::string>* notes) {
  // The class of Step-3.5 has the gate whatever a file says; Laguna's says its form.
  bool has_gate = fields.Flag({"use_head_wise_attn_gate"}, traits.model_type == "step3p5");
  if (traits.model_type == "lfm3") has_gate = fields.Flag({"use_attention_gate"}, true);
  if (traits.model_type == "laguna") has_gate = HasLagunasHeadGates(fields);
  if (!has_gate) return;
  for (LayerParts& layer : layers) {
    const int heads =
        layer.attention_head_count > 0 ? layer.attention_head_count : run.attention_head_count;
    if (layer.mixer != LayerMixer::kAttention) continue;
    layer.extra_parameter_count += int64_t{run.hidden_size} * heads;
  }
  notes->push_back(
      "the gate of each head of attention counts as parameters of its layers; its time is not "
      "priced");
}

// Counts what chooses the blocks of tokens that attention reads: queries, one key, and a norm of
// each.
void CountBlockIndexers(ConfigFields& fields, const TransformerRunFacts& run,
                        std::vector<LayerParts>& layers, std::vector<std::string>* notes) {
  int heads = 0;
  int size = 0;
  if (const nlohmann::json* const nested = fields.Object(kSparseAttention)) {
    ConfigFields inner(*nested, fields.file_name(), absl::StrCat(kSparseAttention, "."));
    heads = inner.Optional({"sparse_num_index_heads"}, 0);
    size = inner.Optional({"sparse_index_dim"}, 0);
    for (const char* key : {"use_sparse_attention", "sparse_block_size", "sparse_topk_blocks",
                            "sparse_init_block", "sparse_local_block", "sparse_score_type",
                            "sparse_attention_freq", "sparse_disable_index_value"}) {
      inner.MarkRead(key);
    }
    inner.RefuseAllUnknown();
    fields.Take(inner);
  }
  if (fields.Has("index_topk_blocks")) {
    for (const char* key : {"index_topk_blocks", "index_block_size", "index_local_blocks"}) {
      fields.MarkRead(key);
    }
    if (heads == 0) heads = fields.Optional({"index_n_heads"}, 0);
    if (size == 0) size = fields.Optional({"index_head_dim"}, 0);
    fields.MarkRead("index_n_heads");
    fields.MarkRead("index_head_dim");
  }
  const bool is_used = std::any_of(layers.begin(), layers.end(),
                                   [](const LayerParts& layer) { return layer.has_indexer; });
  if (!is_used) return;
  if (heads == 0 || size == 0) {
    fields.Fail(heads == 0 ? "index_n_heads" : "index_head_dim",
                "is required by the layers of sparse attention");
    return;
  }
  const int64_t count =
      int64_t{run.hidden_size} * (int64_t{CappedProduct(heads, size)} + size) + 2 * int64_t{size};
  for (LayerParts& layer : layers) {
    if (layer.has_indexer) layer.extra_parameter_count += count;
  }
  notes->push_back(
      "sparse attention is priced over all tokens, and what chooses blocks of them counts as "
      "parameters alone");
}

}  // namespace

int ListedPredictionCount(ConfigFields& fields, int layer_count) {
  const int count =
      fields.Count({"num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers"}, 0);
  if (count == 0) return 0;
  const size_t listed = fields.Texts("layer_types").size();
  const size_t further = fields.Texts("mtp_layer_types").size();
  if (listed == 0) return 0;
  if (further > 0 && further != static_cast<size_t>(count)) {
    fields.Fail("mtp_layer_types", absl::StrCat("must have an entry for each of the ", count,
                                                " layers that predict further tokens"));
    return 0;
  }
  const bool has_all = listed + further == static_cast<size_t>(layer_count) + count;
  return has_all ? count : 0;
}

std::vector<std::string> TextsOfLayers(const char* key, const char* further_key, int layer_count,
                                       ConfigFields& fields) {
  std::vector<std::string> texts = fields.Texts(key);
  const std::vector<std::string> further = fields.Texts(further_key);
  if (!texts.empty() && static_cast<int>(texts.size()) < layer_count) {
    texts.insert(texts.end(), further.begin(), further.end());
  }
  return texts;
}

std::vector<std::string> NamesBySparseAttention(ConfigFields& fields, int layer_count,
                                                const char** field) {
  std::vector<std::string> names;
  const nlohmann::json* const nested = fields.Object(kSparseAttention);
  if (nested == nullptr) return names;
  ConfigFields inner(*nested, fields.file_name(), absl::StrCat(kSparseAttention, "."));
  const std::vector<int> marks = inner.List("sparse_attention_freq", 0);
  const std::vector<int> without_values = inner.List("sparse_disable_index_value", 0);
  if (inner.Flag({"use_sparse_attention"}, true)) {
    for (size_t i = 0; i < marks.size(); ++i) {
      if (marks[i] != 0 && i < without_values.size() && without_values[i] == 0) {
        inner.Fail("sparse_disable_index_value",
                   "must be 1 where attention is sparse: values of what chooses tokens have no "
                   "run here");
      }
      names.emplace_back(marks[i] == 0 ? "full_attention" : "minimax_m3_sparse");
    }
  }
  if (!names.empty()) *field = kSparseAttention;
  if (!names.empty() && static_cast<int>(names.size()) != layer_count) {
    inner.Fail("sparse_attention_freq", absl::StrCat("must have an entry for each of the ",
                                                     layer_count, " layers of the model"));
  }
  fields.Take(inner);
  return names;
}

void ReadSizesByPlace(ConfigFields& fields, std::vector<LayerParts>& layers) {
  const nlohmann::json* const listed = fields.Object("per_layer_config");
  if (listed == nullptr) return;
  for (const auto& [key, value] : listed->items()) {
    const std::string path = absl::StrCat("per_layer_config.", key);
    int place = 0;
    if (!absl::SimpleAtoi(key, &place) || place < 0 ||
        static_cast<size_t>(place) >= layers.size() || !value.is_object()) {
      fields.Fail(path,
                  absl::StrCat("must be an object, and its name a layer below ", layers.size()));
      return;
    }
    LayerParts& layer = layers[place];
    ConfigFields inner(value, fields.file_name(), path + ".");
    layer.head_size = inner.Optional({"head_dim"}, layer.head_size);
    layer.attention_head_count =
        inner.Optional({"num_attention_heads"}, layer.attention_head_count);
    layer.key_value_head_count =
        inner.Optional({"num_key_value_heads"}, layer.key_value_head_count);
    inner.RefuseAllUnknown();
    fields.Take(inner);
  }
}

void ReadLayerLists(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, std::vector<LayerParts>& layers,
                    std::vector<std::string>* notes) {
  // Step's other forms of attention.
  const std::string form = fields.Text("att_impl_type");
  if (!form.empty() && form != "GQA") fields.Fail("att_impl_type", "must be `GQA`");
  fields.Refuse("sink", "is of attention sinks, which no field here says the number of");
  if (fields.IsList(kQueryHeads)) ReadListsOfSizes(fields, run, layers);
  ReadOtherHeadsOfWindows(fields, run, layers);
  // Gemma 4 reads them behind its own (layer_variants.h).
  if (!absl::StartsWith(traits.model_type, "gemma4")) {
    ReadSizesByPlace(fields, layers);
    for (const LayerParts& layer : layers) {
      CheckListedHeads(run, layer, "per_layer_config", fields);
    }
  }
  ReadListOfHeads(fields, run, layers);
  if (!fields.status().ok()) return;
  ShareIndexers(traits, fields, run, layers);
  CountHeadGates(traits, fields, run, layers, notes);
  CountBlockIndexers(fields, run, layers, notes);
}

}  // namespace parplan
