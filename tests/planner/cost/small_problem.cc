#include "tests/planner/cost/small_problem.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace parplan {
namespace {

ModelSpec SmallModel(int decoder_count = 2) {
  LayerDefinition embedding;
  embedding.layer_definition_id = "embedding";
  embedding.kind = LayerKind::kEmbedding;
  embedding.hidden_size = 4;
  embedding.sequence_length = 2;
  embedding.vocabulary_size = 10;
  LayerDefinition decoder;
  decoder.layer_definition_id = "decoder";
  decoder.kind = LayerKind::kDecoder;
  decoder.hidden_size = 4;
  decoder.attention_head_count = 4;
  decoder.feed_forward_size = 16;
  decoder.feed_forward_kind = FeedForwardKind::kGelu;
  decoder.sequence_length = 2;
  LayerDefinition head = embedding;
  head.layer_definition_id = "head";
  head.kind = LayerKind::kHead;
  std::vector<LayerDefinition> definitions;
  for (const LayerDefinition& raw : {embedding, decoder, head}) {
    definitions.push_back(*LayerDefinition::Create(raw, "test"));
  }
  return *ModelSpec::Create("small", definitions, {{0, 1}, {1, decoder_count}, {2, 1}},
                            Precision::kBf16, Optimizer::kAdam);
}

ProfileSnapshot::Content SmallContent() {
  ProfileSnapshot::Content content;
  content.digest = "small";
  content.device_kind = "TestDevice";
  content.devices_per_node = 4;
  content.overlap_slowdown = kSlowdown;
  content.context_memory = Bytes::Of(5000);
  const ModelSpec model = SmallModel();
  for (const LayerDefinition& definition : model.layer_definitions()) {
    MeasuredLayer layer;
    layer.definition = definition;
    layer.precision = Precision::kBf16;
    for (int degree : {1, 2, 4}) {
      const double cost = degree == 1 ? 1.0 : 1.1 / degree;
      for (int samples : {1, 2, 8}) {
        layer.timings.push_back({degree, samples, 2, Seconds::Milliseconds(cost * samples),
                                 Seconds::Milliseconds(3.0 * cost * samples), Origin::kMeasured});
      }
      layer.memories.push_back({degree, false, 2, 1000 / degree, Bytes::Of(200 + 600 / degree),
                                Bytes::Of(16), Origin::kMeasured});
    }
    content.layers.push_back(std::move(layer));
  }
  // 1 microsecond per byte of all-reduce on any group: easy to follow.
  for (const auto& [count, stride] : std::vector<std::pair<int, int>>{{2, 1}, {2, 2}, {4, 1}}) {
    content.collectives.push_back({Collective::kAllReduce, count, stride, Bytes::Of(1000),
                                   Seconds::Milliseconds(1), Origin::kMeasured});
  }
  for (int stride : {1, 2}) {
    content.collectives.push_back({Collective::kSendReceive, 2, stride, Bytes::Of(1000),
                                   Seconds::Milliseconds(0.5), Origin::kMeasured});
  }
  return content;
}

}  // namespace

PlanningProblem SmallProblem(const std::function<void(ProfileSnapshot::Content&)>& change,
                             PlanningRules rules) {
  ProfileSnapshot::Content content = SmallContent();
  if (change) change(content);
  NodeGroup group;
  group.node_group_id = "test";
  group.device_kind = "TestDevice";
  group.node_count = 1;
  group.devices_per_node = 4;
  group.device_memory = Bytes::Of(1'000'000);
  return *PlanningProblem::Create(
      std::make_shared<ModelSpec>(SmallModel()),
      std::make_shared<Topology>(*Topology::Create("test", {group}, {{"link", 4}})),
      {{{std::make_shared<ProfileSnapshot>(*ProfileSnapshot::Create(std::move(content)))}}}, 16,
      std::move(rules));
}

CostModel SmallCosts() { return *CostModel::Create(SmallProblem()); }

Strategy Degrees(int tensor, int data) {
  Strategy strategy;
  strategy.tensor_parallel_degree = tensor;
  strategy.data_parallel_degree = data;
  return strategy;
}

}  // namespace parplan
