// How long `exact` searches on the cases of the public Galvatron engine kept beside a
// working copy (tests/support/shared_data.h); none without them. Each fixed batch over the
// engine's space and over the whole one, and every batch from 8 to 512.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "studies/oracle/oracle_case.h"
#include "tests/benchmarks/timed_search.h"
#include "tests/support/shared_data.h"

namespace parplan {
namespace {

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file.good()) return absl::NotFoundError(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void Register(const std::string& name, const PlanningProblem& problem) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [problem](benchmark::State& state) {
                                 TimeSearch(state, problem, "exact",
                                            static_cast<int>(state.range(0)));
                               })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime()
      ->ArgName("threads")
      ->Arg(1)
      ->Arg(2);
}

absl::Status RegisterCase(const std::string& folder, const std::string& name) {
  absl::StatusOr<std::string> text = ReadText(absl::StrCat(folder, "cases/", name));
  if (!text.ok()) return text.status();
  absl::StatusOr<OracleCase> oracle = ReadOracleCase(
      {name, *std::move(text)},
      [&folder](const std::string& path) { return ReadText(absl::StrCat(folder, path)); });
  if (!oracle.ok()) return oracle.status();
  const std::string id = oracle->id.substr(0, oracle->id.find('_'));
  for (const auto& [space, what] :
       {std::pair(OracleSpace::kEngine, "engine"), std::pair(OracleSpace::kWhole, "whole")}) {
    absl::StatusOr<PlanningProblem> problem = OracleProblem(*oracle, space);
    if (!problem.ok()) return problem.status();
    PlanningRules rules = problem->rules();
    rules.out_of_memory_risk = 0.5;
    Register(absl::StrCat("oracle/", id, "/", what), problem->WithRules(rules));
  }
  oracle->question.smallest_global_batch_size = 8;
  oracle->question.largest_global_batch_size = 512;
  oracle->question.global_batch_size_step = 8;
  oracle->question.micro_batch_count = 0;
  absl::StatusOr<PlanningProblem> problem = OracleProblem(*oracle, OracleSpace::kEngine);
  if (!problem.ok()) return problem.status();
  PlanningRules rules = problem->rules();
  rules.out_of_memory_risk = 0.5;
  Register(absl::StrCat("oracle/", id, "/engine-batches-8-to-512"), problem->WithRules(rules));
  return absl::OkStatus();
}

int Run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::optional<std::string> data = SharedDataDir();
  const std::string folder = data.has_value() ? absl::StrCat(*data, "/galvatron_oracle/") : "";
  if (!data.has_value() || !std::filesystem::is_directory(folder + "cases")) {
    std::fprintf(stderr, "%s\n", kNoSharedData);
    return 0;
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "cases")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (const absl::Status status = RegisterCase(folder, name); !status.ok()) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), status.ToString().c_str());
      return 1;
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) { return parplan::Run(argc, argv); }
