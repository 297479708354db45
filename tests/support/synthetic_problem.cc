#include "tests/support/synthetic_problem.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/valid.h"

namespace parplan {
namespace {

std::vector<LayerDefinition> Definitions(const SyntheticOptions& options) {
  LayerDefinition embedding{.layer_definition_id = options.name + "-embedding",
                            .kind = LayerKind::kEmbedding,
                            .hidden_size = options.hidden_size,
                            .sequence_length = options.sequence_length,
                            .vocabulary_size = options.vocabulary_size};
  LayerDefinition decoder{.layer_definition_id = options.name + "-decoder",
                          .kind = LayerKind::kDecoder,
                          .hidden_size = options.hidden_size,
                          .attention_head_count = options.attention_head_count,
                          .feed_forward_size = 4 * options.hidden_size,
                          .feed_forward_kind = FeedForwardKind::kGelu,
                          .sequence_length = options.sequence_length};
  LayerDefinition head = embedding;
  head.layer_definition_id = options.name + "-head";
  head.kind = LayerKind::kHead;
  std::vector<LayerDefinition> definitions;
  for (LayerDefinition& raw : std::vector<LayerDefinition>{embedding, decoder, head}) {
    definitions.push_back(Valid(LayerDefinition::Create(raw, "definition")));
  }
  return definitions;
}

// A device of 100 TFLOP/s that is less efficient on small pieces.
Seconds ForwardTime(const LayerDefinition& definition, int degree, int samples) {
  const double flops = ForwardFlopsPerSample(definition, definition.sequence_length) *
                           static_cast<double>(samples) / degree +
                       1e8;
  return Seconds::Of(20e-6 + flops / 100e12 * (1.0 + 0.05 * std::log2(degree)));
}

MeasuredLayer Measure(const SyntheticOptions& options, const LayerDefinition& definition) {
  MeasuredLayer layer{.definition = definition, .precision = Precision::kBf16};
  const int64_t row = int64_t{2} * options.sequence_length * options.hidden_size;
  for (int degree = 1; degree <= options.attention_head_count; degree *= 2) {
    for (int samples = 1; samples <= 64; samples *= 2) {
      const Seconds forward = ForwardTime(definition, degree, samples);
      layer.timings.push_back({.tensor_parallel_degree = degree,
                               .micro_batch_size = samples,
                               .sequence_length = options.sequence_length,
                               .forward = forward,
                               .backward = forward * 2.0});
    }
    const int64_t split = IsTransformer(definition.kind) ? 15 * row : row;
    const int64_t whole = IsTransformer(definition.kind) ? 2 * row : 0;
    const bool sequence_parallel = options.sequence_parallel && degree > 1;
    const int64_t activation =
        sequence_parallel ? (split + whole) / degree : split / degree + whole;
    layer.memories.push_back(
        {.tensor_parallel_degree = degree,
         .sequence_parallel = sequence_parallel,
         .sequence_length = options.sequence_length,
         .parameter_count = options.memory_scale * (definition.parameter_count / degree),
         .activation_per_sample = Bytes::Of(options.memory_scale * activation),
         .checkpoint_per_sample =
             Bytes::Of(options.memory_scale * (sequence_parallel ? row / degree : row))});
  }
  return layer;
}

// 200 GB/s inside a node, 20 GB/s between nodes, shared by the groups that run
// side by side.
void MeasureCollectives(const SyntheticOptions& options, ProfileSnapshot::Content& content) {
  const auto add = [&](Collective collective, int count, int stride, double traffic) {
    const bool in_node = count * stride <= options.devices_per_node;
    const double rate =
        (in_node ? 200e9 : 20e9 / std::min(stride, options.devices_per_node)) * options.link_speed;
    const double latency = (in_node ? 10e-6 : 30e-6) * std::log2(count) / options.link_speed;
    for (int64_t bytes : {int64_t{1} << 16, int64_t{1} << 24, int64_t{1} << 30}) {
      content.collectives.push_back(
          {.collective = collective,
           .participant_count = count,
           .rank_stride = stride,
           .message_size = Bytes::Of(bytes),
           .duration = Seconds::Of(latency + static_cast<double>(bytes) * traffic / rate)});
    }
  };
  for (int count = 2; count <= options.device_count; ++count) {
    if (options.device_count % count != 0) continue;
    const double share = (count - 1.0) / count;
    for (int stride = 1; stride * count <= options.device_count; ++stride) {
      if ((options.device_count / count) % stride != 0) continue;
      add(Collective::kAllReduce, count, stride, 2.0 * share);
      add(Collective::kAllGather, count, stride, share);
      add(Collective::kReduceScatter, count, stride, share);
      if (count == 2) add(Collective::kSendReceive, count, stride, 1.0);
    }
  }
}

}  // namespace

SyntheticOptions RandomSyntheticOptions(uint64_t seed) {
  std::mt19937_64 random(seed);
  SyntheticOptions options;
  options.device_count = 1 << (1 + random() % 4);
  options.devices_per_node = 1 << (1 + random() % 3);
  options.decoder_count = 1 + static_cast<int>(random() % 12);
  options.global_batch_size = 1 << (2 + random() % 5);
  options.sequence_parallel = random() % 2 == 0;
  options.device_memory = Bytes::Of((1 + static_cast<int64_t>(random() % 12)) << 29);
  if (random() % 3 == 0) options.rules.schedule = Schedule::kGpipe;
  return options;
}

std::shared_ptr<const ModelSpec> SyntheticModel(const SyntheticOptions& options) {
  std::vector<ModelLayerRun> runs = {{.definition_index = 0, .layer_count = 1}};
  if (options.split_runs) {
    runs.insert(runs.end(), options.decoder_count, {.definition_index = 1, .layer_count = 1});
  } else {
    runs.push_back({.definition_index = 1, .layer_count = options.decoder_count});
  }
  runs.push_back({.definition_index = 2, .layer_count = 1});
  return std::make_shared<const ModelSpec>(Valid(ModelSpec::Create(
      options.name, Definitions(options), std::move(runs), Precision::kBf16, Optimizer::kAdam)));
}

std::shared_ptr<const Topology> SyntheticTopology(const SyntheticOptions& options) {
  const int per_node = std::min(options.devices_per_node, options.device_count);
  NodeGroup group{.node_group_id = options.name + "-nodes",
                  .device_kind = "synthetic-device",
                  .node_count = options.device_count / per_node,
                  .devices_per_node = per_node,
                  .device_memory = options.device_memory};
  std::vector<LinkTier> tiers = {{.tier_id = "node", .reach_device_count = per_node}};
  if (options.device_count > per_node) {
    tiers.push_back({.tier_id = "network", .reach_device_count = options.device_count});
  }
  return std::make_shared<const Topology>(
      Valid(Topology::Create(options.name, {group}, std::move(tiers))));
}

ProfileSnapshot::Content SyntheticProfileContent(const SyntheticOptions& options) {
  ProfileSnapshot::Content content;
  content.digest = std::string(64, '0');
  content.device_kind = "synthetic-device";
  content.devices_per_node = std::min(options.devices_per_node, options.device_count);
  for (const LayerDefinition& definition : Definitions(options)) {
    content.layers.push_back(Measure(options, definition));
  }
  MeasureCollectives(options, content);
  content.overlap_slowdown = 1.2;
  content.context_memory = options.context_memory;
  return content;
}

PlanningProblem SyntheticProblem(const SyntheticOptions& options) {
  return Valid(PlanningProblem::Create(
      SyntheticModel(options), SyntheticTopology(options),
      {{{std::make_shared<const ProfileSnapshot>(
          Valid(ProfileSnapshot::Create(SyntheticProfileContent(options))))}}},
      options.global_batch_size, options.rules));
}

}  // namespace parplan
