// Runs as people and scripts read them.

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/planctl/runs/run_results.h"

namespace parplan::planctl {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

double Mebibytes(int64_t bytes) { return static_cast<double>(bytes) / kMebibyte; }

// `+3.2 %`
std::string Percent(double ratio) { return absl::StrFormat("%+.1f %%", ratio * 100.0); }

std::string SummaryText(absl::Span<const RunResult> runs) {
  const RunSummary summary = Summarize(runs);
  std::string text = absl::StrFormat(
      "step time: median error %.1f %%, worst %.1f %%\nmemory: worst error of a peak %.1f %%",
      summary.median_step_error * 100.0, summary.worst_step_error * 100.0,
      summary.worst_peak_error * 100.0);
  if (!summary.worst_item.empty()) {
    absl::StrAppendFormat(&text, ", of an item %.1f %% (%s)", summary.worst_item_error * 100.0,
                          summary.worst_item);
  }
  if (runs.size() > 1) {
    const auto best = std::min_element(
        runs.begin(), runs.end(),
        [](const RunResult& a, const RunResult& b) { return a.predicted_step < b.predicted_step; });
    absl::StrAppendFormat(&text, "\npredicted best: %s, measured %s", best->label,
                          summary.regret <= 0.0
                              ? std::string("best")
                              : absl::StrFormat("%.1f %% behind the best", summary.regret * 100.0));
  }
  if (summary.rank_correlation.has_value()) {
    absl::StrAppendFormat(&text, "; rank correlation %.3f", *summary.rank_correlation);
  }
  return text + "\n";
}

}  // namespace

std::string RunsText(absl::Span<const RunResult> runs) {
  size_t width = 4;
  for (const RunResult& run : runs) width = std::max(width, run.label.size());
  const int column = static_cast<int>(width);
  std::string text =
      absl::StrFormat("%-*s  %21s  %8s  %21s  %8s  %s\n%-*s  %10s %10s  %8s  %10s %10s  %8s\n",
                      column, "", "step, ms", "", "memory, MiB", "", "loss", column, "run",
                      "predicted", "measured", "", "predicted", "measured", "");
  for (const RunResult& run : runs) {
    absl::StrAppendFormat(&text, "%-*s  %10.1f %10.1f  %8s  %10.1f %10.1f  %8s", column, run.label,
                          run.predicted_step * 1e3, run.measured_step * 1e3,
                          Percent(run.StepError()), Mebibytes(run.predicted_peak_bytes),
                          Mebibytes(run.measured_peak_bytes), Percent(run.PeakError()));
    if (run.first_loss.has_value() && run.last_loss.has_value()) {
      absl::StrAppendFormat(&text, "  %.3f -> %.3f", *run.first_loss, *run.last_loss);
    }
    absl::StrAppend(&text, "\n");
  }
  for (const RunResult& run : runs) {
    absl::StrAppendFormat(&text, "%-*s  %s\n", column, run.label, run.gist);
  }
  return text + SummaryText(runs);
}

std::string RunsJson(absl::Span<const RunResult> runs) {
  nlohmann::ordered_json object;
  object["runs"] = nlohmann::ordered_json::array();
  for (const RunResult& run : runs) {
    nlohmann::ordered_json row;
    row["label"] = run.label;
    row["gist"] = run.gist;
    row["stepCount"] = run.step_count;
    row["predictedStepSeconds"] = run.predicted_step;
    row["measuredStepSeconds"] = run.measured_step;
    row["stepError"] = run.StepError();
    row["predictedPeakMemoryBytes"] = run.predicted_peak_bytes;
    row["measuredPeakMemoryBytes"] = run.measured_peak_bytes;
    row["peakMemoryError"] = run.PeakError();
    if (run.first_loss.has_value()) row["firstLoss"] = *run.first_loss;
    if (run.last_loss.has_value()) row["lastLoss"] = *run.last_loss;
    object["runs"].push_back(std::move(row));
  }
  const RunSummary summary = Summarize(runs);
  object["medianStepError"] = summary.median_step_error;
  object["worstStepError"] = summary.worst_step_error;
  object["worstPeakMemoryError"] = summary.worst_peak_error;
  object["worstMemoryItemError"] = summary.worst_item_error;
  object["worstMemoryItem"] = summary.worst_item;
  if (summary.rank_correlation.has_value()) object["rankCorrelation"] = *summary.rank_correlation;
  object["regret"] = summary.regret;
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace parplan::planctl
