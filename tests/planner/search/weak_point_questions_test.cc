// Weak points 10 to 12 of the public Galvatron engine, as numbered in docs/galvatron.md:
// questions it does not answer. Each test is one on which a planner with the weakness fails.

#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/find_plan.h"
#include "tests/planner/search/weak_points.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/hand_made_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using enum SearchDimension;
using testing::HasSubstr;

// Every planner answers on 6 and 12 devices, with plans that use all of them.
TEST(WeakPoint10, AnyNumberOfDevicesWillDo) {
  for (const int devices : {6, 12}) {
    HandMadeOptions options{.layers = {{.count = 12}},
                            .device_count = devices,
                            .devices_per_node = 6,
                            .global_batch_size = 12};
    options.rules = {.max_tensor_parallel_degree = devices};
    for (const std::string& planner : PlannerNames()) {
      // Below.
      if (planner == "min-memory-ilp" || planner == "alpa-like" ||
          planner == "colossal-auto-like") {
        continue;
      }
      SCOPED_TRACE(absl::StrCat(planner, " on ", devices));
      const PlanningProblem problem = HandMadeProblem(options);
      const std::optional<PlanFound> found = AnswerOf(problem, planner);
      ASSERT_TRUE(found.has_value());
      EXPECT_OK(CheckPlanStructure(problem, found->plan));
      for (const StagePlan& stage : found->plan.stages) {
        for (const StageLayerRun& run : stage.layer_runs) {
          EXPECT_EQ(run.strategy.rank_count() * found->plan.pipeline_parallel_degree(), devices);
        }
      }
    }
  }
}

TEST(WeakPoint10, IntegerProgrammesAnswerOnSixDevices) {
  HandMadeOptions options{.layers = {{.count = 2}}, .device_count = 6, .global_batch_size = 6};
  options.rules = {};
  for (const char* planner : {"min-memory-ilp", "alpa-like", "colossal-auto-like"}) {
    if (!absl::c_linear_search(PlannerNames(), planner)) continue;  // not part of this build
    EXPECT_TRUE(AnswerOf(HandMadeProblem(options), planner).has_value()) << planner;
  }
}

// Memory permits only tensor parallelism; with a profile of either kind.
TEST(WeakPoint10, TensorParallelismNeedsNoSequenceParallelism) {
  for (const bool sequence_parallel : {false, true}) {
    HandMadeOptions options{.layers = {{.count = 4, .parameter_count = 240'000'000}},
                            .device_count = 4,
                            .device_memory = Bytes::Of(6'000'000'000),
                            .sequence_parallel = sequence_parallel};
    options.rules = RulesOf({kTensor});
    for (const char* planner : {"exact", "galvatron", "tp", "megatron"}) {
      SCOPED_TRACE(planner);
      const std::optional<PlanFound> found = AnswerOf(HandMadeProblem(options), planner);
      ASSERT_TRUE(found.has_value());
      for (const Strategy& strategy : StrategyByLayer(found->plan)) {
        EXPECT_EQ(strategy.tensor_parallel_degree, 4);
        EXPECT_EQ(strategy.sequence_parallel, sequence_parallel);
      }
    }
  }
}

TEST(WeakPoint11, AnotherSequenceLengthIsNamedOrEstimated) {
  HandMadeOptions options{.layers = {{.count = 2}}, .device_count = 2};
  options.measured_sequence_length = 2;
  const absl::StatusOr<PlanningResult> missing = FindPlan(HandMadeProblem(options), "exact");
  EXPECT_THAT(missing, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("`layer0`")));
  EXPECT_EQ(GetErrorDetail(missing.status())->reason, Reason::kProfileMissing);
  options.rules.allow_estimates = true;
  const std::optional<PlanFound> found = AnswerOf(HandMadeProblem(options));
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->prediction.estimated_items, testing::Contains(HasSubstr("`layer0`")));
  EXPECT_NE(found->prediction.confidence, Confidence::kMeasured);
}

TEST(WeakPoint12, NegativeTimesAreRefusedByName) {
  ProfileSnapshot::Content content = HandMadeContent({});
  content.layers[0].timings[2].forward = Seconds::Milliseconds(-2.37);
  const absl::StatusOr<ProfileSnapshot> snapshot = ProfileSnapshot::Create(content);
  EXPECT_THAT(snapshot, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("layer `layer0`.layer_timings[2]")));
  EXPECT_EQ(GetErrorDetail(snapshot.status())->reason, Reason::kProfileInvalid);
}

// A budget between whole gigabytes is one like any other.
TEST(WeakPoint12, MemoryIsNoWholeNumberOfGigabytes) {
  HandMadeOptions options;
  const std::optional<PlanFound> roomy = AnswerOf(HandMadeProblem(options));
  ASSERT_TRUE(roomy.has_value());
  const Bytes needed = roomy->prediction.peak_memory_upper;
  EXPECT_NE(needed.count() % 1'000'000'000, 0);
  options.device_memory = needed;
  EXPECT_TRUE(AnswerOf(HandMadeProblem(options)).has_value());
}

TEST(WeakPoint12, NothingFitsHasAReasonAndWhatWouldDo) {
  HandMadeOptions options{.device_memory = Bytes::Of(100'000), .rules = {}};
  for (const std::string& planner : PlannerNames()) {
    SCOPED_TRACE(planner);
    ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(HandMadeProblem(options), planner));
    const auto* const nothing = std::get_if<NothingFits>(&result);
    ASSERT_NE(nothing, nullptr);
    EXPECT_GT(nothing->smallest_usable_memory, Bytes::Of(100'000));
    HandMadeOptions enough = options;
    enough.device_memory = nothing->smallest_device_memory;
    EXPECT_TRUE(AnswerOf(HandMadeProblem(enough), planner).has_value());
  }
}

// Two ranks that share the tokens do half of the work each, plus something more.
TEST(WeakPoint12, ContextParallelismIsNotTwiceAsSlow) {
  const PlanningProblem problem = EstimatedProblem({.device_count = 8,
                                                    .decoder_count = 4,
                                                    .hidden_size = 4096,
                                                    .attention_head_count = 32,
                                                    .sequence_length = 32768,
                                                    .global_batch_size = 8});
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  Strategy shared = StrategyOf(1, 1);
  const LayerCost alone = costs.group(kFirstGroup).CostOfLayer(1, shared, 1, 1);
  for (const ContextKind kind : {ContextKind::kRing, ContextKind::kUlysses}) {
    shared.context_parallel_degree = 2;
    shared.context_kind = kind;
    const LayerCost both = costs.group(kFirstGroup).CostOfLayer(1, shared, 1, 1);
    const double ratio = (both.forward + both.backward) / (alone.forward + alone.backward);
    EXPECT_GE(ratio, 0.5);
    EXPECT_LT(ratio, 0.7);
  }
}

}  // namespace
}  // namespace parplan
