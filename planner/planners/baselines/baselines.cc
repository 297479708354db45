#include "planner/planners/baselines/baselines.h"

#include "planner/model/search_space.h"

namespace parplan {
namespace {

// Returns whether every transformer layer can be split `degree` times.
bool SplitsEveryLayer(const PlanningProblem& problem, int degree) {
  if (degree > problem.max_tensor_parallel_degree()) return false;
  const Strategy strategy{.tensor_parallel_degree = degree};
  for (const LayerDefinition& definition : problem.model().layer_definitions()) {
    if (!StrategyApplies(definition, strategy, 1)) return false;
  }
  return true;
}

}  // namespace

ThreeDegrees EqualDegrees(const PlanningProblem& problem) {
  ThreeDegrees degrees;
  int left = problem.device_count();
  bool tensor_open = problem.dimensions().has(SearchDimension::kTensor);
  bool pipeline_open = problem.dimensions().has(SearchDimension::kPipeline);
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

absl::Span<const absl::string_view> PaperBaselineNames() {
  static constexpr absl::string_view kNames[] = {"dp",    "sdp",   "tp",          "pp",
                                                 "dp+tp", "dp+pp", "deepspeed-3d"};
  return kNames;
}

std::optional<SearchSpace> SpaceOfBaseline(absl::string_view name, const PlanningProblem& problem) {
  using Sharding = SearchSpace::Sharding;
  const int device_count = problem.device_count();
  SearchSpace baseline{.sharding = Sharding::kNever, .recompute = false};
  if (name == "pp") {
    baseline.pipeline_parallel_degree = device_count;
    return baseline;
  }
  if (name == "dp+pp") {
    baseline.tensor_parallel_degree = 1;
    return baseline;
  }
  if (name == "deepspeed-3d") {
    const ThreeDegrees degrees = EqualDegrees(problem);
    baseline.pipeline_parallel_degree = degrees.pipeline_parallel_degree;
    baseline.tensor_parallel_degree = degrees.tensor_parallel_degree;
    baseline.only_tensor_innermost = true;
    return baseline;
  }
  baseline.pipeline_parallel_degree = 1;
  if (name == "dp+tp") return baseline;
  if (name == "dp" || name == "sdp") {
    baseline.tensor_parallel_degree = 1;
    if (name == "sdp") baseline.sharding = Sharding::kAlways;
    return baseline;
  }
  if (name == "tp") {
    baseline.tensor_parallel_degree = device_count;
    return baseline;
  }
  return std::nullopt;
}

UniformGrid MegatronGrid() {
  return {.dimensions = DimensionSet()
                            .With(SearchDimension::kPipeline)
                            .With(SearchDimension::kTensor)
                            .With(SearchDimension::kOptimizerSharding)
                            .With(SearchDimension::kContext)
                            .With(SearchDimension::kSelectiveRecompute)
                            .With(SearchDimension::kFullRecompute)
                            .With(SearchDimension::kInterleaved),
          .allows = [](const Strategy&) { return true; }};
}

UniformGrid FsdpGrid() {
  return {.dimensions = DimensionSet()
                            .With(SearchDimension::kGradientSharding)
                            .With(SearchDimension::kParameterSharding)
                            .With(SearchDimension::kSelectiveRecompute)
                            .With(SearchDimension::kFullRecompute),
          .allows = [](const Strategy& strategy) {
            return strategy.data_parallel_degree == 1 ||
                   strategy.sharding_level >= ShardingLevel::kGradients;
          }};
}

}  // namespace parplan
