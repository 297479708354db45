#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "proto/wire/profile_wire.h"
#include "proto/wire/snapshot_builder.h"
#include "tests/proto/wire/random_values.h"
#include "tests/proto/wire/small_profile.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

absl::StatusOr<ProfileSnapshot> Merge(const std::vector<v1::Profile>& newest_first,
                                      const std::string& device_kind = "GPU") {
  // The runtime of `RandomValues`; small profiles hold for all.
  SnapshotBuilder builder(device_kind, 8, "torch");
  for (const v1::Profile& profile : newest_first) {
    PARPLAN_RETURN_IF_ERROR(builder.Add(profile).status());
  }
  return builder.Finish();
}

TEST(SnapshotBuilder, ReadsEveryValue) {
  v1::Profile profile = SmallProfile();
  profile.mutable_layer_memories(0)->set_checkpoint_bytes_per_sample(64);
  profile.mutable_layer_memories(0)->set_sequence_parallel(true);
  profile.mutable_layer_timings(0)->mutable_backward_duration()->set_nanos(9'000'000);
  profile.mutable_layer_timings(0)->set_origin(v1::ORIGIN_DERIVED);
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot, Merge({profile}));
  EXPECT_EQ(snapshot.device_kind(), "GPU");
  EXPECT_EQ(snapshot.devices_per_node(), 8);
  EXPECT_EQ(snapshot.digest().size(), 64u);
  ASSERT_EQ(snapshot.layers().size(), 1u);
  const MeasuredLayer& layer = snapshot.layers()[0];
  EXPECT_EQ(layer.precision, Precision::kBf16);
  ASSERT_EQ(layer.timings.size(), 1u);
  EXPECT_EQ(layer.timings[0].sequence_length, 32);
  EXPECT_EQ(layer.timings[0].micro_batch_size, 2);
  EXPECT_EQ(layer.timings[0].forward.value(), 0.005);
  EXPECT_EQ(layer.timings[0].backward->value(), 0.009);
  EXPECT_EQ(layer.timings[0].origin, Origin::kDerived);
  ASSERT_EQ(layer.memories.size(), 1u);
  EXPECT_TRUE(layer.memories[0].sequence_parallel);
  EXPECT_EQ(layer.memories[0].parameter_count, 49'000);
  EXPECT_EQ(layer.memories[0].activation_per_sample.count(), 1000);
  EXPECT_EQ(layer.memories[0].checkpoint_per_sample->count(), 64);
  EXPECT_EQ(layer.memories[0].origin, Origin::kMeasured);
  ASSERT_EQ(snapshot.collectives().size(), 1u);
  EXPECT_EQ(snapshot.collectives()[0].collective, Collective::kAllReduce);
  EXPECT_EQ(snapshot.collectives()[0].message_size.count(), 1 << 20);
  EXPECT_EQ(snapshot.collectives()[0].duration.value(), 0.0003);
  EXPECT_EQ(snapshot.overlap_slowdown(), 1.2);
  EXPECT_EQ(snapshot.context_memory()->count(), 1 << 29);
}

// The server reads them once for many nodes that are alike.
TEST(SnapshotBuilder, DefinitionsThatAreAlikeKeepTheirPrecisionsAndLengthsApart) {
  v1::Profile newest = SmallProfile();
  v1::Profile other_length = newest;
  other_length.mutable_layer_definitions(0)->set_sequence_length(64);
  v1::Profile other_precision = newest;
  other_precision.set_precision(v1::PRECISION_FP16);
  v1::Profile alike = newest;
  alike.mutable_layer_timings(0)->mutable_forward_duration()->set_nanos(1);
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot,
                       Merge({newest, alike, other_length, other_precision, alike}));
  ASSERT_EQ(snapshot.layers().size(), 2u);
  for (const MeasuredLayer& layer : snapshot.layers()) {
    const bool is_newest = layer.precision == Precision::kBf16;
    ASSERT_EQ(layer.timings.size(), is_newest ? 2u : 1u);
    EXPECT_EQ(layer.timings[0].sequence_length, 32);
    EXPECT_EQ(layer.timings[0].forward.value(), 0.005);
    if (is_newest) {
      EXPECT_EQ(layer.timings[1].sequence_length, 64);
    }
  }
}

v1::OptimizerTiming AdamTiming(int64_t parameter_count, int nanos) {
  v1::OptimizerTiming timing;
  timing.set_optimizer(v1::OPTIMIZER_ADAM);
  timing.set_parameter_count(parameter_count);
  timing.mutable_median_duration()->set_nanos(nanos);
  return timing;
}

TEST(SnapshotBuilder, ReadsTimesOfOptimizersAndTheirPrecision) {
  v1::Profile newer = SmallProfile();
  *newer.add_optimizer_timings() = AdamTiming(1000, 500'000);
  v1::Profile older = SmallProfile();
  *older.add_optimizer_timings() = AdamTiming(1000, 700'000);
  *older.add_optimizer_timings() = AdamTiming(2000, 900'000);
  v1::Profile other = SmallProfile();
  other.set_precision(v1::PRECISION_FP32);
  *other.add_optimizer_timings() = AdamTiming(1000, 300'000);
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot, Merge({newer, older, other}));
  ASSERT_EQ(snapshot.optimizers().size(), 3u);
  EXPECT_EQ(snapshot.optimizers()[0].precision, Precision::kFp32);
  const OptimizerPoint& newest = snapshot.optimizers()[1];
  EXPECT_EQ(newest.optimizer, Optimizer::kAdam);
  EXPECT_EQ(newest.precision, Precision::kBf16);
  EXPECT_EQ(newest.parameter_count, 1000);
  EXPECT_EQ(newest.duration.value(), 0.0005);
  EXPECT_EQ(snapshot.optimizers()[2].duration.value(), 0.0009);
  // They are part of what names a snapshot.
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot without, Merge({SmallProfile()}));
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot with, Merge({newer}));
  EXPECT_NE(with.digest(), without.digest());
}

TEST(SnapshotBuilder, TheNewestValueOfAKeyWins) {
  v1::Profile newer = SmallProfile();
  newer.mutable_layer_timings(0)->mutable_forward_duration()->set_nanos(7'000'000);
  newer.mutable_layer_definitions(0)->set_layer_definition_id("block");
  newer.mutable_layer_timings(0)->set_layer_definition_id("block");
  newer.clear_layer_memories();
  newer.clear_overlap_slowdown();
  newer.set_context_memory_bytes(7);
  v1::Profile older = SmallProfile();
  *older.add_layer_timings() = older.layer_timings(0);
  older.mutable_layer_timings(1)->set_micro_batch_size(4);

  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot, Merge({newer, older}));
  ASSERT_EQ(snapshot.layers().size(), 1u) << "local ids make no layers";
  const MeasuredLayer& layer = snapshot.layers()[0];
  ASSERT_EQ(layer.timings.size(), 2u);
  EXPECT_EQ(layer.timings[0].forward.value(), 0.007);
  EXPECT_EQ(layer.timings[1].forward.value(), 0.005) << "a key measured once stays";
  EXPECT_EQ(layer.memories.size(), 1u);
  EXPECT_EQ(snapshot.overlap_slowdown(), 1.2);
  EXPECT_EQ(snapshot.context_memory()->count(), 7);
}

// Older programs measured communicators as a part of the context.
TEST(SnapshotBuilder, CommunicatorsAreThoseOfTheProfileWhoseContextIsTaken) {
  v1::Profile apart = SmallProfile();
  apart.set_communicator_memory_bytes(1 << 20);
  v1::Profile together = SmallProfile();
  v1::Profile neither = SmallProfile();
  neither.clear_context_memory_bytes();
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot newest_apart, Merge({neither, apart, together}));
  EXPECT_EQ(newest_apart.communicator_memory(), Bytes::Of(1 << 20));
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot newest_together, Merge({together, apart}));
  EXPECT_EQ(newest_together.communicator_memory(), std::nullopt);
}

TEST(SnapshotBuilder, AnotherPrecisionIsAnotherLayer) {
  v1::Profile full = SmallProfile();
  full.set_precision(v1::PRECISION_FP32);
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot, Merge({full, SmallProfile()}));
  EXPECT_EQ(snapshot.layers().size(), 2u);
}

TEST(SnapshotBuilder, OnceOrTwiceIsTheSame) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const v1::Profile profile = RandomValues(seed).Profile();
    ASSERT_OK_AND_ASSIGN(const ProfileSnapshot once, Merge({profile}, "Device"));
    ASSERT_OK_AND_ASSIGN(const ProfileSnapshot twice, Merge({profile, profile}, "Device"));
    EXPECT_EQ(once.digest(), twice.digest());
  }
}

TEST(SnapshotBuilder, TheOrderOfPointsDoesNotMatter) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const v1::Profile profile = RandomValues(seed).Profile();
    v1::Profile reversed = profile;
    std::reverse(reversed.mutable_layer_definitions()->begin(),
                 reversed.mutable_layer_definitions()->end());
    std::reverse(reversed.mutable_layer_timings()->begin(),
                 reversed.mutable_layer_timings()->end());
    std::reverse(reversed.mutable_layer_memories()->begin(),
                 reversed.mutable_layer_memories()->end());
    std::reverse(reversed.mutable_collective_timings()->begin(),
                 reversed.mutable_collective_timings()->end());
    ASSERT_OK_AND_ASSIGN(const ProfileSnapshot a, Merge({profile}, "Device"));
    ASSERT_OK_AND_ASSIGN(const ProfileSnapshot b, Merge({reversed}, "Device"));
    EXPECT_EQ(a.digest(), b.digest());
  }
}

// Every list in two halves, cut at random; both halves repeat the definitions.
TEST(SnapshotBuilder, TwoHalvesMakeTheWhole) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomValues random(seed);
    const v1::Profile whole = random.Profile();
    v1::Profile first = whole;
    v1::Profile second = whole;
    for (v1::Profile* half : {&first, &second}) {
      half->clear_layer_timings();
      half->clear_layer_memories();
      half->clear_collective_timings();
    }
    for (const auto& x : whole.layer_timings()) {
      *(random.Flag() ? first : second).add_layer_timings() = x;
    }
    for (const auto& x : whole.layer_memories()) {
      *(random.Flag() ? first : second).add_layer_memories() = x;
    }
    for (const auto& x : whole.collective_timings()) {
      *(random.Flag() ? first : second).add_collective_timings() = x;
    }
    first.clear_overlap_slowdown();
    second.clear_context_memory_bytes();
    second.clear_communicator_memory_bytes();
    for (auto& definition : *second.mutable_layer_definitions()) {
      definition.set_layer_definition_id("x" + definition.layer_definition_id());
    }
    for (auto& x : *second.mutable_layer_timings()) {
      x.set_layer_definition_id("x" + x.layer_definition_id());
    }
    for (auto& x : *second.mutable_layer_memories()) {
      x.set_layer_definition_id("x" + x.layer_definition_id());
    }
    ASSERT_OK(ValidateProfile(first));
    ASSERT_OK(ValidateProfile(second));
    ASSERT_OK_AND_ASSIGN(const ProfileSnapshot one, Merge({whole}, "Device"));
    ASSERT_OK_AND_ASSIGN(const ProfileSnapshot two, Merge({first, second}, "Device"));
    ASSERT_OK_AND_ASSIGN(const ProfileSnapshot swapped, Merge({second, first}, "Device"));
    EXPECT_EQ(one.digest(), two.digest());
    EXPECT_EQ(one.digest(), swapped.digest());
  }
}

TEST(SnapshotBuilder, LeavesOtherNodesOut) {
  v1::Profile other_kind = SmallProfile();
  other_kind.set_device_kind("Other");
  v1::Profile other_size = SmallProfile();
  other_size.set_devices_per_node(4);
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot alone, Merge({SmallProfile()}));
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot among,
                       Merge({other_kind, SmallProfile(), other_size}));
  EXPECT_EQ(alone.digest(), among.digest());
}

TEST(SnapshotBuilder, SaysWhichKindsThereAreWhenNoneIsLeft) {
  v1::Profile other_kind = SmallProfile();
  other_kind.set_device_kind("Other");
  v1::Profile other_size = SmallProfile();
  other_size.set_devices_per_node(4);
  EXPECT_THAT(Merge({other_kind, other_size, other_kind}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no profile of `GPU` with 8 devices a node; there are `GPU` "
                                 "with 4 devices a node, `Other` with 8 devices a node. ")));
  EXPECT_THAT(Merge({}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("there are none at all")));
}

TEST(SnapshotBuilder, RefusesWhatWasNeverValidated) {
  v1::Profile profile = SmallProfile();
  profile.mutable_layer_timings(0)->set_layer_definition_id("other");
  EXPECT_THAT(Merge({profile}), StatusIs(absl::StatusCode::kInvalidArgument));
  profile = SmallProfile();
  profile.mutable_layer_timings(0)->clear_forward_duration();
  EXPECT_THAT(Merge({profile}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan
