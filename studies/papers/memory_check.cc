#include "studies/papers/memory_check.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

constexpr char kMemoryRuns[] = "--memory-runs";
constexpr absl::string_view kFromProfile = "FromAProfile/";
constexpr absl::string_view kFromTheory = "FromTheory/";

}  // namespace

absl::StatusOr<std::vector<MeasuredMemory>> ParseMeasuredMemory(absl::string_view text) {
  std::vector<MeasuredMemory> plans;
  try {
    const nlohmann::json file = nlohmann::json::parse(text.begin(), text.end());
    for (const auto& suite : file.at("testsuites")) {
      for (const auto& test : suite.at("testsuite")) {
        if (!test.contains("peak_error")) continue;
        const std::string name = test.at("name");
        if (test.contains("failures")) {
          return FieldError(Reason::kSpecInvalid, kMemoryRuns,
                            absl::StrCat("`", name, "` failed; mend that first"));
        }
        absl::string_view plan = name;
        MeasuredMemory measured;
        measured.from_profile = absl::ConsumePrefix(&plan, kFromProfile);
        if (!measured.from_profile) absl::ConsumePrefix(&plan, kFromTheory);
        measured.plan = std::string(plan);
        double error = 0.0;
        if (!absl::SimpleAtod(test.at("peak_error").get<std::string>(), &error)) {
          return FieldError(Reason::kSpecInvalid, kMemoryRuns,
                            absl::StrCat("`peak_error` of `", name, "` must be a number"));
        }
        measured.error = SixDigits(error);
        plans.push_back(std::move(measured));
      }
    }
  } catch (const std::exception& error) {
    return FieldError(Reason::kSpecInvalid, kMemoryRuns,
                      absl::StrCat("must be a file that `executor_memory_test "
                                   "--gtest_output=json:FILE` wrote: ",
                                   error.what()));
  }
  if (plans.empty()) {
    return FieldError(Reason::kSpecInvalid, kMemoryRuns,
                      "has no test with a `peak_error`; write it with `executor_memory_test "
                      "--gtest_output=json:FILE`");
  }
  return plans;
}

MemoryErrors ErrorsOf(const std::vector<MeasuredMemory>& plans, bool from_profile) {
  MemoryErrors errors;
  std::vector<double> magnitudes;
  for (const MeasuredMemory& plan : plans) {
    if (plan.from_profile != from_profile) continue;
    magnitudes.push_back(std::abs(plan.error));
    if (magnitudes.back() < errors.worst) continue;
    errors.worst = magnitudes.back();
    errors.worst_plan = plan.plan;
  }
  errors.plan_count = static_cast<int>(magnitudes.size());
  if (magnitudes.empty()) return errors;
  std::sort(magnitudes.begin(), magnitudes.end());
  errors.median =
      0.5 * (magnitudes[(magnitudes.size() - 1) / 2] + magnitudes[magnitudes.size() / 2]);
  return errors;
}

}  // namespace parplan::papers
