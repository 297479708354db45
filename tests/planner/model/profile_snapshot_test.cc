#include "planner/model/profile_snapshot.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/planner/model/broken_rule.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using Content = ProfileSnapshot::Content;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

LayerDefinition Encoder(int hidden_size) {
  LayerDefinition raw;
  raw.layer_definition_id = "encoder";
  raw.kind = LayerKind::kEncoder;
  raw.hidden_size = hidden_size;
  raw.attention_head_count = 16;
  raw.feed_forward_size = 4 * hidden_size;
  raw.feed_forward_kind = FeedForwardKind::kGelu;
  raw.sequence_length = 512;
  return *LayerDefinition::Create(raw, "encoder");
}

LayerTimingPoint UnitTiming(int tensor_degree, int sequence_length, int micro_batch_size) {
  LayerTimingPoint point;
  point.tensor_parallel_degree = tensor_degree;
  point.sequence_length = sequence_length;
  point.micro_batch_size = micro_batch_size;
  point.forward = Seconds::Milliseconds(micro_batch_size);
  return point;
}

LayerMemoryPoint UnitMemory(int tensor_degree, bool sequence_parallel) {
  LayerMemoryPoint point;
  point.tensor_parallel_degree = tensor_degree;
  point.sequence_parallel = sequence_parallel;
  point.sequence_length = 512;
  point.parameter_count = 1000;
  point.activation_per_sample = Bytes::Of(1000);
  return point;
}

CollectivePoint UnitPoint(Collective collective, int participants, int stride, int64_t bytes) {
  return {collective, participants, stride, Bytes::Of(bytes), Seconds::Milliseconds(1)};
}

// Two layers and two collectives, everything out of order.
Content ValidContent() {
  Content content;
  content.digest = "0123";
  content.device_kind = "NVIDIA A100-SXM4-40GB";
  content.devices_per_node = 8;
  content.layers = {
      {Encoder(1280),
       Precision::kBf16,
       {UnitTiming(2, 512, 1), UnitTiming(1, 1024, 1), UnitTiming(1, 512, 8),
        UnitTiming(1, 512, 4)},
       {UnitMemory(2, true), UnitMemory(2, false), UnitMemory(1, false)}},
      {Encoder(1024), Precision::kBf16, {UnitTiming(1, 512, 1)}, {UnitMemory(1, false)}},
  };
  content.collectives = {
      UnitPoint(Collective::kAllGather, 8, 1, 1000), UnitPoint(Collective::kAllReduce, 8, 1, 2000),
      UnitPoint(Collective::kAllReduce, 8, 1, 1000), UnitPoint(Collective::kAllReduce, 2, 4, 1000),
      UnitPoint(Collective::kAllReduce, 2, 1, 1000),
  };
  content.overlap_slowdown = 1.3;
  content.context_memory = Bytes::Of(500'000'000);
  return content;
}

TEST(ProfileSnapshot, SortsItsPoints) {
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot profile, ProfileSnapshot::Create(ValidContent()));
  std::vector<std::vector<int>> timings;
  for (const LayerTimingPoint& point : profile.layers()[0].timings) {
    timings.push_back(
        {point.tensor_parallel_degree, point.sequence_length, point.micro_batch_size});
  }
  EXPECT_EQ(timings,
            (std::vector<std::vector<int>>{{1, 512, 4}, {1, 512, 8}, {1, 1024, 1}, {2, 512, 1}}));

  std::vector<std::pair<int, bool>> memories;
  for (const LayerMemoryPoint& point : profile.layers()[0].memories) {
    memories.emplace_back(point.tensor_parallel_degree, point.sequence_parallel);
  }
  EXPECT_EQ(memories, (std::vector<std::pair<int, bool>>{{1, false}, {2, false}, {2, true}}));

  std::vector<std::vector<int64_t>> collectives;
  for (const CollectivePoint& point : profile.collectives()) {
    collectives.push_back({static_cast<int>(point.collective), point.participant_count,
                           point.rank_stride, point.message_size.count()});
  }
  EXPECT_EQ(
      collectives,
      (std::vector<std::vector<int64_t>>{
          {1, 2, 1, 1000}, {1, 2, 4, 1000}, {1, 8, 1, 1000}, {1, 8, 1, 2000}, {2, 8, 1, 1000}}));
}

// Layers in which few fields differ; each is compared with all before it here.
TEST(ProfileSnapshot, RefusesTheFirstLayerThatIsOneBeforeIt) {
  std::mt19937 random(1);
  const auto draw = [&random](int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random);
  };
  int refused_count = 0;
  for (int round = 0; round < 300; ++round) {
    Content content = ValidContent();
    content.layers.clear();
    std::string expected;
    for (int i = 0; i < 12; ++i) {
      LayerDefinition layer = Encoder(256 * (1 + draw(4)));
      layer.layer_definition_id = absl::StrCat("layer-", i);
      layer.sequence_length = 128 * (1 + draw(4));
      layer.attention_window = 64 * draw(3);
      layer.frozen = draw(4) == 0;
      layer.wide_products = draw(4) == 0;
      const Precision precision = draw(2) == 0 ? Precision::kBf16 : Precision::kFp16;
      for (const MeasuredLayer& other : content.layers) {
        if (!expected.empty() || other.precision != precision) continue;
        if (!SameLayer(other.definition, layer)) continue;
        expected = absl::StrCat("layer `", layer.layer_definition_id, "`: is the same as `",
                                other.definition.layer_definition_id, "`");
      }
      content.layers.push_back({layer, precision, {}, {}});
    }
    refused_count += expected.empty() ? 0 : 1;
    const absl::Status status = ProfileSnapshot::Create(content).status();
    EXPECT_EQ(status.ok(), expected.empty());
    EXPECT_THAT(status.message(), HasSubstr(expected));
  }
  EXPECT_GT(refused_count, 50);
  EXPECT_LT(refused_count, 250);
}

TEST(ProfileSnapshot, FindsLayersBySizeAndPrecisionNotByName) {
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot profile, ProfileSnapshot::Create(ValidContent()));
  LayerDefinition renamed = Encoder(1024);
  renamed.layer_definition_id = "block";
  renamed.sequence_length = 4096;
  EXPECT_EQ(profile.FindLayer(renamed, Precision::kBf16), &profile.layers()[1]);
  EXPECT_EQ(profile.FindLayer(renamed, Precision::kFp16), nullptr);
  EXPECT_EQ(profile.FindLayer(Encoder(2048), Precision::kBf16), nullptr);
}

TEST(ProfileSnapshot, HoldsOneLayerInSeveralPrecisions) {
  Content content = ValidContent();
  content.layers[1] = content.layers[0];
  content.layers[1].precision = Precision::kFp32;
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot profile, ProfileSnapshot::Create(content));
  EXPECT_EQ(profile.FindLayer(Encoder(1280), Precision::kFp32), &profile.layers()[1]);
}

TEST(ProfileSnapshot, MayHoldNoMeasurementAtAll) {
  Content content;
  content.device_kind = "NVIDIA A100-SXM4-40GB";
  content.devices_per_node = 8;
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot profile, ProfileSnapshot::Create(content));
  EXPECT_FALSE(profile.overlap_slowdown().has_value());
  EXPECT_FALSE(profile.context_memory().has_value());
}

TEST(ProfileSnapshot, TakesNoContentionAsASlowdownOfOne) {
  Content content = ValidContent();
  content.overlap_slowdown = 1.0;
  EXPECT_OK(ProfileSnapshot::Create(content));
}

TEST(CollectiveName, IsTheNameOfTheOperation) {
  EXPECT_STREQ(CollectiveName(Collective::kAllReduce), "all-reduce");
  EXPECT_STREQ(CollectiveName(Collective::kAllGather), "all-gather");
  EXPECT_STREQ(CollectiveName(Collective::kReduceScatter), "reduce-scatter");
  EXPECT_STREQ(CollectiveName(Collective::kAllToAll), "all-to-all");
  EXPECT_STREQ(CollectiveName(Collective::kSendReceive), "send-receive");
  EXPECT_STREQ(CollectiveName(Collective::kBroadcast), "broadcast");
}

// The field is part of its path.
using BrokenContent = BrokenRule<Content>;

class ProfileSnapshotRules : public testing::TestWithParam<BrokenContent> {};

TEST_P(ProfileSnapshotRules, AreEnforcedAndNamed) {
  Content content = ValidContent();
  GetParam().break_it(content);
  EXPECT_THAT(Rejection(ProfileSnapshot::Create(content).status()),
              AllOf(StartsWith("PROFILE_INVALID "), HasSubstr(GetParam().field)));
}

std::vector<BrokenContent> BrokenRules() {
  return {
      {"NoDeviceKind", "device_kind", [](Content& c) { c.device_kind = ""; }},
      {"NoDevices", "devices_per_node", [](Content& c) { c.devices_per_node = 0; }},
      {"SpeedUpByOverlap", "overlap_slowdown", [](Content& c) { c.overlap_slowdown = 0.9; }},
      {"EndlessOverlap", "overlap_slowdown",
       [](Content& c) { c.overlap_slowdown = std::numeric_limits<double>::infinity(); }},
      {"OverlapNotANumber", "overlap_slowdown",
       [](Content& c) { c.overlap_slowdown = kNotANumber; }},
      {"NegativeContext", "context_memory_bytes",
       [](Content& c) { c.context_memory = Bytes::Of(-1); }},
      {"NegativeCommunicator", "communicator_memory_bytes",
       [](Content& c) { c.communicator_memory = Bytes::Of(-1); }},
      {"CommunicatorWithoutContext", "communicator_memory_bytes",
       [](Content& c) {
         c.context_memory.reset();
         c.communicator_memory = Bytes::Of(1);
       }},
      {"LayerTwice", "encoder", [](Content& c) { c.layers[1] = c.layers[0]; }},
      {"TimingWithoutDegree", "layer_timings[1].tensor_parallel_degree",
       [](Content& c) { c.layers[0].timings[1].tensor_parallel_degree = 0; }},
      {"TimingWithoutSamples", "layer_timings[2].micro_batch_size",
       [](Content& c) { c.layers[0].timings[2].micro_batch_size = 0; }},
      {"TimingWithoutTokens", "layer_timings[2].sequence_length",
       [](Content& c) { c.layers[0].timings[2].sequence_length = 0; }},
      {"NoForwardTime", "layer_timings[0].forward_duration",
       [](Content& c) { c.layers[0].timings[0].forward = Seconds(); }},
      {"NegativeForwardTime", "layer_timings[0].forward_duration",
       [](Content& c) { c.layers[0].timings[0].forward = Seconds::Of(-1); }},
      {"EndlessForwardTime", "layer_timings[0].forward_duration",
       [](Content& c) { c.layers[0].timings[0].forward = Seconds::Infinite(); }},
      {"ForwardTimeNotANumber", "layer_timings[0].forward_duration",
       [](Content& c) { c.layers[0].timings[0].forward = Seconds::Of(kNotANumber); }},
      {"NoBackwardTime", "layer_timings[0].backward_duration",
       [](Content& c) { c.layers[0].timings[0].backward = Seconds(); }},
      {"TimingTwice", "encoder",
       [](Content& c) { c.layers[0].timings[1] = c.layers[0].timings[3]; }},
      {"MemoryWithoutDegree", "layer_memories[0].tensor_parallel_degree",
       [](Content& c) { c.layers[0].memories[0].tensor_parallel_degree = 0; }},
      {"MemoryWithoutTokens", "layer_memories[0].sequence_length",
       [](Content& c) { c.layers[0].memories[0].sequence_length = 0; }},
      {"NegativeParameters", "layer_memories[0].parameter_count",
       [](Content& c) { c.layers[0].memories[0].parameter_count = -1; }},
      {"NegativeActivations", "layer_memories[0].activation_bytes_per_sample",
       [](Content& c) { c.layers[0].memories[0].activation_per_sample = Bytes::Of(-1); }},
      {"NegativeCheckpoint", "layer_memories[0].checkpoint_bytes_per_sample",
       [](Content& c) { c.layers[0].memories[0].checkpoint_per_sample = Bytes::Of(-1); }},
      {"MemoryTwice", "encoder",
       [](Content& c) { c.layers[0].memories[1] = c.layers[0].memories[0]; }},
      {"CollectiveOfOne", "collective_timings[0].participant_count",
       [](Content& c) { c.collectives[0].participant_count = 1; }},
      {"SendToThree", "collective_timings[0].participant_count",
       [](Content& c) { c.collectives[0].collective = Collective::kSendReceive; }},
      {"NoStride", "collective_timings[0].rank_stride",
       [](Content& c) { c.collectives[0].rank_stride = 0; }},
      {"NoMessage", "collective_timings[0].message_size_bytes",
       [](Content& c) { c.collectives[0].message_size = Bytes(); }},
      {"NoTime", "collective_timings[0].median_duration",
       [](Content& c) { c.collectives[0].duration = Seconds(); }},
      {"CollectiveTwice", "collective_timings",
       [](Content& c) { c.collectives[1] = c.collectives[2]; }},
  };
}

INSTANTIATE_TEST_SUITE_P(All, ProfileSnapshotRules, testing::ValuesIn(BrokenRules()),
                         [](const testing::TestParamInfo<BrokenContent>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace parplan
