#include "profiler-agent/probe/probe_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/device/backend/context_memory.h"
#include "profiler-agent/inventory/node_inventory.h"
#include "profiler-agent/probe/probe_plan.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/part_of_node.h"
#include "proto/wire/profile_wire.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

std::vector<absl::StatusOr<v1::Profile>> Probe(const agent::v1::ProbePlan& plan, int rank_count) {
  std::vector<absl::StatusOr<v1::Profile>> profiles(rank_count);
  RunRanks(rank_count, {.spin_count = 50}, [&](JobFabric& fabric) {
    const std::unique_ptr<DeviceBackend> backend = MakeCpuBackend();
    ASSERT_OK_AND_ASSIGN(const DeviceFacts facts, backend->Describe(0));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Device> device, backend->Open(0));
    profiles[fabric.rank()] = RunProbe(plan, fabric, facts, *device);
  });
  return profiles;
}

// Quick, whatever the machine does meanwhile.
agent::v1::ProbePlan SmallPlan() {
  ProbeRequest request;
  request.rank_count = 2;
  request.models = {SmallGpt(4), SmallLlama(4)};
  request.largest_message_bytes = 16384;
  request.micro_batch_sizes = {1, 2};
  request.time_budget = absl::Hours(2);
  agent::v1::ProbePlan plan = *WholeProbe(request);
  *plan.mutable_layer_time_limit() = DurationToProto(absl::Nanoseconds(1));
  *plan.mutable_collective_time_limit() = DurationToProto(absl::Nanoseconds(1));
  return plan;
}

TEST(RunProbe, AnswersAllThatIsAsked) {
  const agent::v1::ProbePlan plan = SmallPlan();
  // The context memory that ranks of parplan-exec report.
  const Bytes context = CpuContextMemory();
  const auto profiles = Probe(plan, 2);
  ASSERT_OK(profiles[0]);
  v1::Profile profile = *profiles[0];
  profile.mutable_provenance()->set_agent("test");
  EXPECT_OK(ValidateProfile(profile));
  EXPECT_TRUE(IsEmptyProbe(IncrementalProbe(plan, profile, {})));
  EXPECT_EQ(profile.collective_timings_size(), plan.collectives_size());
  EXPECT_EQ(profile.precision(), v1::PRECISION_FP32);
  EXPECT_EQ(profile.devices_per_node(), 2);
  EXPECT_GE(profile.overlap_slowdown(), 1.0);
  EXPECT_GT(context, Bytes());
  EXPECT_EQ(profile.context_memory_bytes(), context.count());
  // Both models have the same embedding and head, but not the same layers between.
  std::set<std::string> ids;
  for (const v1::LayerDefinition& layer : profile.layer_definitions()) {
    EXPECT_TRUE(ids.insert(layer.layer_definition_id()).second);
  }
  for (const v1::LayerTiming& timing : profile.layer_timings()) {
    EXPECT_TRUE(timing.has_backward_duration());
    EXPECT_GT(timing.sample_count(), 0);
  }
  // Whatever was timed has sizes too.
  std::set<std::pair<std::string, int>> sized;
  std::set<std::tuple<std::string, int, bool>> keys;
  for (const v1::LayerMemory& memory : profile.layer_memories()) {
    EXPECT_TRUE(keys.insert({memory.layer_definition_id(), memory.tensor_parallel_degree(),
                             memory.sequence_parallel()})
                    .second);
    sized.insert({memory.layer_definition_id(), memory.tensor_parallel_degree()});
    EXPECT_GT(memory.parameter_count(), 0);
    EXPECT_LE(memory.checkpoint_bytes_per_sample(), memory.activation_bytes_per_sample());
  }
  for (const v1::LayerTiming& timing : profile.layer_timings()) {
    EXPECT_TRUE(sized.contains({timing.layer_definition_id(), timing.tensor_parallel_degree()}));
  }
  // Degree 1, and 2 with the tokens shared or not.
  EXPECT_EQ(profile.layer_memories_size(), 3 * profile.layer_definitions_size());
  // The planner takes it.
  EXPECT_OK(SnapshotOfNodes({&profile}, profile.device_kind(), 2, profile.runtime_id()));
}

TEST(RunProbe, MeasuresMemoryAloneWhereNothingElseIsAsked) {
  agent::v1::ProbePlan plan = SmallPlan();
  const agent::v1::LayerKey first = plan.layers(0);
  plan.clear_layers();
  plan.clear_collectives();
  plan.set_measures_overlap(false);
  plan.set_measures_copies(false);
  *plan.add_layers() = first;
  plan.mutable_layers(0)->set_memory_only(true);
  const auto profiles = Probe(plan, 2);
  ASSERT_OK(profiles[0]);
  EXPECT_EQ(profiles[0]->layer_timings_size(), 0);
  EXPECT_EQ(profiles[0]->layer_memories_size(), profiles[0]->layer_definitions_size());
  EXPECT_GT(profiles[0]->layer_memories_size(), 0);
  EXPECT_EQ(profiles[0]->precision(), v1::PRECISION_FP32);
}

TEST(RunProbe, SaysWhichLibrariesItRanIn) {
  agent::v1::ProbePlan plan = SmallPlan();
  plan.clear_layers();
  plan.clear_collectives();
  plan.set_measures_overlap(false);
  plan.set_measures_copies(false);
  const auto profiles = Probe(plan, 2);
  ASSERT_OK(profiles[0]);
  const v1::Provenance& provenance = profiles[0]->provenance();
  ASSERT_EQ(provenance.library_versions_size(), 1);
  EXPECT_EQ(provenance.library_versions(0).library(), "onednn");
  EXPECT_THAT(provenance.library_versions(0).version(), testing::MatchesRegex("[0-9]+\\.[0-9.]+"));
}

TEST(RunProbe, NamesTheDeviceAsTheInventoryDoes) {
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory());
  const std::unique_ptr<DeviceBackend> backend = MakeCpuBackend();
  ASSERT_OK_AND_ASSIGN(const DeviceFacts facts, backend->Describe(0));
  EXPECT_THAT(DeviceKind(inventory, DeviceType::kCpu), IsOkAndHolds(facts.kind));
  TopologyOptions options;
  options.device_count = 1;
  ASSERT_OK_AND_ASSIGN(const Topology topology, ToTopology(inventory, options));
  EXPECT_EQ(topology.node_groups()[0].device_memory, facts.memory);
}

TEST(RunProbe, LeavesOutWhatTheBudgetDoesNotHoldAndSaysSo) {
  agent::v1::ProbePlan plan = SmallPlan();
  plan.set_measures_overlap(false);
  *plan.mutable_time_budget() = DurationToProto(absl::ZeroDuration());
  const auto profiles = Probe(plan, 2);
  ASSERT_OK(profiles[0]);
  EXPECT_EQ(profiles[0]->collective_timings_size(), 0);
  EXPECT_EQ(profiles[0]->layer_timings_size(), 0);
  const std::string notes = absl::StrJoin(profiles[0]->provenance().notes(), "\n");
  for (const char* const part : {"times of collectives", "sizes of layers", "Copies"}) {
    EXPECT_THAT(notes, HasSubstr(absl::StrCat(part, " were left out")));
  }
}

TEST(RunProbe, RefusesAPlanOfAnotherSize) {
  agent::v1::ProbePlan plan = SmallPlan();
  plan.set_rank_count(3);
  for (const auto& profile : Probe(plan, 2)) {
    EXPECT_THAT(profile, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank_count")));
  }
}

}  // namespace
}  // namespace parplan
