#include "planner/find_plan.h"

#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "planner/check/plan_check.h"
#include "planner/cost/predict_plan.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/sample_layers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using testing::HasSubstr;

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr const char* kIntegerPrograms[] = {"min-memory-ilp", "alpa-like", "colossal-auto-like"};

// By default a baseline that solves one stage to its end and tries to balance several.
PlanningResult Find(const PlanningProblem& problem, absl::string_view planner = "dp+pp",
                    const SearchControl& control = {}) {
  absl::StatusOr<PlanningResult> result = FindPlan(problem, planner, control);
  EXPECT_OK(result);
  return result.ok() ? *std::move(result) : PlanningResult(StoppedEmpty{});
}

Seconds StepOf(const PlanningResult& result) {
  const auto* found = std::get_if<PlanFound>(&result);
  return found == nullptr ? Seconds::Infinite() : found->prediction.step;
}

// Searches price every layer on the first group.
TEST(FindPlan, RefusesSeveralNodeGroups) {
  const PlanningProblem alone = EstimatedProblem({.device_count = 8, .global_batch_size = 8});
  for (const std::string& planner : PlannerNames()) {
    EXPECT_THAT(FindPlan(JoinedProblem(alone, alone), planner),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("topology.node_groups")))
        << planner;
  }
}

TEST(FindPlan, PlannersOfOperatorsRefuseLayersOfOtherParts) {
  for (const LayerDefinition& layer : LayersOfAllStructures(64)) {
    if (layer.kind == LayerKind::kOpaque || layer.prediction_depth > 0) continue;
    const PlanningProblem problem = EstimatedProblemOf(layer, 1, 2, 2);
    for (const char* const planner : kIntegerPrograms) {
      if (!absl::c_linear_search(PlannerNames(), planner) || HasUsualParts(layer)) continue;
      EXPECT_THAT(FindPlan(problem, planner),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr(absl::StrCat("layer `", layer.layer_definition_id, "`"))));
    }
  }
}

TEST(FindPlan, AnswersPassTheCheck) {
  int found_count = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = SyntheticProblem(RandomSyntheticOptions(seed));
    for (const std::string& planner : PlannerNames()) {
      SCOPED_TRACE(planner);
      // These take forty times as long as all others together; `Conformance` has more problems of
      // their size.
      if (absl::c_linear_search(kIntegerPrograms, planner) && seed > 4) continue;
      const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner);
      if (!result.ok()) {
        EXPECT_THAT(result, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(planner)));
        continue;
      }
      const auto* found = std::get_if<PlanFound>(&*result);
      if (found == nullptr) continue;
      ++found_count;
      EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
      EXPECT_LE(found->search.bound, found->prediction.step);
      EXPECT_GE(found->search.gap_ratio, 0.0);
      EXPECT_LE(found->search.gap_ratio, 1.0);
      EXPECT_EQ(found->search.termination == Termination::kOptimal,
                found->search.limit == SearchLimit::kNone);
    }
  }
  EXPECT_GT(found_count, 50);
}

TEST(FindPlan, ExactIsNoSlowerThanAnyBaseline) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = SyntheticProblem(RandomSyntheticOptions(seed));
    const PlanningResult best = Find(problem, "exact");
    for (const std::string& planner : BaselineNames()) {
      SCOPED_TRACE(planner);
      const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner);
      if (!result.ok()) continue;
      const auto* found = std::get_if<PlanFound>(&*result);
      if (found == nullptr) continue;
      EXPECT_LE(StepOf(best).value(), found->prediction.step.value() * (1 + 1e-9));
    }
  }
}

TEST(FindPlan, TheSmallestMemoryWorksAndOneMebibyteLessDoesNot) {
  int checked = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SyntheticOptions options = RandomSyntheticOptions(seed);
    options.device_memory = Bytes::Of(300 * kMebibyte);
    const PlanningProblem problem = SyntheticProblem(options);
    for (const char* planner : {"dp+tp", "dp+pp", "sdp", "deepspeed-3d", "megatron", "fsdp-best"}) {
      SCOPED_TRACE(planner);
      const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner);
      if (!result.ok()) continue;
      const auto* nothing = std::get_if<NothingFits>(&*result);
      if (nothing == nullptr) continue;
      ++checked;
      const Bytes usable = nothing->smallest_usable_memory;
      EXPECT_TRUE(
          std::holds_alternative<PlanFound>(Find(problem.WithUsableMemory(usable), planner)));
      EXPECT_TRUE(std::holds_alternative<NothingFits>(
          Find(problem.WithUsableMemory(usable - Bytes::Of(1)), planner)));
      options.device_memory = nothing->smallest_device_memory;
      EXPECT_TRUE(std::holds_alternative<PlanFound>(Find(SyntheticProblem(options), planner)));
      options.device_memory = nothing->smallest_device_memory - Bytes::Of(kMebibyte);
      EXPECT_TRUE(std::holds_alternative<NothingFits>(Find(SyntheticProblem(options), planner)));
    }
  }
  EXPECT_GT(checked, 20);
}

// One stage is solved to its end.
TEST(FindPlan, MoreMemoryIsNeverSlowerOnOneStage) {
  SyntheticOptions options;
  options.rules.max_pipeline_parallel_degree = 1;
  Seconds before = Seconds::Infinite();
  int found_count = 0;
  for (int64_t mebibytes = 512; mebibytes <= 8192; mebibytes += 256) {
    options.device_memory = Bytes::Of(mebibytes * kMebibyte);
    const Seconds step = StepOf(Find(SyntheticProblem(options), "exact"));
    EXPECT_LE(step.value(), before.value() * (1.0 + 1e-12));
    found_count += step.is_finite() ? 1 : 0;
    before = step;
  }
  EXPECT_GT(found_count, 10);
}

TEST(FindPlan, FasterLinksAreNeverSlowerOnOneStage) {
  SyntheticOptions options;
  options.rules.max_pipeline_parallel_degree = 1;
  options.device_memory = Bytes::Of(1400 * kMebibyte);
  Seconds before = Seconds::Infinite();
  for (double speed : {0.1, 0.5, 1.0, 3.0, 10.0}) {
    options.link_speed = speed;
    const Seconds step = StepOf(Find(SyntheticProblem(options), "exact"));
    EXPECT_TRUE(step.is_finite());
    EXPECT_LT(step, before);
    before = step;
  }
}

TEST(FindPlan, IsProvedOptimalOnOneStage) {
  for (int64_t mebibytes : {2000, 2500, 4000, 8000}) {
    SyntheticOptions options;
    options.rules.max_pipeline_parallel_degree = 1;
    options.device_memory = Bytes::Of(mebibytes * kMebibyte);
    const PlanningResult result = Find(SyntheticProblem(options), "sdp");
    const auto& found = std::get<PlanFound>(result);
    EXPECT_EQ(found.search.termination, Termination::kOptimal);
    EXPECT_EQ(found.search.limit, SearchLimit::kNone);
    EXPECT_NEAR(found.search.gap_ratio, 0.0, 1e-9);
  }
}

TEST(FindPlan, SplittingARunChangesNothing) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SyntheticOptions options = RandomSyntheticOptions(seed);
    const PlanningResult whole = Find(SyntheticProblem(options));
    options.split_runs = true;
    const PlanningResult split = Find(SyntheticProblem(options));
    ASSERT_EQ(whole.index(), split.index());
    if (const auto* found = std::get_if<PlanFound>(&whole)) {
      EXPECT_EQ(found->plan, std::get<PlanFound>(split).plan);
    }
  }
}

TEST(FindPlan, RenamingChangesNothing) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SyntheticOptions options = RandomSyntheticOptions(seed);
    const PlanningResult before = Find(SyntheticProblem(options));
    options.name = "another";
    const PlanningResult after = Find(SyntheticProblem(options));
    ASSERT_EQ(before.index(), after.index());
    if (const auto* found = std::get_if<PlanFound>(&before)) {
      EXPECT_EQ(found->plan, std::get<PlanFound>(after).plan);
      EXPECT_EQ(found->search.expanded_state_count,
                std::get<PlanFound>(after).search.expanded_state_count);
    }
  }
}

TEST(FindPlan, ObeysTheRules) {
  SyntheticOptions options;
  options.device_memory = Bytes::Of(4096 * kMebibyte);
  options.rules.micro_batch_count = 4;
  options.rules.allow_recompute = false;
  options.rules.allow_sharded_data_parallel = false;
  options.rules.max_tensor_parallel_degree = 2;
  options.rules.max_pipeline_parallel_degree = 4;
  const PlanningResult result = Find(SyntheticProblem(options));
  const Plan& plan = std::get<PlanFound>(result).plan;
  EXPECT_EQ(plan.micro_batch_count, 4);
  EXPECT_LE(plan.pipeline_parallel_degree(), 4);
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      EXPECT_LE(run.strategy.tensor_parallel_degree, 2);
      EXPECT_EQ(run.strategy.sharding_level, ShardingLevel::kNone);
      EXPECT_EQ(run.strategy.recompute_level, RecomputeLevel::kNone);
    }
  }
}

TEST(FindPlan, NamesThePlannersThereAre) {
  EXPECT_THAT(FindPlan(SyntheticProblem(), "best"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("best"), HasSubstr("galvatron-base"))));
  EXPECT_EQ(PlannerNames().front(), "exact");
  EXPECT_EQ(BaselineNames().front(), "dp");
  EXPECT_THAT(BaselineNames(), testing::ElementsAre("dp", "sdp", "tp", "pp", "dp+tp", "dp+pp",
                                                    "deepspeed-3d", "megatron", "fsdp-best"));
  EXPECT_LT(BaselineNames().size(), PlannerNames().size());
}

// A build without CBC knows the names of the planners it lacks.
TEST(FindPlan, PlannersThatAreNotBuiltSayHowToGetThem) {
  for (const char* planner : {"min-memory-ilp", "alpa-like", "colossal-auto-like"}) {
    const absl::StatusOr<PlanningResult> result = FindPlan(SyntheticProblem(), planner);
    if (absl::c_linear_search(PlannerNames(), planner)) {
      EXPECT_OK(result.status());
      continue;
    }
    EXPECT_THAT(result,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("PARPLAN_WITH_ILP=ON")));
  }
}

TEST(FindPlan, SaysWhenNoDegreesDivide) {
  // Six heads cannot be split eight ways.
  const SyntheticOptions options{.hidden_size = 768, .attention_head_count = 6};
  EXPECT_THAT(FindPlan(SyntheticProblem(options), "tp"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::AllOf(HasSubstr("heads"),
                                      testing::Not(HasSubstr("max_tensor_parallel_degree")))));
}

// The one degree of this baseline is that of all devices, but rules keep it within a node.
TEST(FindPlan, NamesTheLimitOfTensorParallelism) {
  EstimatedOptions options{.device_count = 16,
                           .devices_per_node = 8,
                           .decoder_count = 2,
                           .hidden_size = 1024,
                           .attention_head_count = 16,
                           .global_batch_size = 16};
  EXPECT_THAT(FindPlan(EstimatedProblem(options), "tp"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("at most 8 unless max_tensor_parallel_degree allows more")));
  options.rules.max_tensor_parallel_degree = 16;
  EXPECT_OK(FindPlan(EstimatedProblem(options), "tp"));
}

TEST(FindPlan, StopsAtALimitWithTheBestSoFar) {
  SyntheticOptions options{.decoder_count = 16};
  options.device_memory = Bytes::Of(1400 * kMebibyte);
  const PlanningProblem problem = SyntheticProblem(options);
  const PlanningResult whole = Find(problem);
  const PlanningResult stopped = Find(problem, "dp+pp", {.max_state_count = 1});
  const auto& found = std::get<PlanFound>(stopped);
  EXPECT_EQ(found.search.termination, Termination::kFeasible);
  EXPECT_EQ(found.search.limit, SearchLimit::kStates);
  EXPECT_OK(CheckPlan(problem, found.plan, found.prediction));
  EXPECT_GE(found.prediction.step, StepOf(whole));
  EXPECT_LE(found.search.bound, StepOf(whole));
}

TEST(FindPlan, SaysWhatStoppedItBeforeAnyPlan) {
  const PlanningProblem problem = SyntheticProblem();
  const SearchControl control{.should_stop = [] { return true; }};
  const PlanningResult result = Find(problem, "dp+pp", control);
  const auto& stopped = std::get<StoppedEmpty>(result);
  EXPECT_EQ(stopped.search.limit, SearchLimit::kTime);
  EXPECT_EQ(stopped.search.termination, Termination::kFeasible);
  EXPECT_EQ(stopped.search.bound, Seconds());
}

TEST(FindPlan, ReportsProgressThatOnlyImproves) {
  SyntheticOptions options;
  options.device_memory = Bytes::Of(1400 * kMebibyte);
  std::vector<SearchProgress> reports;
  const SearchControl control{
      .on_progress = [&reports](const SearchProgress& progress) { reports.push_back(progress); }};
  const PlanningResult result = Find(SyntheticProblem(options), "dp+pp", control);
  const auto& found = std::get<PlanFound>(result);
  ASSERT_FALSE(reports.empty());
  for (size_t index = 1; index < reports.size(); ++index) {
    EXPECT_EQ(reports[index].done_candidate_count, reports[index - 1].done_candidate_count + 1);
    EXPECT_GE(reports[index].bound, reports[index - 1].bound);
    if (reports[index - 1].incumbent) {
      EXPECT_LE(*reports[index].incumbent, *reports[index - 1].incumbent);
    }
  }
  EXPECT_EQ(reports.back().done_candidate_count, reports.back().total_candidate_count);
  EXPECT_EQ(*reports.back().incumbent, found.prediction.step);
  EXPECT_EQ(reports.back().bound, found.search.bound);
}

TEST(FindPlan, TwiceTheMemoryEverywhereGivesTheSamePlan) {
  // Without collectives that carry parameters, sizes of states cost no time.
  SyntheticOptions options{.device_count = 4, .decoder_count = 10};
  options.device_memory = Bytes::Of(1400 * kMebibyte);
  options.rules.memory_headroom_ratio = 0.0;
  const PlanningResult once = Find(SyntheticProblem(options), "pp");
  options.memory_scale = 2;
  options.device_memory = options.device_memory * 2;
  options.context_memory = options.context_memory * 2;
  const PlanningResult twice = Find(SyntheticProblem(options), "pp");
  EXPECT_EQ(std::get<PlanFound>(once).plan, std::get<PlanFound>(twice).plan);
  // Messages and gradients of one matrix are not of the profile.
  const StagePrediction& small = std::get<PlanFound>(once).prediction.stages[0];
  const StagePrediction& large = std::get<PlanFound>(twice).prediction.stages[0];
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    if (kind == static_cast<int>(MemoryItemKind::kTransient)) continue;
    EXPECT_EQ(small.memory.size[kind] * 2, large.memory.size[kind]);
  }
}

}  // namespace
}  // namespace parplan
