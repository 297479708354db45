#include "profiler-agent/daemon/remembered.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "proto/wire/duration_wire.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

constexpr absl::Duration kWeek = absl::Hours(24 * 7);
const absl::Time kNow = absl::FromUnixSeconds(2000000000);

agent::v1::ProbePlan Whole(std::vector<ModelSpec> models = {}) {
  ProbeRequest request;
  request.rank_count = 2;
  request.models = std::move(models);
  return *WholeProbe(request);
}

// Times for the collectives of a plan, and none for its layers.
v1::Profile AnswerTo(const agent::v1::ProbePlan& plan) {
  v1::Profile profile;
  profile.set_device_kind("CPU test");
  profile.set_devices_per_node(2);
  profile.set_overlap_slowdown(1.5);
  profile.set_context_memory_bytes(1);
  for (const auto& key : plan.collectives()) {
    v1::CollectiveTiming& timing = *profile.add_collective_timings();
    timing.set_collective(key.collective());
    timing.set_participant_count(key.participant_count());
    timing.set_rank_stride(key.rank_stride());
    timing.set_message_size_bytes(key.message_size_bytes());
    *timing.mutable_median_duration() = DurationToProto(absl::Microseconds(10));
  }
  return profile;
}

class RememberedTest : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() { ASSERT_OK_AND_ASSIGN(remembered_, Remembered::Open(folder_)); }
  void LearnWhole(const agent::v1::ProbePlan& whole) {
    ASSERT_OK(
        remembered_->Learn({MeasurementKind::kWhole, whole}, whole, "node", AnswerTo(whole), kNow));
  }
  std::optional<NextProbe> Next(const agent::v1::ProbePlan& whole,
                                const std::string& fingerprint = "node",
                                const std::set<CollectiveShape>& drifted = {},
                                absl::Time now = kNow) {
    return remembered_->Next(whole, fingerprint, drifted, now, kWeek);
  }

  const std::string folder_ = MakeTestFolder();
  std::unique_ptr<Remembered> remembered_;
};

TEST_F(RememberedTest, AsksForAllOnceAndThenForNothing) {
  const agent::v1::ProbePlan whole = Whole();
  const std::optional<NextProbe> first = Next(whole);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->kind, MeasurementKind::kWhole);
  EXPECT_EQ(first->plan.SerializeAsString(), whole.SerializeAsString());
  LearnWhole(whole);
  EXPECT_FALSE(Next(whole).has_value());
  Reopen();
  EXPECT_FALSE(Next(whole).has_value());
  EXPECT_EQ(remembered_->profile().collective_timings_size(), whole.collectives_size());
}

TEST_F(RememberedTest, AsksForAllOfAnotherRuntimeOrReleaseOfPyTorch) {
  LearnWhole(Whole());
  agent::v1::ProbePlan whole = Whole();
  whole.mutable_torch()->set_runtime_id("torch");
  whole.mutable_torch()->set_version("2.15.0");
  // What was measured is of parplan's executor.
  EXPECT_EQ(Next(whole)->kind, MeasurementKind::kWhole);
  v1::Profile fresh = AnswerTo(whole);
  fresh.set_runtime_id("torch");
  v1::LibraryVersion& torch = *fresh.mutable_provenance()->add_library_versions();
  torch.set_library("torch");
  torch.set_version("2.15.0");
  ASSERT_OK(remembered_->Learn({MeasurementKind::kWhole, whole}, whole, "node", fresh, kNow));
  EXPECT_FALSE(Next(whole).has_value());
  whole.mutable_torch()->set_version("2.16.0");
  EXPECT_EQ(Next(whole)->kind, MeasurementKind::kWhole);
  whole.mutable_torch()->set_version("2.15.0");
  whole.mutable_torch()->set_runtime_id("torch-compile");
  EXPECT_EQ(Next(whole)->kind, MeasurementKind::kWhole);
  EXPECT_EQ(Next(Whole())->kind, MeasurementKind::kWhole);
}

TEST_F(RememberedTest, AsksForAllOfAnotherNodeAndOfOldTimes) {
  const agent::v1::ProbePlan whole = Whole();
  LearnWhole(whole);
  EXPECT_EQ(Next(whole, "node with another driver")->kind, MeasurementKind::kWhole);
  EXPECT_FALSE(Next(whole, "node", {}, kNow + kWeek).has_value());
  EXPECT_EQ(Next(whole, "node", {}, kNow + kWeek + absl::Seconds(1))->kind,
            MeasurementKind::kWhole);
  // A clock that was put back.
  EXPECT_EQ(Next(whole, "node", {}, kNow - absl::Hours(1))->kind, MeasurementKind::kWhole);
}

TEST_F(RememberedTest, AsksForWhatDrifted) {
  const agent::v1::ProbePlan whole = Whole();
  LearnWhole(whole);
  const std::optional<NextProbe> next = Next(whole, "node", {{v1::COLLECTIVE_BROADCAST, 2, 1}});
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->kind, MeasurementKind::kIncremental);
  ASSERT_GT(next->plan.collectives_size(), 0);
  for (const auto& key : next->plan.collectives()) {
    EXPECT_EQ(key.collective(), v1::COLLECTIVE_BROADCAST);
  }
  EXPECT_FALSE(next->plan.measures_overlap());
  ASSERT_OK(remembered_->Learn(*next, whole, "node", AnswerTo(next->plan), kNow));
  EXPECT_EQ(remembered_->profile().collective_timings_size(), whole.collectives_size());
}

TEST_F(RememberedTest, AsksForANewModelOnceThoughItCannotBeMeasured) {
  LearnWhole(Whole());
  const agent::v1::ProbePlan with_model = Whole({SmallGpt(4)});
  const std::optional<NextProbe> next = Next(with_model);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->kind, MeasurementKind::kIncremental);
  EXPECT_EQ(next->plan.collectives_size(), 0);
  EXPECT_EQ(next->plan.layers_size(), with_model.layers_size());
  // Nothing of it could be run.
  ASSERT_OK(remembered_->Learn(*next, with_model, "node", AnswerTo(next->plan), kNow));
  EXPECT_FALSE(Next(with_model).has_value());
  Reopen();
  EXPECT_FALSE(Next(with_model).has_value());
  // Less time for the same is the same.
  agent::v1::ProbePlan quicker = with_model;
  *quicker.mutable_time_budget() = DurationToProto(absl::Seconds(1));
  EXPECT_FALSE(Next(quicker).has_value());
  EXPECT_TRUE(Next(Whole({SmallLlama(4)})).has_value());
}

TEST_F(RememberedTest, AsksAgainForWhatWasLeftOutAsLongAsSomeOfItComes) {
  const agent::v1::ProbePlan whole = Whole();
  agent::v1::ProbePlan measured = whole;
  const auto leave_out = [&measured](int count) {
    for (int i = 0; i < count; ++i) measured.mutable_collectives()->RemoveLast();
  };
  leave_out(5);
  ASSERT_OK(remembered_->Learn({MeasurementKind::kWhole, whole}, whole, "node", AnswerTo(measured),
                               kNow));
  Reopen();
  std::optional<NextProbe> next = Next(whole);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->kind, MeasurementKind::kIncremental);
  EXPECT_EQ(next->plan.collectives_size(), 5);
  // Two of the five.
  measured = next->plan;
  leave_out(3);
  ASSERT_OK(remembered_->Learn(*next, whole, "node", AnswerTo(measured), kNow));
  next = Next(whole);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->plan.collectives_size(), 3);
  // None of the three: they can't be measured. What drifts still can.
  measured.clear_collectives();
  ASSERT_OK(remembered_->Learn(*next, whole, "node", AnswerTo(measured), kNow));
  EXPECT_FALSE(Next(whole).has_value());
  next = Next(whole, "node", {{v1::COLLECTIVE_ALL_REDUCE, 2, 1}});
  ASSERT_TRUE(next.has_value());
  ASSERT_OK(remembered_->Learn(*next, whole, "node", AnswerTo(next->plan), kNow));
  EXPECT_FALSE(Next(whole).has_value());
}

TEST_F(RememberedTest, ForgetsWhatIsDamaged) {
  LearnWhole(Whole());
  std::filesystem::resize_file(folder_ + "/measured.record", 150);
  Reopen();
  EXPECT_EQ(Next(Whole())->kind, MeasurementKind::kWhole);
}

TEST_F(RememberedTest, SaysSoWhenTheDiskIsFull) {
  const agent::v1::ProbePlan whole = Whole();
  const FileSizeLimit limit(300);
  EXPECT_THAT(
      remembered_->Learn({MeasurementKind::kWhole, whole}, whole, "node", AnswerTo(whole), kNow),
      StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(folder_)));
  // This process knows it nevertheless.
  EXPECT_FALSE(Next(whole).has_value());
}

}  // namespace
}  // namespace parplan
