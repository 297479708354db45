#include "clients/import/shared_block_config.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/import/family_traits.h"
#include "clients/import/feed_forward_config.h"
#include "clients/import/made_layers.h"
#include "clients/import/named_text.h"
#include "clients/import/state_space_config.h"
#include "planner/model/layer_matrices.h"
#include "planner/model/planning_problem.h"

namespace parplan {
namespace {

// Sizes of the blocks, and the narrow matrices that each layer with a block adds.
struct Blocks {
  int count = 1;
  int64_t head_width = 0;
  int64_t key_width = 0;
  int64_t feed_forward_size = 0;
  int64_t adapter_rank = 0;
  bool has_attention_adapters = false;
  bool has_bias = false;
};

Blocks ReadBlocks(int64_t hidden, ConfigFields& config) {
  Blocks blocks;
  blocks.count = config.Optional({"num_mem_blocks"}, 1);
  const int heads = config.Size({"num_attention_heads"});
  const int groups = config.Optional({"num_key_value_heads"}, heads);
  // The block reads vectors twice as wide as the layers.
  const auto wide = static_cast<int>(2 * hidden);
  if (config.Optional({"attention_hidden_size"}, wide) != wide) {
    config.Fail("attention_hidden_size", absl::StrCat("must be twice hidden_size, ", wide));
  }
  if (wide % heads != 0 || heads % groups != 0) {
    config.Fail("num_attention_heads",
                absl::StrCat("must divide twice hidden_size, ", wide,
                             ", and be a multiple of the key-value heads, ", groups));
    return blocks;
  }
  const int head_size = wide / heads;
  if (config.Optional({"attention_head_dim", "head_dim"}, head_size) != head_size) {
    config.Fail("attention_head_dim", absl::StrCat("must be ", head_size));
  }
  // Names of Megatron for sizes that these say.
  for (const char* key : {"kv_channels", "num_query_groups", "ffn_hidden_size"}) {
    config.MarkRead(key);
  }
  blocks.head_width = wide;
  blocks.key_width = int64_t{groups} * head_size;
  blocks.feed_forward_size = config.Optional({"intermediate_size", "ffn_hidden_size"},
                                             FourTimes(static_cast<int>(hidden)));
  blocks.adapter_rank = config.Optional({"adapter_rank", "lora_rank"}, 128);
  blocks.has_attention_adapters = config.Flag({"use_shared_attention_adapter"}, false);
  if (!config.Flag({"use_shared_mlp_adapter"}, true)) {
    config.Fail("use_shared_mlp_adapter", "must be true");
  }
  blocks.has_bias = config.Flag({"add_bias_linear"}, false);
  for (const char* key : {"use_mem_rope", "use_long_context", "hybrid_layer_ids",
                          "use_mem_eff_path", "use_shared_block_lora", "time_step_floor"}) {
    config.MarkRead(key);
  }
  return blocks;
}

// Returns the names of the layers; after an error fewer.
std::vector<std::string> ReadNames(ConfigFields& config, int layer_count) {
  std::vector<std::string> names = config.Texts("layers_block_type");
  const std::vector<std::string> newer = config.Texts("layer_types");
  if (names.empty()) names = newer;
  if (static_cast<int>(names.size()) != layer_count) {
    config.Fail("layers_block_type",
                absl::StrCat("must have an entry for each of the ", layer_count, " layers"));
    return {};
  }
  for (int i = 0; i < layer_count; ++i) {
    if (names[i] == "mamba" || names[i] == "linear_attention" || names[i] == "hybrid") continue;
    config.Fail(absl::StrCat("layers_block_type[", i, "]"),
                "must be `mamba` (`linear_attention`) or `hybrid`");
  }
  return names;
}

}  // namespace

ModelFacts ReadSharedBlocks(ConfigFields& config, std::vector<std::string>* notes) {
  ModelFacts facts;
  const int64_t hidden = config.Size({"hidden_size"});
  const int layer_count = config.Size({"num_hidden_layers"});
  if (layer_count > kMaxLayerCount) {
    config.Fail("num_hidden_layers", absl::StrCat("must be at most ", kMaxLayerCount));
  }
  if (!config.status().ok()) return facts;
  const std::vector<std::string> names = ReadNames(config, layer_count);
  const Blocks blocks = ReadBlocks(hidden, config);
  const FamilyTraits traits = {
      .model_type = "zamba2", .has_state_space_heads = true, .state_space_state_size = 64};
  const StateSpaceFacts recurrence =
      ReadStateSpace(traits, static_cast<int>(hidden), false, config, notes);
  const int64_t of_recurrence = StateSpaceParameters(static_cast<int>(hidden), recurrence, config);
  TransformerRunFacts layer;
  layer.kind = v1::LAYER_KIND_OPAQUE;
  layer.hidden_size = static_cast<int>(hidden);
  layer.sequence_length = config.Optional({"max_position_embeddings"}, 4096);
  layer.opaque.emplace();
  if (!config.status().ok()) return facts;

  const int64_t wide = blocks.head_width;
  const int64_t inner = blocks.feed_forward_size;
  const int64_t bias = blocks.has_bias ? 1 : 0;
  // Its projections have biases with those of the block.
  const int64_t plain = of_recurrence + recurrence.extra_parameter_count +
                        bias * (static_cast<int64_t>(ProjectedWidth(recurrence.space)) + hidden);
  // The map behind the block, and the narrow matrices.
  int64_t own = hidden * hidden + blocks.adapter_rank * (hidden + 2 * inner);
  if (blocks.has_attention_adapters) own += blocks.adapter_rank * 6 * wide;
  // Queries, keys, values and output; three matrices; a norm of the doubled input and one of the
  // feed-forward part.
  const int64_t block = wide * (wide + 2 * blocks.key_width) + wide * hidden + 3 * hidden * inner +
                        bias * (2 * inner + hidden) + wide + hidden;
  // The layer's input and the model's.
  const int64_t passed = 2 * hidden;
  layer.opaque_passed_values_per_token = passed;
  const int64_t kept = passed + hidden + StateSpaceValues(recurrence.space);
  // Both inputs beside each other, their norm, attention, its output, the feed-forward part and the
  // map behind it.
  const int64_t kept_by_block = 2 * wide + 2 * (wide + blocks.key_width) + 3 * hidden + 4 * inner;
  int used = 0;
  for (const std::string& name : names) {
    const bool is_hybrid = name == "hybrid";
    layer.layer_count = 1;
    layer.name = "state-space";
    layer.extra_parameter_count = plain;
    layer.opaque_kept_values_per_token = kept;
    if (is_hybrid) {
      const bool is_first = used++ < blocks.count;
      layer.name = is_first ? "attention-and-state-space" : "shared-attention-and-state-space";
      layer.extra_parameter_count += own + (is_first ? block : 0);
      layer.opaque_kept_values_per_token += kept_by_block;
    }
    if (!facts.runs.empty() && facts.runs.back().name == layer.name) {
      ++facts.runs.back().layer_count;
    } else {
      facts.runs.push_back(layer);
    }
  }
  notes->push_back(absl::StrCat(
      "num_mem_blocks ", blocks.count, ": ", used,
      " layers share as many blocks of attention. All layers are opaque, without tensor "
      "parallelism, and are planned with measured times only. The first layer with a block has "
      "its ",
      block,
      " parameters; a pipeline stage with only a later one needs a copy of them, which is "
      "not counted"));
  return facts;
}

}  // namespace parplan
