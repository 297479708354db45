#include "planner/search/baselines.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/base/error.h"
#include "planner/search/find_plan.h"

namespace parplan {
namespace {

// Whether every transformer layer can be split `degree` times.
bool SplitsEveryLayer(const PlanningProblem& problem, int degree) {
  if (degree > problem.max_tensor_parallel_degree()) return false;
  const Strategy strategy{.tensor_parallel_degree = degree};
  for (const LayerDefinition& definition : problem.model().layer_definitions()) {
    if (!StrategyApplies(definition, strategy, 1)) return false;
  }
  return true;
}

}  // namespace

const std::vector<std::string>& PlannerNames() {
  static const auto* const names = new std::vector<std::string>{
      "galvatron-base", "galvatron", "dp", "sdp", "tp", "pp", "dp+tp", "dp+pp", "deepspeed-3d"};
  return *names;
}

const std::vector<std::string>& BaselineNames() {
  static const auto* const names =
      new std::vector<std::string>(PlannerNames().begin() + 2, PlannerNames().end());
  return *names;
}

ThreeDegrees EqualDegrees(const PlanningProblem& problem) {
  ThreeDegrees degrees;
  int left = problem.device_count();
  bool tensor_open = true, pipeline_open = true;
  while (left % 2 == 0) {
    tensor_open = tensor_open && SplitsEveryLayer(problem, degrees.tensor_parallel_degree * 2);
    if (tensor_open) {
      degrees.tensor_parallel_degree *= 2;
      left /= 2;
    }
    if (left % 2 != 0) break;
    pipeline_open = pipeline_open &&
                    degrees.pipeline_parallel_degree * 2 <= problem.max_pipeline_parallel_degree();
    if (pipeline_open) {
      degrees.pipeline_parallel_degree *= 2;
      left /= 2;
    }
    if (left % 2 != 0) break;
    degrees.data_parallel_degree *= 2;
    left /= 2;
  }
  degrees.data_parallel_degree *= left;
  return degrees;
}

absl::StatusOr<SearchSpace> SpaceOfPlanner(absl::string_view planner,
                                           const PlanningProblem& problem) {
  using Sharding = SearchSpace::Sharding;
  const int device_count = problem.device_count();
  SearchSpace baseline{.sharding = Sharding::kNever, .recompute = false};
  if (planner == "galvatron-base") return SearchSpace{};
  if (planner == "galvatron") return SearchSpace{.recompute = false};
  if (planner == "pp") {
    baseline.pipeline_parallel_degree = device_count;
    return baseline;
  }
  if (planner == "dp+pp") {
    baseline.tensor_parallel_degree = 1;
    return baseline;
  }
  if (planner == "deepspeed-3d") {
    const ThreeDegrees degrees = EqualDegrees(problem);
    baseline.pipeline_parallel_degree = degrees.pipeline_parallel_degree;
    baseline.tensor_parallel_degree = degrees.tensor_parallel_degree;
    baseline.only_tensor_innermost = true;
    return baseline;
  }
  baseline.pipeline_parallel_degree = 1;
  if (planner == "dp+tp") return baseline;
  if (planner == "dp" || planner == "sdp") {
    baseline.tensor_parallel_degree = 1;
    if (planner == "sdp") baseline.sharding = Sharding::kAlways;
    return baseline;
  }
  if (planner == "tp") {
    baseline.tensor_parallel_degree = device_count;
    return baseline;
  }
  return FieldError(
      Reason::kSpecInvalid, "planner",
      absl::StrCat("`", planner, "` is unknown; use one of ", absl::StrJoin(PlannerNames(), ", ")));
}

}  // namespace parplan
