#include "studies/papers/granularity.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

constexpr char kPlanner[] = "galvatron-bmw";
// Settings of the curve: the planners' own, and three coarser ones, the last two in both ways.
constexpr Granularity kCurve[] = {{1, 1}, {32, 1}, {128, 4}, {128, 16}};

PlanningProblem Under(const PlanningProblem& problem, const Granularity& granularity) {
  PlanningRules rules = problem.rules();
  rules.memory_granule = Bytes::Of(int64_t{granularity.granule_mebibytes} << 20);
  rules.fused_layer_count = granularity.fused_layer_count;
  return problem.WithRules(rules);
}

}  // namespace

std::string GranularityName(const Granularity& granularity) {
  std::string name = absl::StrCat(granularity.granule_mebibytes, " MiB");
  if (granularity.fused_layer_count > 1) {
    absl::StrAppend(&name, ", ", granularity.fused_layer_count, " fused");
  }
  return name;
}

GranularityRow GranularityRowOf(const GridQuestion& question) {
  const PlanningProblem problem = ProblemOf(question);
  GranularityRow row{.model = ModelName(question.family, question.layer_count),
                     .memory_gb = question.memory_gb,
                     .optimum = SixDigits(Ask(problem, kTreeOptimum).rate)};
  for (const Granularity& granularity : kGranularities) {
    // Baselines neither round nor fuse, so they are left out.
    const PlanningProblem coarse = Under(problem, granularity);
    row.rates.push_back(SixDigits(std::max(AskDynamicProgram(coarse).rate,
                                           AskDynamicProgram(coarse, /*adjusts=*/true).rate)));
  }
  return row;
}

std::vector<TimedSearch> TimeGranularities(const std::string& axis) {
  std::vector<TimedSearch> searches;
  const auto add = [&](const PlanningProblem& problem, int value, const std::string& planner,
                       const std::string& name) {
    TimedSearch timed = TimeSearch(problem, planner, LimitOfAxis(axis));
    timed.axis = axis;
    timed.value = value;
    timed.planner = name;
    searches.push_back(std::move(timed));
  };
  for (const auto& [layers, problem] : QuestionsOfAxis("layers")) {
    if (axis == kLongGranularity && layers < kLeastLongGranularity) continue;
    for (const Granularity& granularity : kCurve) {
      add(Under(problem, granularity), layers, kPlanner, GranularityName(granularity));
    }
    add(problem, layers, kTreeOptimum, kTreeOptimum);
  }
  return searches;
}

std::vector<TimedSearch> TimeCoarsest() {
  const Granularity coarsest = *std::rbegin(kCurve);
  std::vector<TimedSearch> searches;
  for (const auto& [layers, problem] : QuestionsOfAxis("layers")) {
    if (layers < kLeastLongLayers) continue;
    TimedSearch timed = TimeSearch(Under(problem, coarsest), kPlanner, kLongSearchSeconds);
    timed.axis = "long-layers";
    timed.value = layers;
    timed.planner = absl::StrCat(kPlanner, ", ", GranularityName(coarsest));
    searches.push_back(std::move(timed));
  }
  return searches;
}

}  // namespace parplan::papers
