// Reads the files that `parplan-exec --results` writes, and compares what runs of plans measured
// with what was predicted. `planctl runs` calls it.

#ifndef PARPLAN_CLIENTS_PLANCTL_RUNS_RUN_RESULTS_H_
#define PARPLAN_CLIENTS_PLANCTL_RUNS_RUN_RESULTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parplan::planctl {

// One item of the memory of a stage's fullest device. An item that only one of prediction and
// measurement has is 0 in the other.
struct RunMemoryItem {
  // From 0.
  int stage = 0;
  // The name in the file: `parameters`, `activations`, ...
  std::string name;
  int64_t predicted_bytes = 0;
  int64_t measured_bytes = 0;
};

// The steps of one run under one plan.
struct RunResult {
  // The name shown to people: that of the file, without folder and ending, and with `/N`, from 1,
  // if the file has several plans.
  std::string label;
  // The plan in short, as the file has it; empty if it has none.
  std::string gist;
  // Steps under the plan.
  int64_t step_count = 0;
  // Times of a step in seconds, above 0.
  double predicted_step = 0.0;
  double measured_step = 0.0;
  // Memory of the fullest device.
  int64_t predicted_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;
  // Share of the ranks' processors that other programs used during the measured steps, and
  // whether the run calls its machine too busy for its step times to be believed. Absent if the
  // run could not measure it, or was made by a release that did not.
  std::optional<double> used_by_others;
  bool is_machine_busy = false;
  // The items of all stages whose memory was measured.
  std::vector<RunMemoryItem> items;
  // Loss of the first and of the last step of the whole run, also if it swapped plans. Absent if
  // the file has none.
  std::optional<double> first_loss;
  std::optional<double> last_loss;

  // measured / predicted - 1; `PeakError` is 0 if no peak was predicted.
  double StepError() const { return measured_step / predicted_step - 1.0; }
  double PeakError() const;
};

// Returns the plans of one file in the order of the run; there are several if plans were swapped.
// `path` names the file in errors and labels; it is not opened. Plans whose `windows` is an empty
// list are left out, which may leave none. INVALID_ARGUMENT (SPEC_INVALID) naming the field that is
// missing or wrong, or the line that is no JSON.
absl::StatusOr<std::vector<RunResult>> ReadRunResults(absl::string_view path,
                                                      absl::string_view text);

// Errors of the predictions of several runs.
struct RunSummary {
  // Absolute relative errors of step times.
  double median_step_error = 0.0;
  double worst_step_error = 0.0;
  // The worst absolute relative error of the fullest device's memory.
  double worst_peak_error = 0.0;
  // The worst absolute relative error of a memory item of a stage, and the item's name with stage
  // and run; empty without items. The error of an item predicted below 1 % of the run's predicted
  // peak is divided by 1 % of that peak instead of by the item: small items do not decide a plan.
  double worst_item_error = 0.0;
  std::string worst_item;
  // Spearman's rank correlation of step times. Absent for one run, or if all are equal.
  std::optional<double> rank_correlation;
  // Measured step of the run predicted to be fastest over that of the fastest, less 1.
  double regret = 0.0;
};

// Summarizes the errors. REQUIRES, unchecked: at least one run.
RunSummary Summarize(absl::Span<const RunResult> runs);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_RUNS_RUN_RESULTS_H_
