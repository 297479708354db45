// What runs of plans measured, beside what was predicted: the files that
// `parplan-exec --results` writes, read and compared.

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

// One item of the memory of a stage's fullest device.
struct RunMemoryItem {
  int stage = 0;
  // As in results: `parameters`, `activations`, ...
  std::string name;
  int64_t predicted_bytes = 0;
  int64_t measured_bytes = 0;
};

// The steps of one run under one plan.
struct RunResult {
  // What people call it: the file's name, without folder and ending.
  std::string label;
  std::string gist;
  int64_t step_count = 0;
  // Seconds, above 0.
  double predicted_step = 0.0;
  double measured_step = 0.0;
  int64_t predicted_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;
  // Share of the ranks' processors that other programs used during the measured steps, and
  // whether the run calls its machine too busy for its step times to be believed. Absent if the
  // run could not measure it, or was made by a release that did not.
  std::optional<double> used_by_others;
  bool is_machine_busy = false;
  // Of all stages whose memory was measured.
  std::vector<RunMemoryItem> items;
  // Of the first and the last step of the run.
  std::optional<double> first_loss;
  std::optional<double> last_loss;

  // measured / predicted - 1.
  double StepError() const { return measured_step / predicted_step - 1.0; }
  double PeakError() const;
};

// The plans of one file in the order of the run; several where plans were swapped. `path`
// names it in errors and labels. INVALID_ARGUMENT (SPEC_INVALID) naming the field that is
// missing or wrong; plans without a measured window are left out.
absl::StatusOr<std::vector<RunResult>> ReadRunResults(absl::string_view path,
                                                      absl::string_view text);

// How well predictions met measurements.
struct RunSummary {
  // Of step times: absolute relative errors.
  double median_step_error = 0.0;
  double worst_step_error = 0.0;
  // The same of the memory of the fullest device,
  double worst_peak_error = 0.0;
  // and of items by stage. An item of less than a hundredth of its stage's peak counts by its
  // share of that hundredth: nobody plans by it.
  double worst_item_error = 0.0;
  std::string worst_item;
  // Spearman's, of step times. Absent for one run, or where all are equal.
  std::optional<double> rank_correlation;
  // Measured step of the run predicted to be fastest over that of the fastest, less 1.
  double regret = 0.0;
};

// REQUIRES: runs.
RunSummary Summarize(absl::Span<const RunResult> runs);

// A table in the order given and the summary below it.
std::string RunsText(absl::Span<const RunResult> runs);
std::string RunsJson(absl::Span<const RunResult> runs);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_RUNS_RUN_RESULTS_H_
