// Measures the errors of predictions of published runs, for `parplan-study accuracy`. All functions
// are pure, `Evaluate` if `predict` is. studies/main/accuracy_command.cc calls `Evaluate`, and the
// reports (accuracy_report.h) show the summary.

#ifndef PARPLAN_STUDIES_ACCURACY_ACCURACY_METRICS_H_
#define PARPLAN_STUDIES_ACCURACY_ACCURACY_METRICS_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "clients/calibrate/predict_run.h"
#include "clients/calibrate/published_run.h"

namespace parplan::accuracy {

// A run's prediction and its measurements.
struct AccuracyRow {
  // `PublishedRun::id` and `source`, and the keys of `RunQuestion` (run_problem.h): rows of one job
  // have equal model, devices, batch, precision and source, and those of them with one `plan_key`
  // equal plans.
  std::string id;
  std::string source;
  std::string job_key;
  std::string plan_key;
  // Whether coefficients may be fitted on the row (`IsFitted`).
  bool fitted = false;
  // Absent if not measured, and for rows that are for memory only.
  std::optional<Seconds> measured_step;
  // Absent if not measured.
  std::optional<Bytes> measured_memory;
  MemoryView memory_view = MemoryView::kAllocatedMax;
  // Whether the run failed for lack of memory; absent if the source does not say and the run has
  // neither a step nor a peak.
  std::optional<bool> out_of_memory;
  // Whether the run gave no figure, for lack of memory or another reason.
  bool failed = false;
  Bytes device_memory;
  RunPrediction prediction;
  std::vector<std::string> assumptions;

  // (predicted - measured) / measured; absent when not measured.
  std::optional<double> TimeError() const;
  // The same of the peak.
  std::optional<double> MemoryError() const;
  // Returns whether the planner would have refused the plan for lack of memory.
  bool Refused() const { return prediction.memory_upper > device_memory; }
};

// Returns whether a calibration may be fitted on a row: whether it is in a slice from which the
// calibration inside the programs is made (clients/calibrate/run_slice.h). `FittedSliceRule` is the
// rule as every report states it.
bool IsFitted(const std::string& source, const std::string& id);
std::string FittedSliceRule();

// Figures over a set of rows, as fractions. A figure is absent if no row has the values for it.
struct AccuracyFigures {
  int count = 0;         // predicted
  int time_count = 0;    // of those, with a measured step
  int memory_count = 0;  // of those, with a measured peak
  // Mean and median of |error|, and the mean of error: above 0 if predictions are too high.
  std::optional<double> time_mape;
  std::optional<double> time_median;
  std::optional<double> time_bias;
  // Share of steps within the predicted range, over rows that have one.
  std::optional<double> time_in_range;
  std::optional<double> memory_mape;
  std::optional<double> memory_bias;
  // Share of peaks that are predicted lower than measured.
  std::optional<double> memory_under_rate;
  // Share of peaks above the bound that the planner trusts, of what the source's view counts.
  std::optional<double> memory_over_bound;
  // Number of runs that failed for lack of memory, and of those among them that are refused.
  int oom_total = 0;
  int oom_refused = 0;
  // The same of all runs that gave no figure (`AccuracyRow::failed`), for lack of memory or another
  // reason.
  int failed_total = 0;
  int failed_refused = 0;
  // Share of the runs known not to have run out of memory that are refused nevertheless.
  std::optional<double> false_refusals;
};
// Returns the figures over `rows`, in which no pointer is null.
AccuracyFigures FiguresOf(absl::Span<const AccuracyRow* const> rows);

// One job under at least `kMinGroupPlans` different plans.
struct JobGroup {
  // `AccuracyRow::source` and `job_key` of its rows, and the numbers of rows and of different
  // plans.
  std::string source;
  std::string job_key;
  int row_count = 0;
  int plan_count = 0;
  // Measured step of the plan predicted fastest, over the fastest measured, less 1.
  double regret = 0.0;
  // Spearman's correlation of predicted and measured steps; absent if all of either are equal.
  std::optional<double> rank_correlation;
  // Whether any row belongs to the fitted slice.
  bool fitted = false;
};
// Fewest plans of a job that are compared with each other: two would have a rank correlation of 1
// or -1 alone.
inline constexpr int kMinGroupPlans = 3;
// Groups the rows with a measured step, by source and then job; jobs with fewer than
// `kMinGroupPlans` different plans are left out.
std::vector<JobGroup> GroupsOf(absl::Span<const AccuracyRow> rows);

// Figures over several groups.
struct GroupFigures {
  int count = 0;
  // Mean and largest `JobGroup::regret`, and mean of the rank correlations there are.
  std::optional<double> regret_mean;
  std::optional<double> regret_max;
  std::optional<double> rank_correlation_mean;
};
// Returns the figures over `groups`; all but the count absent if there are none.
GroupFigures FiguresOfGroups(absl::Span<const JobGroup* const> groups);

// The part of a summary that one source of runs has.
struct SourceAccuracy {
  // Figures of all rows, and of those on which coefficients are not fitted; the number of rows that
  // were not predicted.
  AccuracyFigures all;
  AccuracyFigures unfitted;
  int skipped = 0;
  GroupFigures groups;
  // Rows with the largest |error|, largest first, at most `kWorstCount`.
  std::vector<const AccuracyRow*> worst_time;
  std::vector<const AccuracyRow*> worst_memory;
};
// Rows of a source that a report shows. Not measured.
inline constexpr int kWorstCount = 5;

// The contents of a report. Pointers are into `rows`, also after the summary was moved; it cannot
// be copied.
struct AccuracySummary {
  std::vector<AccuracyRow> rows;
  std::vector<SkippedRun> skipped;
  // Digest of the calibration of the predictions, or another name of it.
  std::string calibration_id;
  std::vector<JobGroup> groups;
  // By source; those with skipped runs alone too.
  std::map<std::string, SourceAccuracy> sources;

  AccuracySummary() = default;
  AccuracySummary(AccuracySummary&&) = default;
  AccuracySummary& operator=(AccuracySummary&&) = default;
  AccuracySummary(const AccuracySummary&) = delete;
  AccuracySummary& operator=(const AccuracySummary&) = delete;
};
// Returns the summary of predicted rows and skipped runs, by source.
AccuracySummary Summarise(std::vector<AccuracyRow> rows, std::vector<SkippedRun> skipped,
                          std::string calibration_id);

// Predicts the runs of `sources`, or all if it is empty, with `predict`, which is not empty and is
// called once for each run that has a question (`QuestionOf`, run_problem.h), in their order. A run
// without a question or prediction joins the skipped ones with the reason. A source of `sources`
// without rows is in no part of the summary.
AccuracySummary Evaluate(const PublishedRuns& runs, const std::vector<std::string>& sources,
                         const RunPredictor& predict, std::string calibration_id);

// Return the largest items, for example `activations 61 %, parameters 20 %`; at most two, none if
// all are 0.
std::string DominatingTerms(const TimeItems& items);
std::string DominatingTerms(const MemoryItems& items);

}  // namespace parplan::accuracy

#endif  // PARPLAN_STUDIES_ACCURACY_ACCURACY_METRICS_H_
