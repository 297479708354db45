#include "clients/planctl/runs/run_results_view.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace parplan::planctl {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

double Mebibytes(int64_t bytes) { return static_cast<double>(bytes) / kMebibyte; }

// `+3.2 %`
std::string Percent(double ratio) { return absl::StrFormat("%+.1f %%", ratio * 100.0); }

// `3.2 %`, or a dash where it was not measured.
std::string OthersText(const RunResult& run) {
  return run.used_by_others.has_value() ? absl::StrFormat("%.1f %%", *run.used_by_others * 100.0)
                                        : std::string("-");
}

// Says how far the machines the runs were made on let their step times be believed.
std::string MachineText(absl::Span<const RunResult> runs) {
  std::vector<std::string> busy, unknown;
  double most_used = 0.0;
  for (const RunResult& run : runs) {
    if (run.is_machine_busy) busy.push_back(absl::StrCat(run.label, " (", OthersText(run), ")"));
    if (!run.used_by_others.has_value()) unknown.push_back(run.label);
    most_used = std::max(most_used, run.used_by_others.value_or(0.0));
  }
  std::string text;
  if (!busy.empty()) {
    absl::StrAppend(&text, "machine: BUSY, other programs used processors of the ranks of ",
                    absl::StrJoin(busy, ", "),
                    "; these step times and their errors say little, repeat the runs when nothing "
                    "else runs here\n");
  } else if (unknown.size() < runs.size()) {
    absl::StrAppendFormat(&text, "machine: others used at most %.1f %% of the ranks' processors\n",
                          most_used * 100.0);
  }
  if (!unknown.empty()) {
    absl::StrAppend(&text, "machine: not known what others used during ",
                    absl::StrJoin(unknown, ", "),
                    " (measured for less than a second, or by an "
                    "older parplan-exec)\n");
  }
  return text;
}

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
  return text + "\n" + MachineText(runs);
}

}  // namespace

std::string RunsText(absl::Span<const RunResult> runs) {
  size_t width = 4;
  for (const RunResult& run : runs) width = std::max(width, run.label.size());
  const int column = static_cast<int>(width);
  std::string text = absl::StrFormat(
      "%-*s  %21s  %8s  %21s  %8s  %7s  %s\n"
      "%-*s  %10s %10s  %8s  %10s %10s  %8s  %7s\n",
      column, "", "step, ms", "", "memory, MiB", "", "used by", "loss", column, "run", "predicted",
      "measured", "", "predicted", "measured", "", "others");
  for (const RunResult& run : runs) {
    absl::StrAppendFormat(&text, "%-*s  %10.1f %10.1f  %8s  %10.1f %10.1f  %8s  %7s", column,
                          run.label, run.predicted_step * 1e3, run.measured_step * 1e3,
                          Percent(run.StepError()), Mebibytes(run.predicted_peak_bytes),
                          Mebibytes(run.measured_peak_bytes), Percent(run.PeakError()),
                          OthersText(run));
    if (run.first_loss.has_value() && run.last_loss.has_value()) {
      absl::StrAppendFormat(&text, "  %.3f -> %.3f", *run.first_loss, *run.last_loss);
    }
    absl::StrAppend(&text, run.is_machine_busy ? "  busy machine\n" : "\n");
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
    if (run.used_by_others.has_value()) row["machineUsedByOthersRatio"] = *run.used_by_others;
    row["isMachineBusy"] = run.is_machine_busy;
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
