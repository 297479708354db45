// `SnapshotDigest` of digest.h.

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "proto/wire/canonical_text.h"
#include "proto/wire/digest.h"
#include "proto/wire/text_digest.h"

namespace parplan {
namespace {

std::string TimingPointLine(const std::string& layer, const LayerTimingPoint& point) {
  return absl::StrCat(
      "layer_timing ", layer, " ", point.tensor_parallel_degree, " ", point.sequence_length, " ",
      point.micro_batch_size, " ", NumberWord(point.forward.value()), " ",
      point.backward.has_value() ? NumberWord(point.backward->value()) : kAbsentWord, " ",
      static_cast<int>(point.origin), "\n");
}

std::string MemoryPointLine(const std::string& layer, const LayerMemoryPoint& point) {
  return CanonicalLine(
      "layer_memory",
      {layer, IntegerWord(point.tensor_parallel_degree), FlagWord(point.sequence_parallel),
       IntegerWord(point.sequence_length), IntegerWord(point.parameter_count),
       IntegerWord(point.activation_per_sample.count()),
       point.checkpoint_per_sample.has_value() ? IntegerWord(point.checkpoint_per_sample->count())
                                               : kAbsentWord,
       IntegerWord(static_cast<int>(point.origin))});
}

// Appends the lines about layers, each list of them sorted by bytes. All lines of one keyword begin
// with the digest of their layer, so they are sorted layer by layer: to sort those of 10,000 layers
// together took a sixth of the time of their snapshot.
void AppendLayers(const std::vector<MeasuredLayer>& layers,
                  const std::vector<std::string>& layer_digests, TextDigest& text) {
  std::vector<size_t> order(layers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&layer_digests](size_t a, size_t b) { return layer_digests[a] < layer_digests[b]; });
  const auto append = [&](const auto& append_lines) {
    std::vector<std::string> lines;
    for (size_t i = 0; i < order.size(); ++i) {
      append_lines(layer_digests[order[i]], layers[order[i]], lines);
      // Lines of layers with one digest are sorted together.
      if (i + 1 < order.size() && layer_digests[order[i]] == layer_digests[order[i + 1]]) continue;
      text.Append(SortedLines(std::move(lines)));
      lines.clear();
    }
  };
  using Lines = std::vector<std::string>;
  append([](const std::string& digest, const MeasuredLayer& /*layer*/, Lines& lines) {
    lines.push_back(CanonicalLine("layer", {digest}));
  });
  append([](const std::string& digest, const MeasuredLayer& layer, Lines& lines) {
    for (const LayerMemoryPoint& point : layer.memories) {
      lines.push_back(MemoryPointLine(digest, point));
    }
  });
  append([](const std::string& digest, const MeasuredLayer& layer, Lines& lines) {
    for (const LayerTimingPoint& point : layer.timings) {
      lines.push_back(TimingPointLine(digest, point));
    }
  });
}

}  // namespace

std::string SnapshotDigest(const ProfileSnapshot::Content& content) {
  std::vector<std::string> layer_digests;
  for (const MeasuredLayer& layer : content.layers) {
    layer_digests.push_back(LayerDigest(layer.definition, layer.precision));
  }
  return SnapshotDigest(content, layer_digests);
}

std::string SnapshotDigest(const ProfileSnapshot::Content& content,
                           const std::vector<std::string>& layer_digests) {
  PARPLAN_CHECK(layer_digests.size() == content.layers.size());
  TextDigest text;
  text.Append(absl::StrCat(
      "parplan snapshot 1\n", CanonicalLine("device_kind", {StringWord(content.device_kind)}),
      CanonicalLine("devices_per_node", {IntegerWord(content.devices_per_node)}),
      CanonicalLine("overlap_slowdown",
                    {content.overlap_slowdown.has_value() ? NumberWord(*content.overlap_slowdown)
                                                          : kAbsentWord}),
      CanonicalLine("context_memory_bytes", {content.context_memory.has_value()
                                                 ? IntegerWord(content.context_memory->count())
                                                 : kAbsentWord}),
      // Absent from the texts of snapshots that are older than the field.
      content.communicator_memory.has_value()
          ? CanonicalLine("communicator_memory_bytes",
                          {IntegerWord(content.communicator_memory->count())})
          : std::string()));
  // All lines about points, sorted by bytes: by their keywords first.
  std::vector<std::string> lines;
  for (const CollectivePoint& point : content.collectives) {
    lines.push_back(CanonicalLine(
        "collective_timing",
        {IntegerWord(static_cast<int>(point.collective)), IntegerWord(point.participant_count),
         IntegerWord(point.rank_stride), IntegerWord(point.message_size.count()),
         NumberWord(point.duration.value()), IntegerWord(static_cast<int>(point.origin))}));
  }
  text.Append(SortedLines(std::move(lines)));
  AppendLayers(content.layers, layer_digests, text);
  lines.clear();
  for (const OptimizerPoint& point : content.optimizers) {
    lines.push_back(CanonicalLine(
        "optimizer_timing",
        {IntegerWord(static_cast<int>(point.optimizer)),
         IntegerWord(static_cast<int>(point.precision)), IntegerWord(point.parameter_count),
         NumberWord(point.duration.value()), IntegerWord(static_cast<int>(point.origin))}));
  }
  text.Append(SortedLines(std::move(lines)));
  return text.Hex();
}

}  // namespace parplan
