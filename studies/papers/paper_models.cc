#include "studies/papers/paper_models.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "proto/wire/known_hardware.h"
#include "proto/wire/published_calibration.h"

namespace parplan::papers {
namespace {

constexpr int kDevicesPerNode = 8;

template <typename T>
T Valid(absl::StatusOr<T> value) {
  PARPLAN_CHECK(value.ok());
  return *std::move(value);
}

struct Layers {
  LayerDefinition definition;
  int count = 1;
};

LayerDefinition Table(LayerKind kind, int vocabulary_size, int hidden_size, int sequence_length) {
  return {.kind = kind,
          .hidden_size = hidden_size,
          .sequence_length = sequence_length,
          .vocabulary_size = vocabulary_size};
}

LayerDefinition Transformer(LayerKind kind, int hidden_size, int head_count, int sequence_length) {
  return {.kind = kind,
          .hidden_size = hidden_size,
          .attention_head_count = head_count,
          .feed_forward_size = 4 * hidden_size,
          .feed_forward_kind = FeedForwardKind::kGelu,
          .sequence_length = sequence_length};
}

std::vector<Layers> T5(int layer_count, int target_length) {
  return {{Table(LayerKind::kEmbedding, 32128, 1024, 512)},
          {Transformer(LayerKind::kEncoder, 1024, 16, 512), layer_count / 2},
          {Transformer(LayerKind::kCrossDecoder, 1024, 16, target_length), layer_count / 2},
          {Table(LayerKind::kHead, 32128, 1024, target_length)}};
}

// Attention is within windows of 49 tokens; a layer of the whole sequence has more work and memory
// for scores than Swin's, which docs/measurements/papers.md says.
std::vector<Layers> Swin(int layer_count) {
  std::vector<Layers> layers;
  for (int kind = 0; kind < 4; ++kind) {
    layers.push_back({Transformer(LayerKind::kEncoder, 320 << kind, 8 << kind, 3136 >> (2 * kind)),
                      kind == 2 ? layer_count - 6 : 2});
  }
  return layers;
}

std::vector<Layers> LayersOf(Family family, int layer_count) {
  switch (family) {
    case Family::kBert:
      return {{Table(LayerKind::kEmbedding, 30522, 1280, 512)},
              {Transformer(LayerKind::kEncoder, 1280, 16, 512), layer_count},
              {Table(LayerKind::kHead, 30522, 1280, 512)}};
    case Family::kVit:
      return {{Transformer(LayerKind::kEncoder, 1280, 16, 196), layer_count}};
    case Family::kT5:
      return T5(layer_count, 512);
    case Family::kT5Short:
      return T5(layer_count, 4);
    case Family::kSwin:
      return Swin(layer_count);
  }
  return {};
}

const char* FamilyName(Family family) {
  switch (family) {
    case Family::kBert:
      return "BERT-Huge";
    case Family::kVit:
      return "ViT-Huge";
    case Family::kT5:
      return "T5-Large";
    case Family::kT5Short:
      return "T5-512/4";
    case Family::kSwin:
      return "Swin-Huge";
  }
  return "";
}

}  // namespace

std::string ModelName(Family family, int layer_count) {
  return absl::StrCat(FamilyName(family), "-", layer_count);
}

ModelSpec ModelOf(Family family, int layer_count) {
  PARPLAN_CHECK(layer_count >= 8);
  std::vector<LayerDefinition> definitions;
  std::vector<ModelLayerRun> runs;
  for (const Layers& layers : LayersOf(family, layer_count)) {
    LayerDefinition raw = layers.definition;
    raw.layer_definition_id = absl::StrCat("layer", definitions.size());
    runs.push_back({static_cast<int>(definitions.size()), layers.count});
    definitions.push_back(Valid(LayerDefinition::Create(std::move(raw), "layer")));
  }
  // Identifiers have neither capitals nor slashes.
  const std::string id =
      absl::AsciiStrToLower(absl::StrReplaceAll(ModelName(family, layer_count), {{"/", "-"}}));
  return Valid(ModelSpec::Create(id, std::move(definitions), std::move(runs), Precision::kFp32,
                                 Optimizer::kAdam));
}

BatchRange BatchesOf(int device_count) {
  const int64_t samples_a_device = device_count <= 16 ? 8 : 16;
  return {.step = samples_a_device * device_count, .largest = int64_t{16} * device_count};
}

PlanningProblem ProblemOf(ModelSpec model, const Devices& devices, const BatchRange& batches) {
  const int node_size = std::min(devices.count, kDevicesPerNode);
  PARPLAN_CHECK(devices.count % node_size == 0);
  const NodeGroup group{.node_group_id = "nodes",
                        .device_kind = devices.kind,
                        .node_count = devices.count / node_size,
                        .devices_per_node = node_size,
                        .device_memory = Bytes::Of(int64_t{devices.memory_gb} << 30)};
  std::vector<LinkTier> tiers = {{"node", node_size}};
  if (group.node_count > 1) tiers.push_back({"network", devices.count});
  Topology topology = Valid(Topology::Create("papers", {group}, std::move(tiers)));
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = Valid(KnownHardware(topology));
  knowledge.calibration = PublishedCalibration();
  PlanningRules rules{.allow_estimates = true};
  if (batches.step > 0) {
    rules.smallest_global_batch_size = batches.step;
    rules.global_batch_size_step = batches.step;
  }
  return Valid(PlanningProblem::Create(std::make_shared<const ModelSpec>(std::move(model)),
                                       std::make_shared<const Topology>(std::move(topology)),
                                       std::move(knowledge), batches.largest, std::move(rules)));
}

PlanningProblem ProblemOf(const GridQuestion& question) {
  return ProblemOf(ModelOf(question.family, question.layer_count),
                   {.count = question.device_count, .memory_gb = question.memory_gb},
                   BatchesOf(question.device_count));
}

}  // namespace parplan::papers
