// A case of the public engine, its plan and ours side by side, under both models.

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

struct OracleOptions {
  std::string planner = "exact";
  // Accepted probability of running out of memory. The engine knows no such caution: at
  // one half what is expected to fit fits.
  double out_of_memory_risk = 0.5;
  // Limit of each search; 0: none.
  double time_limit_seconds = 0.0;
  int64_t max_state_count = 0;
  // Null: `PublishedCalibration`.
  std::shared_ptr<const Calibration> calibration;
  // Seconds of a steady clock. Empty: searches are not timed, and have no time limit.
  std::function<double()> now;
  // Also searches the whole space, and not only what the engine searched.
  bool wants_whole_space = true;
  // Also looks for better plans in the engine's own numbers.
  bool wants_own_tables = false;
};

// A part of why two models give a plan different times.
struct Difference {
  std::string what;
  Seconds time;
};

// The engine's plan.
struct EngineVerdict {
  // Step time that the engine reported, and that of the same stages with the schedule simulated.
  Seconds said;
  Seconds simulated;
  std::string gist;
  // Empty, or why it is no plan of our problem: micro-batches its degrees do not divide.
  std::string invalid;
  // Under our model. Absent where invalid.
  std::optional<Prediction> prediction;
  // From `said` to our step; they add up.
  std::vector<Difference> differences;
  // Megabytes of its fullest stage, as the engine counts layers, ends, context and buffer.
  double own_megabytes = 0.0;
  // In its own numbers, simulated: a better plan than `simulated`.
  std::optional<Seconds> better_in_own_numbers;
  std::string better_gist;
};

// An answer of ours.
struct OurVerdict {
  std::string what;
  // Absent where nothing fits.
  std::optional<PlanFound> found;
  Bytes usable_memory;
  double search_seconds = 0.0;
  // Empty, or why there is none.
  std::string error;
};

struct OracleComparison {
  std::string id;
  std::string model_id;
  int device_count = 0;
  Bytes usable_memory;
  std::string engine_error;
  std::optional<Seconds> engine_search_time;
  // Absent where the engine gave no plan.
  std::optional<EngineVerdict> engine;
  // In the engine's space, in the whole one, and, where the engine's plan does not fit
  // our memory model, in the engine's space with as much memory as that plan needs.
  OurVerdict same_space;
  std::optional<OurVerdict> whole_space;
  std::optional<OurVerdict> same_memory;
};

// Errors of the import and of `CostModel::Create`; a search that finds nothing is an
// answer.
absl::StatusOr<OracleComparison> CompareOracle(const OracleCase& oracle,
                                               const OracleOptions& options);

// For people, a block a case and a table of all; and as one JSON object.
std::string ComparisonsText(const std::vector<OracleComparison>& comparisons);
std::string ComparisonsJson(const std::vector<OracleComparison>& comparisons);

}  // namespace parplan::oracle

#endif  // PARPLAN_STUDIES_ORACLE_ORACLE_COMPARISON_H_
