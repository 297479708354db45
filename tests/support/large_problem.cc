#include "tests/support/large_problem.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/valid.h"

namespace parplan {

PlanningProblem LargeProblem(const LargeOptions& options) {
  std::vector<LayerDefinition> definitions;
  std::vector<ModelLayerRun> runs;
  const auto add = [&](LayerDefinition raw, int layer_count) {
    raw.hidden_size = options.hidden_size;
    raw.sequence_length = options.sequence_length;
    raw.layer_definition_id = absl::StrCat("layer", definitions.size());
    runs.push_back({static_cast<int>(definitions.size()), layer_count});
    definitions.push_back(Valid(LayerDefinition::Create(std::move(raw), "layer")));
  };
  constexpr int kVocabularySize = 32000;
  add({.kind = LayerKind::kEmbedding, .vocabulary_size = kVocabularySize}, 1);
  int further_token_count = 0;
  for (const LargeRun& run : options.runs) {
    LayerDefinition raw = {.kind = LayerKind::kDecoder,
                           .attention_head_count = options.attention_head_count,
                           .key_value_head_count = options.key_value_head_count,
                           .feed_forward_kind = FeedForwardKind::kSwiglu};
    if (run.expert_count > 0) {
      raw.expert_count = run.expert_count;
      raw.experts_per_token = std::min(2, run.expert_count);
      raw.expert_feed_forward_size = run.feed_forward_size / 4;
    } else {
      raw.feed_forward_size = run.feed_forward_size;
    }
    raw.prediction_depth = run.prediction_depth;
    if (run.prediction_depth > 0) raw.vocabulary_size = kVocabularySize;
    further_token_count = std::max(further_token_count, run.prediction_depth);
    add(std::move(raw), run.layer_count);
  }
  add({.kind = LayerKind::kHead,
       .vocabulary_size = kVocabularySize,
       .further_token_count = further_token_count},
      1);
  ModelSpec model = Valid(ModelSpec::Create("large", std::move(definitions), std::move(runs),
                                            Precision::kBf16, Optimizer::kAdam));
  NodeGroup group{.node_group_id = "nodes",
                  .device_kind = "a100-sxm-80gb",
                  .node_count = options.device_count / 8,
                  .devices_per_node = 8,
                  .device_memory = options.device_memory};
  std::vector<LinkTier> tiers = {{"node", 8}};
  if (group.node_count > 1) tiers.push_back({"network", options.device_count});
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(
      EightA100Nodes(/*device_speed=*/1.0, /*link_speed=*/1.0, options.network_speed));
  PlanningRules rules = options.rules;
  rules.allow_estimates = true;
  return Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(std::move(model)),
      std::make_shared<const Topology>(Valid(Topology::Create("large", {group}, tiers))),
      std::move(knowledge), options.global_batch_size, std::move(rules)));
}

LargeOptions RandomLargeOptions(uint64_t seed, int max_layer_count, int max_device_count) {
  std::mt19937_64 random(seed);
  const auto below = [&random](int count) { return static_cast<int>(random() % count); };
  // Sizes of all orders are equally likely.
  const auto power_of_two = [&](int least, int most) {
    int orders = 1;
    while (least << orders <= most) ++orders;
    return least << below(orders);
  };
  LargeOptions options;
  options.device_count = power_of_two(8, max_device_count);
  const int layer_count = power_of_two(8, max_layer_count);
  const int run_count = 1 + below(4);
  options.hidden_size = 1024 << below(3);
  options.attention_head_count = options.hidden_size / 128;
  options.key_value_head_count = std::max(1, options.attention_head_count >> below(3));
  options.sequence_length = 1024 << below(3);
  options.global_batch_size = int64_t{options.device_count} << below(4);
  options.device_memory = Bytes::Of(int64_t{16 + below(64)} << 30);
  options.network_speed = std::vector<double>{0.05, 0.3, 1.0}[below(3)];
  options.runs.clear();
  for (int run = 0; run < run_count; ++run) {
    options.runs.push_back(
        {.layer_count = layer_count * (run + 1) / run_count - layer_count * run / run_count,
         .feed_forward_size = options.hidden_size * (2 + below(3)),
         .expert_count = below(3) == 0 ? 8 << below(2) : 0});
  }
  return options;
}

std::vector<LargeRun> DifferentLayers(int count) {
  std::vector<LargeRun> runs;
  runs.reserve(count);
  for (int layer = 0; layer < count; ++layer) {
    // Sizes go up and down, so that neighbours differ.
    runs.push_back({.layer_count = 1, .feed_forward_size = 8192 + layer * 389 % count * 8});
  }
  return runs;
}

}  // namespace parplan
