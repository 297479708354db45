// How the time of `exact` grows with layers, devices, strategies and memory: one line of CSV
// a search, for plot_growth.py. Processor time of one thread, so that a busy machine
// measures alike. Not a benchmark of the table: takes a few minutes by itself.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/find_plan.h"
#include "planner/search/space/strategy_space.h"
#include "tests/benchmarks/exact_cases.h"
#include "tests/benchmarks/timed_search.h"

namespace parplan {
namespace {

// Time limit of one search. A longer search is stopped and returns the best plan so far.
constexpr double kMostSeconds = 5.0;
// Beyond, one search says enough.
constexpr double kLong = 0.5;

double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

// The median of three, or one where a search takes long.
void Measure(const std::string& axis, const std::string& series, const std::string& at,
             const PlanningProblem& problem) {
  std::vector<double> times;
  SearchSummary summary;
  std::string outcome;
  PeakMebibytes();
  do {
    const double begin = ProcessorSeconds();
    SearchControl control;
    control.should_stop = [begin] { return ProcessorSeconds() - begin > kMostSeconds; };
    const absl::StatusOr<PlanningResult> result = FindPlan(problem, "exact", control);
    times.push_back(ProcessorSeconds() - begin);
    PARPLAN_CHECK(result.ok());
    summary = std::visit([](const auto& answer) { return answer.search; }, *result);
    if (std::holds_alternative<PlanFound>(*result)) {
      outcome = summary.termination == Termination::kOptimal ? "optimal" : "feasible";
    } else {
      outcome = std::holds_alternative<NothingFits>(*result) ? "nothing fits" : "stopped";
    }
  } while (times.size() < 3 && times.back() < kLong);
  std::sort(times.begin(), times.end());
  std::printf("%s,%s,%s,%.6f,%s,%.6f,%lld,%.0f\n", axis.c_str(), series.c_str(), at.c_str(),
              times[times.size() / 2], outcome.c_str(),
              outcome == "feasible" ? summary.gap_ratio : 0.0,
              static_cast<long long>(summary.expanded_state_count), PeakMebibytes());
  std::fflush(stdout);
}

void Layers() {
  for (const int layers : {32, 64, 128, 256, 512, 1024, 2048, 4096, 10000}) {
    Measure("layers", "3 kinds", absl::StrCat(layers), ProblemOf(ManyLayers(layers, 3, 1024)));
  }
  for (const int layers : {16, 32, 64, 128, 256, 512, 1000}) {
    Measure("layers", "all different", absl::StrCat(layers),
            ProblemOf(ManyLayers(layers, layers - 2, 1024)));
  }
}

void Devices() {
  for (int devices = 8; devices <= 16384; devices *= 2) {
    Measure("devices", "Llama-2-70B", absl::StrCat(devices),
            ProblemOf(Llama70B(devices, std::max(512, 2 * devices))));
  }
}

// Strategies of a decoder on all devices, one dimension more at a time; whatever of a plan
// is no strategy varies throughout.
void Strategies() {
  using enum SearchDimension;
  DimensionSet set = DimensionSet::All();
  const SearchDimension added[] = {
      kFullRecompute, kParameterSharding, kRankOrder,          kGradientSharding,
      kUlysses,       kOptimizerSharding, kSelectiveRecompute, kContext};
  for (const SearchDimension dimension : added) set = set.Without(dimension);
  const auto measure = [&set] {
    PlanningRules rules;
    rules.dimensions = set;
    const PlanningProblem problem = ProblemOf(Llama70B(512, 1024), rules);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    PARPLAN_CHECK(costs.ok());
    const size_t count = StrategySpace(problem, *costs).Strategies(1, 1, 1024).size();
    Measure("strategies", "Llama-2-70B on 512", absl::StrCat(count), problem);
  };
  measure();
  for (const SearchDimension dimension : added) {
    set = set.With(dimension);
    measure();
  }
}

void Memory() {
  for (const int gibibytes : {10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80}) {
    const PlanningProblem problem = ProblemOf(Llama70B(512, 1024));
    Measure("memory", "Llama-2-70B on 512", absl::StrCat(gibibytes),
            problem.WithUsableMemory(Bytes::Of(int64_t{gibibytes} << 30)));
  }
}

int Run(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  std::printf("axis,series,at,seconds,outcome,gap,states,peak_mib\n");
  const std::pair<const char*, void (*)()> axes[] = {
      {"layers", Layers}, {"devices", Devices}, {"strategies", Strategies}, {"memory", Memory}};
  for (const auto& [name, measure] : axes) {
    if (only.empty() || only == name) measure();
  }
  return 0;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) { return parplan::Run(argc, argv); }
