// What a job did and measured, set beside what was predicted.

#ifndef PARPLAN_EXECUTOR_EXEC_RUN_RECORD_H_
#define PARPLAN_EXECUTOR_EXEC_RUN_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "executor/apply/checked_plan.h"
#include "executor/device/backend/machine_use.h"
#include "parplan/v1/execution.pb.h"

namespace parplan {

// The steps under one plan.
struct PlanRecord {
  CheckedPlan plan;
  int64_t first_step = 0;
  int64_t step_count = 0;
  // [window][rank], in order.
  std::vector<std::vector<v1::MeasuredWindow>> windows;
  // How much of the ranks' processors others used during the steps that MeasuredStep counts.
  // Absent if the system does not say, or these steps took less than a second.
  std::optional<MachineUse> machine;

  // The median over windows of the slowest rank's median, without the first window where there
  // are others: it has the cold start. Zero of no windows.
  absl::Duration MeasuredStep() const;
  // The window with the highest peak among those of the ranks of a stage. REQUIRES: windows.
  const v1::MeasuredWindow& FullestOf(int stage) const;
  int64_t MeasuredPeak() const;
  int stage_count() const { return plan.plan().pipeline_parallel_degree(); }
  int ranks_of_stage() const { return plan.plan().device_count / stage_count(); }
};

struct RunRecord {
  // [step]
  std::vector<double> losses;
  // In order; one more for each swap.
  std::vector<PlanRecord> plans;
  // What became of the report; empty without one.
  std::string execution;
  int64_t delivered_window_count = 0;
  int64_t lost_window_count = 0;
  std::string report_trouble;
};

// For scripts; docs/executor.md says what the fields are.
std::string RecordJson(const RunRecord& record);

// For people: step time, and memory by item of every stage, predicted and measured.
std::string RecordTable(const RunRecord& record);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_RUN_RECORD_H_
