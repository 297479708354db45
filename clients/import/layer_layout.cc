#include "clients/import/layer_layout.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "clients/import/block_config.h"
#include "clients/import/family_layers.h"
#include "clients/import/layer_lists.h"
#include "clients/import/state_space_config.h"

namespace parplan {
namespace {

// How a name of a kind of layer is read.
struct NamedLayer {
  const char* name;
  LayerMixer mixer = LayerMixer::kAttention;
  bool has_window = false;
  bool has_chunks = false;
  bool has_indexer = false;
  // The layer has this part alone.
  bool is_alone = false;
  KeyCompression compression = KeyCompression::kNone;
};

constexpr NamedLayer kNamedLayers[] = {
    {.name = "full_attention"},
    {.name = "attention"},
    {.name = "global"},
    {.name = "local", .has_window = true},
    // The tokens that it reads are chosen by an indexer (attention_config.h).
    {.name = "indexed_attention"},
    {.name = "minimax_m3_sparse", .has_indexer = true},
    {.name = "sliding_attention", .has_window = true},
    {.name = "chunked_attention", .has_chunks = true},
    {.name = "compressed_sparse_attention",
     .has_window = true,
     .compression = KeyCompression::kSparse},
    {.name = "heavily_compressed_attention",
     .has_window = true,
     .compression = KeyCompression::kHeavy},
    {.name = "conv", .mixer = LayerMixer::kConvolution},
    {.name = "recurrent", .mixer = LayerMixer::kRecurrence},
    {.name = "mamba", .mixer = LayerMixer::kStateSpace},
    {.name = "linear_attention", .mixer = LayerMixer::kStateSpace},
    {.name = "mlp", .mixer = LayerMixer::kNone, .is_alone = true},
    {.name = "moe", .mixer = LayerMixer::kNone, .is_alone = true},
};

constexpr std::pair<char, const char*> kLetters[] = {
    {'M', "mamba"}, {'*', "attention"}, {'-', "mlp"}, {'E', "moe"}};

bool HasStateSpaceSizes(const ConfigFields& fields) {
  return fields.Has("mamba_d_state") || fields.Has("ssm_state_size");
}

// Windows of all layers that have one.
struct Windows {
  int window = 0;
  int chunk_size = 0;
};

void SetWindow(const Windows& windows, LayerParts& layer) {
  layer.attention_window = windows.window;
  layer.attention_chunk_size = windows.window > 0 ? 0 : windows.chunk_size;
}

constexpr absl::string_view kPatternField = "hybrid_override_pattern";

// Reads a list with a name for each layer.
std::vector<LayerParts> ReadNames(const FamilyTraits& traits, const std::vector<std::string>& names,
                                  absl::string_view field, const Windows& windows,
                                  const GivenOpaqueLayers& opaque, ConfigFields& fields) {
  std::vector<LayerParts> layers(names.size());
  // A letter of a pattern stands for one part; a name may stand for a layer with two.
  const bool all_alone = field == kPatternField ||
                         std::any_of(names.begin(), names.end(), [](const std::string& name) {
                           return name == "mlp" || name == "moe";
                         });
  for (size_t i = 0; i < names.size(); ++i) {
    LayerParts& layer = layers[i];
    if (opaque.contains(names[i])) {
      layer = {.mixer = LayerMixer::kOpaque, .has_feed_forward = false, .opaque_kind = names[i]};
      continue;
    }
    const auto* const known =
        std::find_if(std::begin(kNamedLayers), std::end(kNamedLayers),
                     [&](const NamedLayer& entry) { return names[i] == entry.name; });
    // Linear attention has several forms; sizes show those that are known, of which newer files
    // call Mamba's so.
    const bool is_other_form = names[i] == "linear_attention" &&
                               !fields.Has("linear_num_value_heads") && !HasChannelDecays(fields) &&
                               !HasFixedDecays(traits, fields) && !HasStateSpaceSizes(fields);
    const bool is_other_convolution = names[i] == "conv" && !fields.Has("conv_L_cache");
    if (known == std::end(kNamedLayers) || is_other_form || is_other_convolution) {
      fields.Fail(absl::StrCat(field, "[", i, "]"),
                  absl::StrCat("`", names[i],
                               "` is a kind of layer that is not known; give its sizes with "
                               "--opaque to plan with measured times"));
      return layers;
    }
    layer.mixer = known->mixer;
    layer.has_feed_forward = known->is_alone || !all_alone;
    layer.has_experts = names[i] == "moe";
    layer.has_indexer = known->has_indexer;
    layer.compression = known->compression;
    if (known->has_window && windows.window == 0) {
      fields.Fail(fields.Has("attention_layers") ? "window_size" : "sliding_window",
                  absl::StrCat("is required by ", field, "[", i, "]"));
    }
    if (known->has_chunks && windows.chunk_size == 0) {
      fields.Fail("attention_chunk_size", absl::StrCat("is required by ", field, "[", i, "]"));
    }
    if (known->has_window) layer.attention_window = windows.window;
    if (known->has_chunks) layer.attention_chunk_size = windows.chunk_size;
  }
  return layers;
}

// Returns the names of the layers of Kimi Linear, whose lists have the places, from 1, of the
// layers of either kind; empty without these lists.
std::vector<std::string> NamesByListsOfPlaces(ConfigFields& fields, int layer_count,
                                              const char** field) {
  std::vector<std::string> names;
  const nlohmann::json* const nested = fields.Object("linear_attn_config");
  if (nested == nullptr) return names;
  *field = "linear_attn_config";
  ConfigFields inner(*nested, fields.file_name(), "linear_attn_config.");
  names.resize(layer_count);
  const std::pair<const char*, const char*> lists[] = {{"full_attn_layers", "full_attention"},
                                                       {"kda_layers", "linear_attention"}};
  for (const auto& [key, name] : lists) {
    for (const int place : inner.List(key, 1)) {
      if (place > layer_count || !names[place - 1].empty()) {
        inner.Fail(key, absl::StrCat("must have each of the ", layer_count,
                                     " layers at most once, and in one of the lists"));
        break;
      }
      names[place - 1] = name;
    }
  }
  if (std::find(names.begin(), names.end(), "") != names.end()) {
    inner.Fail("kda_layers", "must have each layer that full_attn_layers lacks");
  }
  fields.Take(inner);
  return names;
}

// Appends the names that a list of 0 and 1 stands for.
void AppendNamesByNumbers(const char* key, std::pair<const char*, const char*> meanings,
                          ConfigFields& fields, std::vector<std::string>& names,
                          const char** field) {
  for (const int number : fields.List(key, 0)) {
    if (number > 1) fields.Fail(key, "must be 0 or 1 for each layer");
    names.emplace_back(number == 0 ? meanings.first : meanings.second);
    *field = key;
  }
}

// Returns the names of the layers that Kimi Linear says by their places, MiniMax and MiMo by
// numbers, RecurrentGemma by names that repeat, or EXAONE by letters that do; empty if none of them
// is there.
//
// Letters mean nothing without a window, and the last layer reads all tokens whatever its letter
// (`sliding_window_pattern` of Exaone4Config in transformers 5.0).
std::vector<std::string> NamesByNumbersOrPattern(const Windows& windows, ConfigFields& fields,
                                                 int layer_count, const char** field) {
  std::vector<std::string> names = NamesByListsOfPlaces(fields, layer_count, field);
  AppendNamesByNumbers("attn_type_list", {"linear_attention", "full_attention"}, fields, names,
                       field);
  AppendNamesByNumbers("hybrid_layer_pattern", {"full_attention", "sliding_attention"}, fields,
                       names, field);
  // RecurrentGemma's list repeats.
  const std::vector<std::string> repeated = fields.Texts("block_types");
  for (int i = 0; i < layer_count && !repeated.empty(); ++i) {
    names.push_back(repeated[i % repeated.size()]);
    *field = "block_types";
  }
  // LFM2's first files.
  if (names.empty() && fields.Has("conv_L_cache")) {
    const std::vector<int> places = fields.List("full_attn_idxs", 0);
    if (!places.empty()) names.assign(layer_count, "conv");
    for (const int place : places) {
      *field = "full_attn_idxs";
      if (place < layer_count) {
        names[place] = "full_attention";
      } else {
        fields.Fail(*field, absl::StrCat("must name layers below ", layer_count));
      }
    }
  }
  if (!names.empty() || !fields.IsText("sliding_window_pattern")) return names;
  *field = "sliding_window_pattern";
  const std::string letters = fields.Text(*field);
  for (int i = 0; i < layer_count && !letters.empty(); ++i) {
    const char letter = letters[i % letters.size()];
    if (letter != 'L' && letter != 'G') {
      fields.Fail(*field, "must be a whole number, or letters: L for a window, G for none");
    }
    const bool has_window = letter == 'L' && windows.window > 0 && i + 1 < layer_count;
    names.push_back(has_window ? "sliding_attention" : "full_attention");
  }
  return names;
}

// Returns the names of the layers, one each, and the field that gives them; empty if none does.
std::vector<std::string> NamesOfLayers(const FamilyTraits& traits, const Windows& windows,
                                       ConfigFields& fields, int layer_count, const char** field) {
  std::vector<std::string> names;
  *field = "layer_types";
  for (const char* key : {"layer_types", "layers_block_type", "attention_layers"}) {
    std::vector<std::string> listed = TextsOfLayers(key, "mtp_layer_types", layer_count, fields);
    if (listed.empty() || !names.empty()) continue;
    names = std::move(listed);
    *field = key;
  }
  if (names.empty()) names = NamesBySparseAttention(fields, layer_count, field);
  if (names.empty()) names = NamesByNumbersOrPattern(windows, fields, layer_count, field);
  if (const std::string pattern = fields.Text("hybrid_override_pattern"); !pattern.empty()) {
    *field = "hybrid_override_pattern";
    names.clear();
    for (const char letter : pattern) {
      const auto* const known =
          std::find_if(std::begin(kLetters), std::end(kLetters),
                       [letter](const auto& entry) { return entry.first == letter; });
      names.push_back(known != std::end(kLetters) ? known->second : std::string(1, letter));
    }
  }
  if (names.empty()) names = LayersOfFamily(traits, fields, layer_count);
  if (!names.empty() && static_cast<int>(names.size()) != layer_count) {
    fields.Fail(*field, absl::StrCat("must have an entry for each of the ", layer_count,
                                     " layers of the model"));
  }
  return names;
}

Windows ReadWindowSizes(const FamilyTraits& traits, ConfigFields& fields) {
  Windows windows;
  windows.window = ReadWindow(traits, fields);
  // GPT-Neo's name, which stands for other sizes elsewhere.
  if (fields.Has("attention_layers")) {
    windows.window = fields.Count({"window_size"}, windows.window);
  }
  // ModernBERT's: as many tokens before as behind.
  const int both_sides = fields.Count({"local_attention"}, 0);
  if (both_sides > 0) windows.window = both_sides / 2 + (traits.is_encoder ? 1 : 0);
  // Gemma 3's, if it is an encoder, likewise.
  if (ReadsBothWays(fields) && windows.window > 0) windows.window = windows.window / 2 + 1;
  windows.chunk_size = fields.Count({"attention_chunk_size"}, 0);
  if (!fields.Flag({"use_sliding_window"}, traits.uses_given_window)) windows.window = 0;
  return windows;
}

int PeriodOf(WindowedLayers layers) {
  switch (layers) {
    case WindowedLayers::kAll:
      break;
    case WindowedLayers::kAlternate:
      return 2;
    case WindowedLayers::kAllButEveryFourth:
      return 4;
    case WindowedLayers::kAllButEveryFifth:
      return 5;
    case WindowedLayers::kAllButEverySixth:
      return 6;
  }
  return 0;
}

// Sets windows by rule where no list gives them.
void SetWindowsByRule(const FamilyTraits& traits, const Windows& windows, ConfigFields& fields,
                      std::vector<LayerParts>& layers) {
  const int layer_count = static_cast<int>(layers.size());
  const int whole_below = fields.Count({"max_window_layers"}, 0);
  const std::string order = fields.Text("order_of_interleaved_layers");
  if (!order.empty() && order != "local_attn_first") {
    fields.Fail("order_of_interleaved_layers", "must be `local_attn_first`");
  }
  // Every n-th layer reads all tokens; ModernBERT counts from the first layer.
  int period = fields.Optional({"sliding_window_pattern", "_sliding_window_pattern", "layer_switch",
                                "global_attn_every_n_layers"},
                               0);
  const bool counts_from_first = fields.Has("local_attention");
  // Layers with rotary positions (1) read their chunk, those without (0) all tokens.
  std::vector<int> has_rotary = fields.List("no_rope_layers", 0);
  const int interval = fields.Count({"no_rope_layer_interval"}, 4);
  if (windows.window == 0 && windows.chunk_size == 0) return;
  // The default of ModernBERT's classes.
  if (period == 0 && counts_from_first) period = 3;
  if (period == 0) period = PeriodOf(traits.windowed_layers);
  if (windows.window == 0) {
    if (!has_rotary.empty() && static_cast<int>(has_rotary.size()) != layer_count) {
      fields.Fail("no_rope_layers", absl::StrCat("must have an entry for each of the ", layer_count,
                                                 " layers of the model"));
      return;
    }
    for (int i = 0; i < layer_count; ++i) {
      const bool reads_chunk =
          has_rotary.empty() ? interval == 0 || (i + 1) % interval != 0 : has_rotary[i] != 0;
      if (reads_chunk && layers[i].mixer == LayerMixer::kAttention) SetWindow(windows, layers[i]);
    }
    return;
  }
  for (int i = 0; i < layer_count; ++i) {
    if (layers[i].mixer != LayerMixer::kAttention || i < whole_below) continue;
    const int place = counts_from_first ? i : i + 1;
    if (period == 0 || place % period != 0) SetWindow(windows, layers[i]);
  }
}

// Sets the layers that have a state space in place of attention by rule.
void SetStateSpacesByRule(ConfigFields& fields, std::vector<LayerParts>& layers) {
  const int period = fields.Optional({"attn_layer_period", "full_attention_interval"}, 0);
  const bool counts_from_last = fields.Has("full_attention_interval");
  const int offset = fields.Count({"attn_layer_offset"}, counts_from_last ? period - 1 : 0);
  const std::vector<int> listed = fields.List("attn_layer_indices", 0);
  if (period == 0 && listed.empty()) return;
  for (size_t i = 0; i < layers.size(); ++i) {
    const int index = static_cast<int>(i);
    const bool has_attention = listed.empty()
                                   ? period > 0 && index % period == offset
                                   : std::find(listed.begin(), listed.end(), index) != listed.end();
    if (!has_attention) layers[i].mixer = LayerMixer::kStateSpace;
  }
  for (const int layer : listed) {
    if (layer < static_cast<int>(layers.size())) continue;
    fields.Fail("attn_layer_indices", absl::StrCat("must name layers below ", layers.size()));
  }
  if (period > 0 && offset >= period) {
    fields.Fail("attn_layer_offset", absl::StrCat("must be below attn_layer_period ", period));
  }
}

}  // namespace

int ListedLayerCount(ConfigFields& fields) {
  for (const char* key : {"layer_types", "layers_block_type"}) {
    const std::vector<std::string> names = fields.Texts(key);
    if (!names.empty()) return static_cast<int>(names.size());
  }
  return static_cast<int>(fields.Text("hybrid_override_pattern").size());
}

bool ReadsBothWays(ConfigFields& fields) {
  // Gemma 4's word; `vision` is about the tokens of images.
  if (fields.IsText("use_bidirectional_attention")) {
    return fields.Text("use_bidirectional_attention") == "all";
  }
  return fields.Flag({"use_bidirectional_attention"}, false);
}

bool HasOnlyStateSpaces(const ConfigFields& fields) {
  const bool has_states = fields.Has("state_size") || fields.Has("ssm_state_size");
  return has_states && !fields.Has("num_attention_heads") && !fields.Has("n_head");
}

std::vector<LayerParts> ReadLayerLayout(const FamilyTraits& traits, ConfigFields& fields,
                                        int layer_count, const GivenOpaqueLayers& opaque) {
  std::vector<LayerParts> layers(layer_count);
  if (opaque.contains("*")) {
    layers.assign(layer_count,
                  {.mixer = LayerMixer::kOpaque, .has_feed_forward = false, .opaque_kind = "*"});
    for (const char* key : {"layer_types", "layers_block_type", "hybrid_override_pattern"}) {
      fields.MarkRead(key);
    }
    return layers;
  }
  if (HasOnlyStateSpaces(fields)) {
    layers.assign(layer_count, {.mixer = LayerMixer::kStateSpace, .has_feed_forward = false});
    return layers;
  }
  if (traits.model_type == "falcon_h1") {
    fields.Refuse("kv_lora_rank", "is of latent attention, which has no run beside a state space");
    layers.assign(layer_count, {.mixer = LayerMixer::kBoth});
    fields.Texts("layers_block_type");
    // The width says the same as its ratio to that of the layers.
    if (fields.Has("intermediate_size")) fields.MarkRead("mlp_expansion_factor");
    if (!fields.Flag({"mamba_use_mlp"}, true)) fields.Fail("mamba_use_mlp", "must be true");
    return layers;
  }
  if (fields.Has("block_configs") || fields.Has("num_key_value_heads_per_layer")) {
    const int head_count = fields.Size({"num_attention_heads"});
    std::vector<LayerParts> blocks =
        ReadBlocks(fields, layer_count, fields.Size({"hidden_size"}), head_count);
    return blocks.empty() ? layers : blocks;
  }
  const Windows windows = ReadWindowSizes(traits, fields);
  const char* field = nullptr;
  const std::vector<std::string> names =
      NamesOfLayers(traits, windows, fields, layer_count, &field);
  if (!fields.status().ok()) return layers;
  if (!names.empty()) {
    for (const char* key :
         {"sliding_window_pattern", "_sliding_window_pattern", "max_window_layers",
          "no_rope_layers", "no_rope_layer_interval", "attn_layer_period", "attn_layer_offset",
          "attn_layer_indices", "full_attention_interval", "layer_switch", "attn_type_list",
          "global_attn_every_n_layers", "layer_group_size", "prefix_dense_sliding_window_pattern",
          "attention_types", "full_attn_idxs", "hybrid_layer_pattern", "block_types"}) {
      fields.MarkRead(key);
    }
    layers = ReadNames(traits, names, field, windows, opaque, fields);
    // Hybrid models give their windows apart from the names of their layers.
    const bool names_windows = std::any_of(names.begin(), names.end(), [](const std::string& name) {
      return name == "sliding_attention" || name == "chunked_attention" ||
             name == "full_attention" || name == "local" || name == "global";
    });
    if (names_windows) return layers;
    for (LayerParts& layer : layers) {
      if (layer.mixer == LayerMixer::kAttention) SetWindow(windows, layer);
    }
    return layers;
  }
  SetStateSpacesByRule(fields, layers);
  SetWindowsByRule(traits, windows, fields, layers);
  return layers;
}

}  // namespace parplan
