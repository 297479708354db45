// The digest of a snapshot against its definition, and the words of its text.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/model/profile_snapshot.h"
#include "proto/wire/canonical_text.h"
#include "proto/wire/digest.h"
#include "proto/wire/model_wire.h"
#include "tests/proto/wire/small_profile.h"

namespace parplan {
namespace {

// The text by the definition: all lines about points, sorted together.
std::string PlainSnapshotDigest(const ProfileSnapshot::Content& content) {
  std::vector<std::string> lines;
  for (const MeasuredLayer& layer : content.layers) {
    const std::string digest = LayerDigest(layer.definition, layer.precision);
    lines.push_back(CanonicalLine("layer", {digest}));
    for (const LayerTimingPoint& point : layer.timings) {
      lines.push_back(CanonicalLine(
          "layer_timing",
          {digest, IntegerWord(point.tensor_parallel_degree), IntegerWord(point.sequence_length),
           IntegerWord(point.micro_batch_size), NumberWord(point.forward.value()),
           point.backward.has_value() ? NumberWord(point.backward->value()) : kAbsentWord,
           IntegerWord(static_cast<int>(point.origin))}));
    }
    for (const LayerMemoryPoint& point : layer.memories) {
      lines.push_back(CanonicalLine(
          "layer_memory",
          {digest, IntegerWord(point.tensor_parallel_degree), FlagWord(point.sequence_parallel),
           IntegerWord(point.sequence_length), IntegerWord(point.parameter_count),
           IntegerWord(point.activation_per_sample.count()), kAbsentWord,
           IntegerWord(static_cast<int>(point.origin))}));
    }
  }
  for (const CollectivePoint& point : content.collectives) {
    lines.push_back(CanonicalLine(
        "collective_timing",
        {IntegerWord(static_cast<int>(point.collective)), IntegerWord(point.participant_count),
         IntegerWord(point.rank_stride), IntegerWord(point.message_size.count()),
         NumberWord(point.duration.value()), IntegerWord(static_cast<int>(point.origin))}));
  }
  for (const OptimizerPoint& point : content.optimizers) {
    lines.push_back(CanonicalLine(
        "optimizer_timing",
        {IntegerWord(static_cast<int>(point.optimizer)),
         IntegerWord(static_cast<int>(point.precision)), IntegerWord(point.parameter_count),
         NumberWord(point.duration.value()), IntegerWord(static_cast<int>(point.origin))}));
  }
  return Sha256Hex(absl::StrCat(
      "parplan snapshot 1\n", CanonicalLine("device_kind", {StringWord(content.device_kind)}),
      CanonicalLine("devices_per_node", {IntegerWord(content.devices_per_node)}),
      CanonicalLine("overlap_slowdown", {kAbsentWord}),
      CanonicalLine("context_memory_bytes", {kAbsentWord}), SortedLines(std::move(lines))));
}

TEST(SnapshotDigest, IsThatOfTheSortedLines) {
  std::mt19937 random(7);
  const auto draw = [&random](int limit) { return static_cast<int>(random() % limit); };
  const LayerDefinition base =
      LayerDefinitionFromProto(SmallProfile().layer_definitions(0), "layer").value();
  for (int round = 0; round < 50; ++round) {
    ProfileSnapshot::Content content;
    content.device_kind = "GPU";
    content.devices_per_node = 8;
    for (int i = draw(20); i > 0; --i) {
      MeasuredLayer& layer = content.layers.emplace_back();
      layer.definition = base;
      // Some layers are the same, in any order.
      layer.definition.hidden_size = 64 * (1 + draw(10));
      for (int k = draw(12); k > 0; --k) {
        LayerTimingPoint& point = layer.timings.emplace_back();
        point.tensor_parallel_degree = 1 + draw(12);
        point.sequence_length = 32;
        point.micro_batch_size = 1 + draw(20);
        point.forward = Seconds::Of(1e-6 * draw(1000));
        if (draw(2) == 0) point.backward = Seconds::Of(1e-3 / (1 + draw(1000)));
      }
      for (int k = draw(4); k > 0; --k) {
        LayerMemoryPoint& point = layer.memories.emplace_back();
        point.tensor_parallel_degree = 1 + draw(12);
        point.sequence_parallel = draw(2) == 0;
        point.sequence_length = 32;
        point.parameter_count = draw(1000);
        point.activation_per_sample = Bytes::Of(draw(1000));
      }
    }
    for (int k = draw(12); k > 0; --k) {
      CollectivePoint& point = content.collectives.emplace_back();
      point.participant_count = 2 + draw(12);
      point.message_size = Bytes::Of(1 + draw(1000));
      point.duration = Seconds::Of(1e-6 * (1 + draw(1000)));
    }
    for (int k = draw(3); k > 0; --k) {
      content.optimizers.emplace_back().parameter_count = 1 + draw(1000);
    }
    EXPECT_EQ(SnapshotDigest(content), PlainSnapshotDigest(content)) << round;
  }
}

TEST(NumberWord, IsTheTextOfPrintf) {
  std::mt19937_64 random(7);
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0,
                                0.1,
                                1e-5,
                                123456789012345678.0,
                                1e16,
                                1e17,
                                std::numeric_limits<double>::max(),
                                std::numeric_limits<double>::min(),
                                std::numeric_limits<double>::denorm_min(),
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity()};
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isnan(value)) values.push_back(value);
    // Durations as they are measured.
    values.push_back(static_cast<double>(bits % 10'000'000'000) / 1e9);
  }
  for (const double value : values) {
    EXPECT_EQ(NumberWord(value), absl::StrFormat("%.17g", value));
  }
}

}  // namespace
}  // namespace parplan
