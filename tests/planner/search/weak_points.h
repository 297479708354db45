// Common parts of the tests of weak points (docs/galvatron.md).

#ifndef PARPLAN_TESTS_PLANNER_SEARCH_WEAK_POINTS_H_
#define PARPLAN_TESTS_PLANNER_SEARCH_WEAK_POINTS_H_

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>

#include "planner/find_plan.h"
#include "tests/support/status_matchers.h"

namespace parplan {

// The plan found; nothing where there is none, and an error that says which planner.
inline std::optional<PlanFound> AnswerOf(const PlanningProblem& problem,
                                         const std::string& planner = "exact",
                                         const SearchControl& control = {}) {
  absl::StatusOr<PlanningResult> result = FindPlan(problem, planner, control);
  EXPECT_OK(result) << planner;
  if (!result.ok()) return std::nullopt;
  auto* const found = std::get_if<PlanFound>(&*result);
  EXPECT_NE(found, nullptr) << planner << " finds nothing";
  if (found == nullptr) return std::nullopt;
  return std::move(*found);
}

// A space of these dimensions alone.
inline PlanningRules RulesOf(std::initializer_list<SearchDimension> dimensions) {
  PlanningRules rules = {.dimensions = DimensionSet()};
  for (const SearchDimension dimension : dimensions) {
    rules.dimensions = rules.dimensions.With(dimension);
  }
  return rules;
}

inline Strategy StrategyOf(int tensor, int data, ShardingLevel level = ShardingLevel::kNone) {
  Strategy strategy;
  strategy.tensor_parallel_degree = tensor;
  strategy.data_parallel_degree = data;
  strategy.sharding_level = level;
  return strategy;
}

// [layer]
inline std::vector<Strategy> StrategyByLayer(const Plan& plan) {
  std::vector<Strategy> strategies;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      strategies.insert(strategies.end(), run.layer_count, run.strategy);
    }
  }
  return strategies;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_SEARCH_WEAK_POINTS_H_
