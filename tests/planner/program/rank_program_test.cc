#include "planner/program/rank_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/cost/rank_memory.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

std::vector<RankProgram> AllPrograms(const Plan& plan, const ModelSpec& model) {
  std::vector<RankProgram> programs;
  for (int rank = 0; rank < plan.device_count; ++rank) {
    absl::StatusOr<RankProgram> program = RankProgram::Create(plan, model, rank);
    EXPECT_OK(program.status());
    programs.push_back(*std::move(program));
  }
  return programs;
}

// Every layer is run by all ranks of its stage, and each part of its parameters by the same
// number of them.
TEST(RankProgram, EveryLayerIsCoveredOnce) {
  const ModelSpec model = SmallGpt(6);
  for (const int ranks : {1, 2, 3, 4, 6}) {
    const std::vector<Strategy> strategies = StrategiesOf(ranks);
    const Plan plan = PlanOf(model, 2 * ranks, {3, 5}, strategies, 48, 4);
    std::map<int, std::map<int, int>> holders;  // [layer][tensor rank]
    for (const RankProgram& program : AllPrograms(plan, model)) {
      for (const StageProgram& stage : program.stages) {
        for (const LayerProgram& layer : stage.layers) {
          ++holders[layer.layer_index][layer.place.tensor];
        }
      }
    }
    ASSERT_EQ(static_cast<int>(holders.size()), model.layer_count());
    for (const auto& [layer, parts] : holders) {
      const int tensor = strategies[layer % strategies.size()].tensor_parallel_degree;
      ASSERT_EQ(static_cast<int>(parts.size()), tensor);
      for (const auto& [unused, count] : parts) ASSERT_EQ(count, ranks / tensor);
    }
  }
}

// All members of a group have it, and groups have the same order on all ranks, so the making of
// groups cannot deadlock.
TEST(RankProgram, GroupsAgreeAmongTheirMembers) {
  const ModelSpec model = SmallGpt(6, /*is_tied=*/true);
  for (const int ranks : {1, 2, 4, 6}) {
    std::vector<Strategy> strategies = StrategiesOf(ranks);
    strategies.resize(8, strategies.front());
    strategies.back() = strategies.front();
    const Plan plan = PlanOf(model, 2 * ranks, {4, 4}, strategies, 48, 4);
    std::map<GroupSpec, std::set<int>> members;
    for (const RankProgram& program : AllPrograms(plan, model)) {
      EXPECT_TRUE(std::is_sorted(program.groups.begin(), program.groups.end()));
      for (const GroupSpec& group : program.groups) members[group].insert(program.rank);
    }
    for (const auto& [group, ranks_with_it] : members) {
      EXPECT_EQ(std::set<int>(group.ranks.begin(), group.ranks.end()), ranks_with_it)
          << group.purpose;
    }
  }
}

TEST(RankProgram, GroupsByHand) {
  const ModelSpec model = SmallGpt(2);
  const Strategy strategy{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
  const Plan plan = PlanOf(model, 8, {2, 2}, {strategy}, 8, 2);
  ASSERT_OK_AND_ASSIGN(const RankProgram program, RankProgram::Create(plan, model, 5));
  EXPECT_EQ(program.pipeline_place, 1);
  ASSERT_EQ(program.stages.size(), 1u);
  const LayerProgram& layer = program.stages[0].layers[0];
  EXPECT_EQ(program.groups[layer.tensor_group], (GroupSpec{"tensor", {4, 5}}));
  EXPECT_EQ(program.groups[layer.gradient_group], (GroupSpec{"gradient", {5, 7}}));
  EXPECT_EQ(layer.context_group, -1);
  EXPECT_EQ(program.groups[program.stages[0].receive_forward_group],
            (GroupSpec{"forward 0", {0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(program.groups[program.stages[0].send_backward_group].purpose, "backward 0");
  EXPECT_EQ(program.stages[0].send_forward_group, -1);
  // From the rank in the same place of the stage before.
  ASSERT_EQ(program.stages[0].receive_forward.receives.size(), 1u);
  EXPECT_EQ(program.stages[0].receive_forward.receives[0].peer, 1);
}

// The cost model prices at least as many communicators as a rank makes, in plans of one strategy
// without virtual stages (planner/cost). The group of a stage is made only where strategies differ.
TEST(RankProgram, PlansOfOneStrategyHaveNoMoreGroupsThanArePriced) {
  for (const bool is_tied : {false, true}) {
    const ModelSpec model = SmallGpt(6, is_tied);
    for (const std::vector<int>& stages :
         {std::vector<int>{8}, std::vector<int>{3, 5}, std::vector<int>{2, 3, 3}}) {
      const int depth = static_cast<int>(stages.size());
      for (const int ranks : {1, 2, 3, 4, 6}) {
        for (const Strategy& strategy : StrategiesOf(ranks)) {
          const Plan plan = PlanOf(model, depth * ranks, stages, {strategy}, 48, 4);
          SCOPED_TRACE(PlanGist(plan));
          for (const RankProgram& program : AllPrograms(plan, model)) {
            const auto made = std::count_if(
                program.groups.begin(), program.groups.end(),
                [](const auto& group) { return group.purpose != group_purpose::kStage; });
            const bool is_edge = program.pipeline_place == 0 || program.pipeline_place == depth - 1;
            ASSERT_LE(made, CommunicatorCount(strategy, depth, is_tied && is_edge))
                << "rank " << program.rank;
          }
        }
      }
    }
  }
}

TEST(RankProgram, SixteenThousandRanks) {
  const ModelSpec model = SmallGpt(126);
  const Strategy strategy{.tensor_parallel_degree = 4, .data_parallel_degree = 64};
  Plan plan{.device_count = 16384, .global_batch_size = 8192, .micro_batch_count = 128};
  for (int stage = 0; stage < 64; ++stage) {
    plan.stages.push_back(
        {stage * 256, 256, {{2 * stage, 1, strategy}, {2 * stage + 1, 1, strategy}}});
  }
  for (const int rank : {0, 255, 256, 10000, 16383}) {
    ASSERT_OK_AND_ASSIGN(const RankProgram program, RankProgram::Create(plan, model, rank));
    EXPECT_EQ(program.pipeline_place, rank / 256);
    EXPECT_EQ(program.passes.size(), 256u);
    EXPECT_EQ(program.stages[0].layers.size(), 2u);
  }
}

TEST(RankProgram, InterleavedRanksHaveSeveralStages) {
  const ModelSpec model = SmallGpt(6);
  Plan plan = PlanOf(model, 4, {2, 2, 2, 2}, {Strategy{.data_parallel_degree = 2}}, 8, 2);
  plan.schedule = Schedule::kInterleaved;
  plan.virtual_stage_count = 2;
  for (int stage = 0; stage < 4; ++stage) {
    plan.stages[stage].first_rank = stage % 2 * 2;
    plan.stages[stage].rank_count = 2;
    for (StageLayerRun& run : plan.stages[stage].layer_runs) {
      run.strategy.data_parallel_degree = 2;
    }
  }
  ASSERT_OK_AND_ASSIGN(const RankProgram program, RankProgram::Create(plan, model, 3));
  plan.micro_batch_group_size = 4;
  EXPECT_THAT(RankProgram::Create(plan, model, 3).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("micro_batch_group_size")));
  ASSERT_EQ(program.stages.size(), 2u);
  EXPECT_EQ(program.stages[0].stage_index, 1);
  EXPECT_EQ(program.stages[1].stage_index, 3);
  // The last stage's device sends to the first one between its stages.
  EXPECT_EQ(program.stages[0].send_forward.sends.front().peer, 1);
  EXPECT_TRUE(program.stages[1].send_forward.is_empty());
}

}  // namespace
}  // namespace parplan
