// The record of a job: its losses and measurements, beside the predictions. Each rank of
// `parplan-exec` (rank_run.h) fills one.

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
  // First step under the plan, counted from 0 over the run, and the number of steps.
  int64_t first_step = 0;
  int64_t step_count = 0;
  // [window][rank], in order; every window has an entry for each rank of the plan. Their steps are
  // counted from the first under this plan.
  std::vector<std::vector<v1::MeasuredWindow>> windows;
  // How much of the ranks' processors others used during the steps that MeasuredStep counts.
  // Absent if the system does not say, or these steps took less than a second.
  std::optional<MachineUse> machine;

  // Returns the median over windows of the slowest rank's median; of an even number of windows the
  // mean of the two in the middle. The first window, which has the cold start, only counts if it is
  // the only one. Zero without windows.
  absl::Duration MeasuredStep() const;
  // Returns the window with the highest peak among those of a stage's ranks, the first of equal
  // ones; valid until `windows` changes. REQUIRES, unchecked: there are windows, and `stage` is
  // from 0 to stage_count() - 1.
  const v1::MeasuredWindow& FullestOf(int stage) const;
  // Returns the highest peak of all ranks, in bytes; 0 without windows.
  int64_t MeasuredPeak() const;
  // Return the places of the pipeline, and the ranks of each.
  int stage_count() const { return plan.plan().pipeline_parallel_degree(); }
  int ranks_of_stage() const { return plan.plan().device_count / stage_count(); }
};

// The whole run. Every rank fills one; only that of rank 0 has the report, and is printed and
// written.
struct RunRecord {
  // [step] mean loss of the step's tokens, in nats; steps count from 0 through all plans.
  std::vector<double> losses;
  // Plans in the order of the run; a swap adds one.
  std::vector<PlanRecord> plans;
  // Result of the report to the server (ReportSummary), over all plans: the name of the last
  // execution, and the last trouble. Empty or 0 without a report.
  std::string execution;
  int64_t delivered_window_count = 0;
  int64_t lost_window_count = 0;
  std::string report_trouble;
};

// Formats the record for scripts as JSON with a line feed at its end; docs/executor.md documents
// the fields.
std::string RecordJson(const RunRecord& record);

// Formats the record for people, plan by plan without those that made no step: step time, and if
// there are windows the memory of every stage by item, predicted and measured. Empty if no plan
// made a step.
std::string RecordTable(const RunRecord& record);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_RUN_RECORD_H_
