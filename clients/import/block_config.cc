#include "clients/import/block_config.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

constexpr char kRefusedBlock[] =
    "is a part of a layer that has no run here; write the model by hand (docs/files.md)";

// Reads one of the two objects of an entry; null without the part. `path` is its place.
void ReadAttentionBlock(ConfigFields& part, int head_count, LayerParts& layer) {
  if (part.Flag({"no_op"}, false)) layer.mixer = LayerMixer::kNone;
  for (const char* key : {"replace_with_linear", "sparsify", "window_length", "num_sink_tokens",
                          "unshifted_sink", "mamba", "llama4"}) {
    part.Refuse(key, kRefusedBlock);
  }
  // How a cache is filled when the model answers.
  part.MarkRead("use_prefill_window_in_sink_attention");
  const int shared = part.Count({"n_heads_in_group"}, 0);
  const int groups = part.Count({"num_key_value_heads"}, 0);
  if (layer.mixer == LayerMixer::kNone) return;
  if (shared > 0 && head_count % shared != 0) {
    part.Fail("n_heads_in_group", absl::StrCat("must divide the number of heads ", head_count));
    return;
  }
  layer.key_value_head_count = shared > 0 ? head_count / shared : groups;
  if (groups > 0 && groups != layer.key_value_head_count) {
    part.Fail("num_key_value_heads", absl::StrCat("contradicts n_heads_in_group, ", shared));
  }
  if (layer.key_value_head_count == 0) {
    part.Fail("n_heads_in_group", "is required and at least 1");
  } else if (head_count % layer.key_value_head_count != 0) {
    part.Fail("num_key_value_heads", absl::StrCat("must divide the number of heads ", head_count));
  }
}

void ReadFeedForwardBlock(ConfigFields& part, int hidden_size, LayerParts& layer) {
  if (part.Flag({"no_op"}, false)) layer.has_feed_forward = false;
  for (const char* key : {"replace_with_linear", "sparsify", "moe"}) {
    part.Refuse(key, kRefusedBlock);
  }
  if (!part.Flag({"gated"}, true)) part.Fail("gated", "must be true");
  part.Text("hidden_act");
  const double times = part.PositiveNumber("ffn_mult", 1.0);
  int size = part.Count({"intermediate_size"}, 0);
  if (!layer.has_feed_forward) return;
  if (size == 0 && !part.Has("ffn_mult")) {
    part.Fail("ffn_mult", "is required");
    return;
  }
  constexpr double kMultiple = 256.0;
  const double derived =
      std::ceil(std::floor(2.0 * times * hidden_size / 3.0) / kMultiple) * kMultiple;
  if (size == 0 && derived > kMaxImportCount) {
    part.Fail("ffn_mult", absl::StrCat("times the width must be at most ", kMaxImportCount));
    return;
  }
  if (size == 0 && derived < 1.0) {
    part.Fail("ffn_mult", "times the width leaves no feed-forward part; say no_op");
    return;
  }
  if (size == 0) size = static_cast<int>(derived);
  layer.feed_forward_size = size;
}

LayerParts ReadLayerBlock(ConfigFields& block, const std::string& path, int hidden_size,
                          int head_count) {
  LayerParts layer;
  for (const char* key : {"attention", "ffn"}) {
    const nlohmann::json* const object = block.Object(key);
    if (object == nullptr) {
      block.Fail(key, "is required");
      return layer;
    }
    ConfigFields part(*object, block.file_name(), absl::StrCat(path, key, "."));
    if (key == std::string("ffn")) {
      ReadFeedForwardBlock(part, hidden_size, layer);
    } else {
      ReadAttentionBlock(part, head_count, layer);
    }
    part.RefuseAllUnknown();
    block.Take(part);
  }
  block.Refuse("parallel_blocks", kRefusedBlock);
  if (layer.mixer == LayerMixer::kNone && !layer.has_feed_forward) {
    block.Fail("ffn.no_op", "leaves a layer without attention and without a feed-forward part");
  }
  block.RefuseAllUnknown();
  return layer;
}

std::vector<LayerParts> ReadGroupsOfLayers(ConfigFields& fields, int layer_count, int head_count) {
  const std::vector<int> groups = fields.List("num_key_value_heads_per_layer", 1);
  std::vector<LayerParts> layers(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    layers[i].key_value_head_count = groups[i];
    if (head_count % groups[i] == 0) continue;
    fields.Fail(absl::StrCat("num_key_value_heads_per_layer[", i, "]"),
                absl::StrCat("must divide the number of heads ", head_count));
  }
  if (!layers.empty() && static_cast<int>(layers.size()) != layer_count) {
    fields.Fail("num_key_value_heads_per_layer", absl::StrCat("must have an entry for each of the ",
                                                              layer_count, " layers of the model"));
  }
  return layers;
}

}  // namespace

std::vector<LayerParts> ReadBlocks(ConfigFields& fields, int layer_count, int hidden_size,
                                   int head_count) {
  const nlohmann::json* const blocks = fields.Array("block_configs");
  if (blocks == nullptr) return ReadGroupsOfLayers(fields, layer_count, head_count);
  // Older releases wrote it beside the list.
  fields.MarkRead("num_key_value_heads_per_layer");
  std::vector<LayerParts> layers;
  if (static_cast<int>(blocks->size()) != layer_count) {
    fields.Fail("block_configs", absl::StrCat("must have an entry for each of the ", layer_count,
                                              " layers of the model"));
    return layers;
  }
  for (size_t i = 0; i < blocks->size() && fields.status().ok(); ++i) {
    const std::string path = absl::StrCat("block_configs[", i, "].");
    if (!(*blocks)[i].is_object()) {
      fields.Fail(absl::StrCat("block_configs[", i, "]"), "must be an object");
      break;
    }
    ConfigFields block((*blocks)[i], fields.file_name(), path);
    layers.push_back(ReadLayerBlock(block, path, hidden_size, head_count));
    fields.Take(block);
  }
  return layers;
}

}  // namespace parplan
