// How the time of `exact` grows with layers, devices, dimensions of the space and memory:
// one line of CSV a search, for plot_growth.py. Not a benchmark of the table; run it by
// itself on an idle machine.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/base/check.h"
#include "planner/search/find_plan.h"
#include "tests/benchmarks/exact_cases.h"
#include "tests/benchmarks/timed_search.h"

namespace parplan {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The median of three, or one where a search takes long.
void Measure(const std::string& axis, const std::string& series, const std::string& at,
             const PlanningProblem& problem) {
  constexpr double kLong = 5.0;
  std::vector<double> times;
  SearchControl control;
  control.parallel_for = OnThreads(2);
  SearchSummary summary;
  std::string outcome;
  PeakMebibytes();
  for (int i = 0; i < 3; ++i) {
    const double begin = Now();
    const absl::StatusOr<PlanningResult> result = FindPlan(problem, "exact", control);
    times.push_back(Now() - begin);
    PARPLAN_CHECK(result.ok());
    if (const auto* const found = std::get_if<PlanFound>(&*result)) {
      summary = found->search;
      outcome = summary.termination == Termination::kOptimal ? "optimal" : "feasible";
    } else {
      outcome = "nothing fits";
    }
    if (times.back() > kLong) break;
  }
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

// From the papers' space on, one dimension more at a time.
void Dimensions() {
  using enum SearchDimension;
  DimensionSet set =
      DimensionSet().With(kPipeline).With(kTensor).With(kPerLayer).With(kParameterSharding);
  int count = 4;
  const auto measure = [&] {
    PlanningRules rules;
    rules.dimensions = set;
    Measure("dimensions", "Llama-2-70B on 512", absl::StrCat(count),
            ProblemOf(Llama70B(512, 1024), rules));
  };
  measure();
  for (const SearchDimension dimension :
       {kFullRecompute, kEndStrategies, kUnevenStages, kRankOrder, kOptimizerSharding,
        kGradientSharding, kGpipe, kInterleaved, kUlysses, kContext, kSelectiveRecompute}) {
    set = set.With(dimension);
    ++count;
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
      {"layers", Layers}, {"devices", Devices}, {"dimensions", Dimensions}, {"memory", Memory}};
  for (const auto& [name, measure] : axes) {
    if (only.empty() || only == name) measure();
  }
  return 0;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) { return parplan::Run(argc, argv); }
