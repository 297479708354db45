#include "tests/support/hand_made_problem.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

constexpr int kHeadCount = 24;
constexpr int kSequenceLength = 4;

int DevicesPerNode(const HandMadeOptions& options) {
  return options.devices_per_node > 0 ? options.devices_per_node : options.device_count;
}

std::vector<LayerDefinition> Definitions(const HandMadeOptions& options) {
  std::vector<LayerDefinition> definitions;
  for (const HandMadeLayers& layers : options.layers) {
    const int index = static_cast<int>(definitions.size());
    LayerDefinition raw{.layer_definition_id = absl::StrCat("layer", index),
                        .kind = layers.kind,
                        .hidden_size = layers.hidden_size,
                        .sequence_length = kSequenceLength};
    // Another size each, so that measurements of one are not those of the other.
    if (IsTransformer(layers.kind)) {
      raw.attention_head_count = kHeadCount;
      raw.feed_forward_size = 96 + index;
      raw.feed_forward_kind = FeedForwardKind::kGelu;
    } else {
      raw.vocabulary_size = 96 + index;
    }
    definitions.push_back(Valid(LayerDefinition::Create(std::move(raw), "layer")));
  }
  return definitions;
}

MeasuredLayer Measure(const HandMadeOptions& options, const HandMadeLayers& layers,
                      const LayerDefinition& definition) {
  MeasuredLayer measured{.definition = definition, .precision = options.precision};
  const int64_t element = BytesPerElement(options.precision);
  const int64_t row = element * kSequenceLength * layers.hidden_size;
  for (int degree = 1; degree <= kHeadCount; ++degree) {
    if (kHeadCount % degree != 0) continue;
    const double share = degree == 1 ? 1.0 : (1.0 + layers.tensor_loss) / degree;
    for (int samples = 1; samples <= 64; samples *= 2) {
      const Seconds forward = Seconds::Milliseconds(layers.milliseconds * share * samples);
      measured.timings.push_back({.tensor_parallel_degree = degree,
                                  .micro_batch_size = samples,
                                  .sequence_length = options.measured_sequence_length,
                                  .forward = forward,
                                  .backward = forward * 2.0});
    }
    const bool sequence_parallel = options.sequence_parallel && degree > 1;
    measured.memories.push_back(
        {.tensor_parallel_degree = degree,
         .sequence_parallel = sequence_parallel,
         .sequence_length = options.measured_sequence_length,
         .parameter_count = layers.parameter_count / degree,
         .activation_per_sample = Bytes::Of(layers.activation_bytes_per_sample / degree),
         .checkpoint_per_sample = Bytes::Of(sequence_parallel ? row / degree : row)});
  }
  return measured;
}

}  // namespace

ProfileSnapshot::Content HandMadeContent(const HandMadeOptions& options) {
  ProfileSnapshot::Content content{.digest = "hand-made",
                                   .device_kind = "hand-made-device",
                                   .devices_per_node = DevicesPerNode(options)};
  const std::vector<LayerDefinition> definitions = Definitions(options);
  for (size_t index = 0; index < definitions.size(); ++index) {
    content.layers.push_back(Measure(options, options.layers[index], definitions[index]));
  }
  constexpr int64_t kSize = 1'000'000;
  const auto add = [&](Collective collective, int count, int stride, double share) {
    const bool leaves_node = count * stride > DevicesPerNode(options);
    const double seconds_per_byte =
        options.seconds_per_byte * (leaves_node ? options.network_slowdown : 1.0);
    content.collectives.push_back({.collective = collective,
                                   .participant_count = count,
                                   .rank_stride = stride,
                                   .message_size = Bytes::Of(kSize),
                                   .duration = Seconds::Of(share * seconds_per_byte * kSize)});
  };
  for (int count = 2; count <= options.device_count; ++count) {
    if (options.device_count % count != 0) continue;
    for (int stride = 1; stride * count <= options.device_count; ++stride) {
      if (options.device_count / count % stride == 0) add(Collective::kAllReduce, count, stride, 1);
    }
  }
  for (int stride = 1; stride < options.device_count; ++stride) {
    if (options.device_count % stride == 0) add(Collective::kSendReceive, 2, stride, 0.5);
  }
  content.overlap_slowdown = 1.0;
  content.context_memory = Bytes();
  return content;
}

PlanningProblem HandMadeProblem(const HandMadeOptions& options) {
  std::vector<LayerDefinition> definitions = Definitions(options);
  std::vector<ModelLayerRun> runs;
  for (size_t index = 0; index < definitions.size(); ++index) {
    runs.push_back({static_cast<int>(index), options.layers[index].count});
  }
  const int per_node = DevicesPerNode(options);
  NodeGroup group{.node_group_id = "nodes",
                  .device_kind = "hand-made-device",
                  .node_count = options.device_count / per_node,
                  .devices_per_node = per_node,
                  .device_memory = options.device_memory};
  std::vector<LinkTier> tiers = {{"node", per_node}};
  if (group.node_count > 1) tiers.push_back({"network", options.device_count});
  return Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(
          Valid(ModelSpec::Create("hand-made", std::move(definitions), std::move(runs),
                                  options.precision, Optimizer::kAdam))),
      std::make_shared<const Topology>(Valid(Topology::Create("hand-made", {group}, tiers))),
      {{{std::make_shared<const ProfileSnapshot>(
          Valid(ProfileSnapshot::Create(HandMadeContent(options))))}}},
      options.global_batch_size, options.rules));
}

}  // namespace parplan
