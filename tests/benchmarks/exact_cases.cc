#include "tests/benchmarks/exact_cases.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

template <typename T>
T Valid(absl::StatusOr<T> value) {
  PARPLAN_CHECK(value.ok());
  return *std::move(value);
}

ModelSpec ModelOf(const ExactCase& exact_case) {
  std::vector<LayerDefinition> definitions;
  std::vector<ModelLayerRun> runs;
  const auto add = [&](LayerDefinition raw, int layer_count) {
    raw.hidden_size = exact_case.hidden_size;
    raw.sequence_length = exact_case.sequence_length;
    raw.layer_definition_id = absl::StrCat("layer", definitions.size());
    runs.push_back({static_cast<int>(definitions.size()), layer_count});
    definitions.push_back(Valid(LayerDefinition::Create(std::move(raw), "layer")));
  };
  add({.kind = LayerKind::kEmbedding, .vocabulary_size = exact_case.vocabulary_size}, 1);
  for (const DecoderShape& shape : exact_case.decoders) {
    add({.kind = LayerKind::kDecoder,
         .attention_head_count = exact_case.attention_head_count,
         .key_value_head_count = exact_case.key_value_head_count,
         .feed_forward_size = shape.feed_forward_size,
         .feed_forward_kind =
             exact_case.swiglu ? FeedForwardKind::kSwiglu : FeedForwardKind::kGelu},
        shape.layer_count);
  }
  add({.kind = LayerKind::kHead, .vocabulary_size = exact_case.vocabulary_size}, 1);
  return Valid(ModelSpec::Create("exact", std::move(definitions), std::move(runs), Precision::kBf16,
                                 Optimizer::kAdam));
}

}  // namespace

ExactCase Llama70B(int device_count, int64_t global_batch_size) {
  return {.device_count = device_count,
          .global_batch_size = global_batch_size,
          .decoders = {{.feed_forward_size = 28672, .layer_count = 80}}};
}

ExactCase Gpt3() {
  return {.device_count = 4096,
          .global_batch_size = 4096,
          .hidden_size = 12288,
          .attention_head_count = 96,
          .key_value_head_count = 96,
          .sequence_length = 2048,
          .vocabulary_size = 51200,
          .swiglu = false,
          .decoders = {{.feed_forward_size = 4 * 12288, .layer_count = 96}}};
}

ExactCase ManyLayers(int layer_count, int kind_count, int device_count) {
  ExactCase many = {.device_count = device_count,
                    .global_batch_size = 2 * int64_t{device_count},
                    .hidden_size = 2048,
                    .attention_head_count = 16,
                    .key_value_head_count = 16,
                    .sequence_length = 2048};
  const int decoder_count = layer_count - 2;
  for (int kind = 0; kind < kind_count; ++kind) {
    // Sizes go up and down, so that neighbours differ.
    const int size = 5632 + (kind * 389 % kind_count) * 4096 / kind_count / 8 * 8;
    const int from = static_cast<int>(int64_t{decoder_count} * kind / kind_count);
    const int to = static_cast<int>(int64_t{decoder_count} * (kind + 1) / kind_count);
    many.decoders.push_back({.feed_forward_size = size, .layer_count = to - from});
  }
  return many;
}

PlanningProblem ProblemOf(const ExactCase& exact_case, PlanningRules rules) {
  rules.allow_estimates = true;
  rules.smallest_global_batch_size = exact_case.smallest_global_batch_size;
  rules.global_batch_size_step = exact_case.global_batch_size_step;
  NodeGroup group{.node_group_id = "nodes",
                  .device_kind = "a100-sxm-80gb",
                  .node_count = exact_case.device_count / 8,
                  .devices_per_node = 8,
                  .device_memory = Bytes::Of(int64_t{80} << 30)};
  std::vector<LinkTier> tiers = {{"node", 8}};
  if (group.node_count > 1) tiers.push_back({"network", exact_case.device_count});
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(EightA100Nodes());
  return Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(ModelOf(exact_case)),
      std::make_shared<const Topology>(Valid(Topology::Create("exact", {group}, tiers))),
      std::move(knowledge), exact_case.global_batch_size, std::move(rules)));
}

}  // namespace parplan
