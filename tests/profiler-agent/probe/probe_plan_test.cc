#include "profiler-agent/probe/probe_plan.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/profile_wire.h"
#include "tests/planner/program/program_cases.h"
#include "tests/profiler-agent/probe/probe_requests.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using agent::v1::ProbePlan;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// A profile that has all of `plan`, with made-up times of `nanoseconds`.
v1::Profile AnswerTo(const ProbePlan& plan, int64_t nanoseconds) {
  const google::protobuf::Duration time = DurationToProto(absl::Nanoseconds(nanoseconds));
  v1::Profile profile;
  profile.mutable_provenance()->set_agent("test");
  profile.set_device_kind("CPU test");
  profile.set_devices_per_node(plan.rank_count());
  for (const auto& key : plan.collectives()) {
    v1::CollectiveTiming& timing = *profile.add_collective_timings();
    timing.set_collective(key.collective());
    timing.set_participant_count(key.participant_count());
    timing.set_rank_stride(key.rank_stride());
    timing.set_message_size_bytes(key.message_size_bytes());
    *timing.mutable_median_duration() = time;
  }
  std::set<std::string> ids;
  std::set<std::pair<std::string, int>> sized;
  for (const auto& key : plan.layers()) {
    const v1::ModelSpec& model = plan.models(key.model_index());
    profile.set_precision(model.precision());
    for (const v1::LayerDefinition& layer : model.layer_definitions()) {
      if (ids.insert(layer.layer_definition_id()).second) *profile.add_layer_definitions() = layer;
      v1::LayerTiming& timing = *profile.add_layer_timings();
      timing.set_layer_definition_id(layer.layer_definition_id());
      timing.set_tensor_parallel_degree(key.tensor_parallel_degree());
      timing.set_micro_batch_size(key.micro_batch_size());
      *timing.mutable_forward_duration() = time;
      if (!sized.insert({layer.layer_definition_id(), key.tensor_parallel_degree()}).second) {
        continue;
      }
      v1::LayerMemory& memory = *profile.add_layer_memories();
      memory.set_layer_definition_id(layer.layer_definition_id());
      memory.set_tensor_parallel_degree(key.tensor_parallel_degree());
      memory.set_parameter_count(1);
    }
  }
  if (plan.measures_overlap()) profile.set_overlap_slowdown(1.5);
  if (plan.measures_context_memory()) profile.set_context_memory_bytes(100);
  return profile;
}

TEST(WholeMessageBytes, AreFloatsInEqualShares) {
  EXPECT_EQ(WholeMessageBytes(Collective::kAllReduce, 3, 4099), 4096);
  EXPECT_EQ(WholeMessageBytes(Collective::kAllGather, 3, 4096), 4092);
  EXPECT_EQ(WholeMessageBytes(Collective::kAllToAll, 3, 1), 12);
  EXPECT_EQ(WholeMessageBytes(Collective::kSendReceive, 2, 1), 4);
}

TEST(WholeProbe, HasGroupsOfEveryShapeThatUsesAllRanks) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan six, WholeProbe(Request(6)));
  const std::set<std::pair<int, int>> pairs = {{2, 1}, {2, 3}};
  std::set<std::pair<int, int>> all = pairs;
  all.insert({{3, 1}, {3, 2}, {6, 1}});
  EXPECT_EQ(ShapesOf(six, v1::COLLECTIVE_ALL_REDUCE), all);
  EXPECT_EQ(ShapesOf(six, v1::COLLECTIVE_ALL_TO_ALL), all);
  EXPECT_EQ(ShapesOf(six, v1::COLLECTIVE_SEND_RECEIVE), pairs);
  ASSERT_OK_AND_ASSIGN(const ProbePlan eight, WholeProbe(Request(8)));
  EXPECT_THAT(ShapesOf(eight, v1::COLLECTIVE_BROADCAST),
              ElementsAre(std::pair(2, 1), std::pair(2, 2), std::pair(2, 4), std::pair(4, 1),
                          std::pair(4, 2), std::pair(8, 1)));
  ASSERT_OK_AND_ASSIGN(const ProbePlan one, WholeProbe(Request(1)));
  EXPECT_THAT(one.collectives(), IsEmpty());
  EXPECT_FALSE(one.measures_overlap());
}

TEST(WholeProbe, HasDegreesThatDivideTheModel) {
  // 12 heads, so 8 does not divide.
  ASSERT_OK_AND_ASSIGN(const ProbePlan plan, WholeProbe(Request(8)));
  std::map<int, std::set<int>> sizes;
  for (const auto& key : plan.layers()) {
    sizes[key.tensor_parallel_degree()].insert(key.micro_batch_size());
  }
  const std::set<int> all = {1, 2, 4, 8};
  EXPECT_THAT(sizes, ElementsAre(std::pair(1, all), std::pair(2, all), std::pair(4, all)));
}

TEST(WholeProbe, KeepsToItsBudget) {
  ProbeRequest request = Request(8);
  ASSERT_OK_AND_ASSIGN(const ProbePlan plan, WholeProbe(request));
  // A node of eight in three minutes: collectives in half of it.
  const absl::Duration limit = *DurationFromProto(plan.collective_time_limit(), "");
  EXPECT_LE(plan.collectives_size() * limit, absl::Seconds(90));
  EXPECT_LE(plan.layers_size() * *DurationFromProto(plan.layer_time_limit(), ""),
            absl::Seconds(180));
  // With more time there are twice as many sizes.
  request.time_budget = absl::Minutes(10);
  ASSERT_OK_AND_ASSIGN(const ProbePlan longer, WholeProbe(request));
  EXPECT_GT(longer.collectives_size(), plan.collectives_size());
}

TEST(WholeProbe, RefusesWhatCannotBe) {
  EXPECT_THAT(WholeProbe(Request(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ranks")));
  ProbeRequest request = Request(2);
  v1::ModelSpec other = ModelToProto(SmallGpt(4));
  other.set_precision(v1::PRECISION_BF16);
  request.models = {SmallGpt(2), *ModelFromProto(other)};
  EXPECT_THAT(WholeProbe(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one precision")));
}

TEST(IncrementalProbe, AsksForWhatIsMissingOnly) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan whole, WholeProbe(Request(2)));
  v1::Profile stored = AnswerTo(whole, 1000);
  EXPECT_OK(ValidateProfile(stored));
  EXPECT_TRUE(IsEmptyProbe(IncrementalProbe(whole, stored, {})));
  EXPECT_FALSE(IsEmptyProbe(whole));

  stored.mutable_collective_timings()->RemoveLast();
  stored.mutable_layer_timings()->RemoveLast();
  stored.clear_overlap_slowdown();
  const ProbePlan plan = IncrementalProbe(whole, stored, {});
  ASSERT_EQ(plan.collectives_size(), 1);
  EXPECT_EQ(plan.collectives(0).SerializeAsString(),
            whole.collectives().rbegin()->SerializeAsString());
  ASSERT_EQ(plan.layers_size(), 1);
  EXPECT_EQ(plan.layers(0).micro_batch_size(), 8);
  EXPECT_TRUE(plan.measures_overlap());
  EXPECT_FALSE(plan.measures_context_memory());
}

TEST(IncrementalProbe, AsksForMemoryAloneWhereTheTimesAreKnown) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan whole, WholeProbe(Request(2)));
  v1::Profile stored = AnswerTo(whole, 1000);
  const int degree = stored.layer_memories().rbegin()->tensor_parallel_degree();
  stored.mutable_layer_memories()->RemoveLast();
  const ProbePlan plan = IncrementalProbe(whole, stored, {});
  EXPECT_THAT(plan.collectives(), IsEmpty());
  ASSERT_EQ(plan.layers_size(), 1);
  EXPECT_TRUE(plan.layers(0).memory_only());
  EXPECT_EQ(plan.layers(0).tensor_parallel_degree(), degree);
  EXPECT_TRUE(IsEmptyProbe(IncrementalProbe(whole, MergedProfile(stored, AnswerTo(whole, 1)), {})));
  // If times are missing too, memory is measured with them.
  stored.clear_layer_timings();
  const ProbePlan both = IncrementalProbe(whole, stored, {});
  EXPECT_EQ(both.layers_size(), whole.layers_size());
  for (const auto& key : both.layers()) EXPECT_FALSE(key.memory_only());
}

TEST(IncrementalProbe, AsksForWhatDrifted) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan whole, WholeProbe(Request(4)));
  const ProbePlan plan =
      IncrementalProbe(whole, AnswerTo(whole, 1000), {{v1::COLLECTIVE_ALL_GATHER, 2, 2}});
  EXPECT_THAT(plan.layers(), IsEmpty());
  ASSERT_GT(plan.collectives_size(), 3);
  for (const auto& key : plan.collectives()) {
    EXPECT_EQ(key.collective(), v1::COLLECTIVE_ALL_GATHER);
    EXPECT_EQ(key.participant_count(), 2);
    EXPECT_EQ(key.rank_stride(), 2);
  }
}

TEST(IncrementalProbe, AsksForModelsNobodyMeasured) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan old_whole, WholeProbe(Request(2)));
  ProbeRequest request = Request(2);
  request.models = {SmallGpt(4), SmallLlama(4)};
  ASSERT_OK_AND_ASSIGN(const ProbePlan whole, WholeProbe(request));
  const ProbePlan plan = IncrementalProbe(whole, AnswerTo(old_whole, 1000), {});
  EXPECT_THAT(plan.collectives(), IsEmpty());
  ASSERT_GT(plan.layers_size(), 0);
  for (const auto& key : plan.layers()) EXPECT_EQ(key.model_index(), 1);
}

TEST(SetTimeBudget, SharesItAmongWhatThePlanAsksFor) {
  ProbeRequest request = Request(2);
  request.models = {SmallGpt(4), SmallLlama(4)};
  ASSERT_OK_AND_ASSIGN(const ProbePlan whole, WholeProbe(request));
  ASSERT_OK_AND_ASSIGN(const ProbePlan old_whole, WholeProbe(Request(2)));
  ProbePlan part = IncrementalProbe(whole, AnswerTo(old_whole, 1000), {});
  SetTimeBudget(absl::Seconds(20), part);
  EXPECT_THAT(DurationFromProto(part.time_budget(), ""), IsOkAndHolds(absl::Seconds(20)));
  EXPECT_THAT(DurationFromProto(part.layer_time_limit(), ""),
              IsOkAndHolds(absl::Seconds(20) / part.layers_size()));
  // A collective takes its time from them.
  *part.add_collectives() = whole.collectives(0);
  SetTimeBudget(absl::Seconds(20), part);
  const absl::Duration of_collective = *DurationFromProto(part.collective_time_limit(), "");
  EXPECT_GT(of_collective, absl::ZeroDuration());
  EXPECT_THAT(DurationFromProto(part.layer_time_limit(), ""),
              IsOkAndHolds((absl::Seconds(20) - of_collective) / part.layers_size()));
  // The budget of a whole plan is that of the request.
  EXPECT_THAT(DurationFromProto(whole.time_budget(), ""), IsOkAndHolds(request.time_budget));
}

TEST(WholeProbe, OfPyTorchHasWhatParplanTorchMeasures) {
  ProbeRequest request = Request(2);
  request.torch.emplace().set_runtime_id("torch");
  EXPECT_THAT(WholeProbe(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("torch_model")));
  request.torch->add_models("models:gpt");
  ASSERT_OK_AND_ASSIGN(const ProbePlan plan, WholeProbe(request));
  EXPECT_EQ(plan.torch().models(0), "models:gpt");
  EXPECT_FALSE(plan.measures_copies());
  EXPECT_GT(plan.layers_size(), 0);
  EXPECT_GT(plan.collectives_size(), 0);
  for (const auto& key : plan.collectives()) {
    EXPECT_NE(key.collective(), v1::COLLECTIVE_BROADCAST);
  }
  request.models.clear();
  request.torch->clear_models();
  EXPECT_THAT(WholeProbe(request), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(MergedProfile, TakesTheFresherOfEachTime) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan whole, WholeProbe(Request(2)));
  const v1::Profile stored = AnswerTo(whole, 1000);
  const ProbePlan drifted = IncrementalProbe(whole, stored, {{v1::COLLECTIVE_ALL_REDUCE, 2, 1}});
  const v1::Profile merged = MergedProfile(stored, AnswerTo(drifted, 2000));
  EXPECT_OK(ValidateProfile(merged));
  EXPECT_EQ(merged.collective_timings_size(), stored.collective_timings_size());
  for (const v1::CollectiveTiming& timing : merged.collective_timings()) {
    EXPECT_EQ(timing.median_duration().nanos(),
              timing.collective() == v1::COLLECTIVE_ALL_REDUCE ? 2000 : 1000);
  }
  EXPECT_EQ(merged.layer_timings_size(), stored.layer_timings_size());
  EXPECT_EQ(merged.overlap_slowdown(), 1.5);
  EXPECT_TRUE(IsEmptyProbe(IncrementalProbe(whole, merged, {})));
}

TEST(MergedProfile, KeepsTheMemoryOfCommunicatorsWithThatOfItsContext) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan whole, WholeProbe(Request(2)));
  v1::Profile stored = AnswerTo(whole, 1000);
  stored.set_communicator_memory_bytes(7);
  v1::Profile fresh = AnswerTo(whole, 2000);
  EXPECT_FALSE(MergedProfile(stored, fresh).has_communicator_memory_bytes());
  fresh.clear_context_memory_bytes();
  EXPECT_EQ(MergedProfile(stored, fresh).communicator_memory_bytes(), 7);
}

TEST(MergedProfile, KeepsOptimizerStepsThatWereNotMeasuredAgain) {
  ASSERT_OK_AND_ASSIGN(const ProbePlan whole, WholeProbe(Request(2)));
  v1::Profile stored = AnswerTo(whole, 1000);
  v1::Profile fresh = AnswerTo(IncrementalProbe(whole, stored, {}), 2000);
  const auto add = [](int64_t parameter_count, int nanoseconds, v1::Profile& profile) {
    v1::OptimizerTiming& timing = *profile.add_optimizer_timings();
    timing.set_optimizer(v1::OPTIMIZER_ADAM);
    timing.set_parameter_count(parameter_count);
    timing.mutable_median_duration()->set_nanos(nanoseconds);
  };
  add(10, 1000, stored);
  add(20, 1000, stored);
  add(20, 2000, fresh);
  std::map<int64_t, int> steps;
  const v1::Profile merged = MergedProfile(stored, fresh);
  for (const v1::OptimizerTiming& timing : merged.optimizer_timings()) {
    EXPECT_TRUE(steps.emplace(timing.parameter_count(), timing.median_duration().nanos()).second);
  }
  EXPECT_THAT(steps, ElementsAre(Pair(10, 1000), Pair(20, 2000)));
}

TEST(MergedProfile, KeepsLayersOfEqualIdsApart) {
  ProbeRequest request = Request(2);
  ASSERT_OK_AND_ASSIGN(const ProbePlan gpt, WholeProbe(request));
  request.models = {SmallLlama(4)};
  ASSERT_OK_AND_ASSIGN(const ProbePlan llama, WholeProbe(request));
  const v1::Profile merged = MergedProfile(AnswerTo(gpt, 1000), AnswerTo(llama, 2000));
  EXPECT_OK(ValidateProfile(merged));
  EXPECT_TRUE(IsEmptyProbe(IncrementalProbe(gpt, merged, {})));
  EXPECT_TRUE(IsEmptyProbe(IncrementalProbe(llama, merged, {})));
}

}  // namespace
}  // namespace parplan
