// Uneven virtual stages where layers have strategies of their own: searched apart, at the end, with
// little work and a bound that holds.

#include <cstdint>
#include <optional>
#include <variant>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/model/search_space.h"
#include "planner/planners/exact/exact_search.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

PlanningProblem Decoder(int decoder_count, int64_t batch, DimensionSet dimensions,
                        int hidden_size = 8192, int device_count = 32) {
  return EstimatedProblem({.device_count = device_count,
                           .decoder_count = decoder_count,
                           .hidden_size = hidden_size,
                           .attention_head_count = hidden_size / 128,
                           .sequence_length = 4096,
                           .vocabulary_size = 128'000,
                           .tied_embedding = false,
                           .global_batch_size = batch,
                           .rules = {.dimensions = dimensions, .allow_estimates = true}});
}

PlanFound Answer(const PlanningProblem& problem) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  EXPECT_OK(costs.status());
  std::optional<PlanningResult> result = SearchExact(problem, *costs, {});
  EXPECT_TRUE(result.has_value());
  EXPECT_TRUE(std::holds_alternative<PlanFound>(*result));
  PlanFound found = std::get<PlanFound>(*std::move(result));
  EXPECT_OK(CheckPlan(problem, found.plan, found.prediction));
  return found;
}

// The space of programs with one strategy is a part of the whole one: its answer is a plan that the
// bound of the larger question must not exceed.
TEST(UnevenApart, BoundsHoldForPlansOfOneStrategy) {
  const DimensionSet part = DimensionSet::All() & LimitsOf(Target::kMegatron).dimensions;
  int open_count = 0;
  for (const int decoder_count : {18, 23, 37}) {
    for (const int64_t batch : {32, 64}) {
      SCOPED_TRACE(absl::StrCat(decoder_count, " decoder layers, batch ", batch));
      const PlanFound whole = Answer(Decoder(decoder_count, batch, DimensionSet::All()));
      const PlanFound one = Answer(Decoder(decoder_count, batch, part));
      const double step = one.prediction.step.value() * (1.0 + 1e-9);
      EXPECT_LE(whole.search.bound.value(), step);
      EXPECT_LE(whole.prediction.step.value(), step);
      if (whole.search.gap_ratio > 0.0) ++open_count;
    }
  }
  // Some of the questions have a gap, which such partitions leave.
  EXPECT_GT(open_count, 0);
}

// Partitions of the whole space are searched with the others only if all layers have one strategy.
TEST(UnevenApart, IsAQuestionOfTheSpace) {
  for (const bool has_per_layer : {true, false}) {
    const PlanningProblem problem =
        Decoder(16, 16,
                has_per_layer ? DimensionSet::All()
                              : DimensionSet::All().Without(SearchDimension::kPerLayer));
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_OK(costs.status());
    const StrategySpace space(problem, *costs);
    EXPECT_EQ(SearchesUnevenApart(space), has_per_layer);
    EXPECT_EQ(SearchedPartitionsOf(space, 2).unlisted.empty(), has_per_layer);
    EXPECT_FALSE(InterleavedPartitionsOf(space, 2).unlisted.empty());
  }
}

// Moves between thousands of virtual stages, or first partitions of every candidate, had taken a
// thousand times as long as all the rest: 1.3 million states where 70,000 do. Smaller devices,
// which would be counted too, are not searched on so many.
TEST(UnevenApart, AddsLittleToASearchOfManyLayers) {
  for (const int decoder_count : {98, 510}) {
    SCOPED_TRACE(decoder_count);
    const PlanFound even = Answer(
        Decoder(decoder_count, 128, DimensionSet::All().Without(SearchDimension::kInterleaved),
                /*hidden_size=*/2048, /*device_count=*/128));
    const PlanFound all = Answer(Decoder(decoder_count, 128, DimensionSet::All(),
                                         /*hidden_size=*/2048, /*device_count=*/128));
    EXPECT_LE(all.prediction.step, even.prediction.step);
    EXPECT_LE(all.search.expanded_state_count, even.search.expanded_state_count + 100'000);
  }
}

}  // namespace
}  // namespace parplan
