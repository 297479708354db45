// Compares the public engine's plan of a case with ours, under both models, for
// `parplan-study oracle`.

#ifndef PARPLAN_STUDIES_ORACLE_ORACLE_COMPARISON_H_
#define PARPLAN_STUDIES_ORACLE_ORACLE_COMPARISON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/model/calibration.h"
#include "planner/model/planning_result.h"
#include "studies/oracle/oracle_case.h"

namespace parplan::oracle {

// How our planner answers the cases.
struct OracleOptions {
  std::string planner = "exact";
  // Accepted probability of running out of memory. The engine has no such setting: at one half, a
  // plan that is expected to fit fits.
  double out_of_memory_risk = 0.5;
  // Limit of each search; 0: none.
  double time_limit_seconds = 0.0;
  int64_t max_state_count = 0;
  // Null stands for `PublishedCalibration`.
  std::shared_ptr<const Calibration> calibration;
  // Returns seconds of a steady clock; called on the thread of `CompareOracle`. If empty, searches
  // are not timed and have no time limit.
  std::function<double()> now;
  // Whether to search the whole space too, and not only the one that the engine searched.
  bool wants_whole_space = true;
  // Whether to look for better plans in the engine's own numbers too.
  bool wants_own_tables = false;
};

// A part of the difference between the times that two models give a plan.
struct Difference {
  // Name of the part for people.
  std::string what;
  Seconds time;
};

// The engine's plan under both models.
struct EngineVerdict {
  // Step time that the engine reported, and the step time of the same stages if the schedule is
  // simulated pass by pass.
  Seconds said;
  Seconds simulated;
  std::string gist;
  // Reason why it is no plan of our problem, such as degrees that do not divide the micro-batches;
  // else empty.
  std::string invalid;
  // Our model's prediction; absent if the plan is invalid.
  std::optional<Prediction> prediction;
  // Parts of the difference between `said` and our step; they add up to it.
  std::vector<Difference> differences;
  // Megabytes (2^20 bytes) of its fullest stage, as the engine counts layers, ends, context and
  // buffer.
  double own_megabytes = 0.0;
  // Simulated step of the fastest plan that `FindBetterEnginePlan` (engine_plan.h) found in the
  // engine's own numbers; absent if the options do not ask for it, or it found none that is faster
  // than `simulated`.
  std::optional<Seconds> better_in_own_numbers;
  std::string better_gist;
};

// An answer of our planner.
struct OurVerdict {
  // Name of the question for people.
  std::string what;
  // Absent if there is no plan: nothing fits, the planner refused the question, or a limit ended
  // the search before any was found.
  std::optional<PlanFound> found;
  // Memory of a device that the plan might use.
  Bytes usable_memory;
  // Time of the search by the clock of the options; 0 without one.
  double search_seconds = 0.0;
  // Reason why there is no plan, or what `CheckPlan` finds wrong with it; else empty.
  std::string error;
};

// The answers to one case, the engine's and ours.
struct OracleComparison {
  // The case's name, its model, and its devices with the memory that a plan may use.
  std::string id;
  std::string model_id;
  int device_count = 0;
  Bytes usable_memory;
  std::string engine_error;
  // Processor time of the engine's search; absent if the case does not have it.
  std::optional<Seconds> engine_search_time;
  // Absent if the engine gave no plan; then `engine_error` has its message, if the case has one.
  std::optional<EngineVerdict> engine;
  // Our answers in the engine's space, in the whole one, and, if the engine's plan does not fit by
  // our memory model, in the engine's space with as much memory as that plan needs.
  OurVerdict same_space;
  std::optional<OurVerdict> whole_space;
  std::optional<OurVerdict> same_memory;
};

// Plans and predicts the case. Returns errors of the import, of `EngineModel::Create`,
// `ReadEnginePlan`, `OracleProblem` and `CostModel::Create`, and INVALID_ARGUMENT (PROFILE_INVALID)
// if the case lacks a bandwidth, latency or memory of a strategy in the engine's plan. A search
// that finds nothing or fails is an answer (`OurVerdict::error`).
absl::StatusOr<OracleComparison> CompareOracle(const OracleCase& oracle,
                                               const OracleOptions& options);

// Return the comparisons as text for people, one block for each case in their order; and as one
// JSON object, whose list `cases` has them.
std::string ComparisonsText(const std::vector<OracleComparison>& comparisons);
std::string ComparisonsJson(const std::vector<OracleComparison>& comparisons);

}  // namespace parplan::oracle

#endif  // PARPLAN_STUDIES_ORACLE_ORACLE_COMPARISON_H_
