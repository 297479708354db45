// `AccuracyText` of accuracy_report.h.

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quantity_text.h"
#include "clients/report/html.h"
#include "studies/accuracy/accuracy_report.h"

namespace parplan::accuracy {
namespace {

std::string PercentText(const std::optional<double>& ratio) {
  return ratio.has_value() ? absl::StrFormat("%.1f", 100.0 * *ratio) : "-";
}

std::string SignedText(const std::optional<double>& ratio) {
  return ratio.has_value() ? absl::StrFormat("%+.1f", 100.0 * *ratio) : "-";
}

std::string Oom(const AccuracyFigures& figures) {
  return figures.oom_total == 0 ? "-" : absl::StrCat(figures.oom_refused, "/", figures.oom_total);
}

std::string FiguresLine(const std::string& name, const AccuracyFigures& figures, int skipped) {
  return absl::StrFormat("%-26s %5d %4d  %6s %6s %6s  %6s %6s %6s  %5s %5s\n", name, figures.count,
                         skipped, PercentText(figures.time_mape), PercentText(figures.time_median),
                         SignedText(figures.time_bias), PercentText(figures.memory_mape),
                         SignedText(figures.memory_bias), PercentText(figures.memory_under_rate),
                         Oom(figures), PercentText(figures.false_refusals));
}

std::string SourceTableText(const AccuracySummary& summary) {
  std::string text = absl::StrFormat("%-26s %5s %4s  %6s %6s %6s  %6s %6s %6s  %5s %5s\n", "", "",
                                     "", "time", "", "", "memory", "", "", "OOMs", "false");
  absl::StrAppend(&text, absl::StrFormat("%-26s %5s %4s  %6s %6s %6s  %6s %6s %6s  %5s %5s\n",
                                         "in per cent", "rows", "skip", "MAPE", "median", "bias",
                                         "MAPE", "bias", "under", "found", "alarm"));
  for (const auto& [source, accuracy] : summary.sources) {
    absl::StrAppend(&text, FiguresLine(source, accuracy.all, accuracy.skipped));
    if (accuracy.unfitted.count == accuracy.all.count) continue;
    absl::StrAppend(&text, FiguresLine("  unfitted", accuracy.unfitted, 0));
  }
  return text;
}

// Shows how often measurements lay within the ranges.
std::string RangeTable(const AccuracySummary& summary) {
  std::string text = absl::StrCat(
      "\nwhat ranges promise and hold, in per cent\n",
      absl::StrFormat("%-26s %14s  %22s\n", "", "steps in range", "peaks above the bound"),
      absl::StrFormat("%-26s %14s  %22s\n", "promised", "90.0", "1.0"));
  for (const auto& [source, accuracy] : summary.sources) {
    absl::StrAppend(&text, absl::StrFormat("%-26s %14s  %22s\n", source,
                                           PercentText(accuracy.all.time_in_range),
                                           PercentText(accuracy.all.memory_over_bound)));
  }
  return text;
}

// Shows how many runs that failed for reasons not said would have been refused.
std::string FailedTable(const AccuracySummary& summary) {
  std::string text;
  for (const auto& [source, accuracy] : summary.sources) {
    const AccuracyFigures& figures = accuracy.all;
    if (figures.failed_total == 0) continue;
    absl::StrAppend(&text, absl::StrFormat("%-26s %6d  %7d\n", source, figures.failed_total,
                                           figures.failed_refused));
  }
  if (text.empty()) return "";
  return absl::StrCat("\nruns that failed, for memory or another reason\n",
                      absl::StrFormat("%-26s %6s  %7s\n", "", "failed", "refused"), text);
}

// Says how much of the collection is predicted.
std::string SharePredicted(const AccuracySummary& summary) {
  const size_t all = summary.rows.size() + summary.skipped.size();
  if (all == 0) return "";
  return absl::StrFormat(
      "\npredicted %d of %d rows (%.1f %%)\n", summary.rows.size(), all,
      100.0 * static_cast<double>(summary.rows.size()) / static_cast<double>(all));
}

std::string GroupTable(const AccuracySummary& summary) {
  std::string text;
  for (const auto& [source, accuracy] : summary.sources) {
    const GroupFigures& groups = accuracy.groups;
    if (groups.count == 0) continue;
    absl::StrAppend(&text,
                    absl::StrFormat("%-26s %6d  %6s %6s  %6s\n", source, groups.count,
                                    PercentText(groups.regret_mean), PercentText(groups.regret_max),
                                    groups.rank_correlation_mean.has_value()
                                        ? absl::StrFormat("%.2f", *groups.rank_correlation_mean)
                                        : "-"));
  }
  if (text.empty()) return "";
  return absl::StrCat(
      "\none job under several plans: choosing by prediction\n",
      absl::StrFormat("%-26s %6s  %6s %6s  %6s\n", "", "groups", "regret", "worst", "rank r"),
      text);
}

std::string WorstRows(const AccuracySummary& summary) {
  std::string text;
  for (const auto& [source, accuracy] : summary.sources) {
    std::string rows;
    for (const AccuracyRow* row : accuracy.worst_time) {
      absl::StrAppend(&rows, "  time   ", absl::StrFormat("%+7.1f %%", 100.0 * *row->TimeError()),
                      "  ", row->id, ": ", TimeText(row->prediction.step), " for ",
                      TimeText(*row->measured_step), " (",
                      DominatingTerms(row->prediction.time_items), ")\n");
    }
    for (const AccuracyRow* row : accuracy.worst_memory) {
      absl::StrAppend(&rows, "  memory ", absl::StrFormat("%+7.1f %%", 100.0 * *row->MemoryError()),
                      "  ", row->id, ": ", SizeText(row->prediction.memory), " for ",
                      SizeText(*row->measured_memory), " (",
                      DominatingTerms(row->prediction.memory_items), ")\n");
    }
    if (!rows.empty()) absl::StrAppend(&text, "\nworst of ", source, "\n", rows);
  }
  return text;
}

std::string Skipped(const AccuracySummary& summary) {
  if (summary.skipped.empty()) return "";
  std::string text = "\nskipped\n";
  for (const SkipReason& reason : SkipReasons(summary)) {
    absl::StrAppend(&text, absl::StrFormat("%6d  ", reason.count), reason.source, ": ",
                    reason.reason, " (", reason.example, ")\n");
  }
  return text;
}

}  // namespace

const char* ViewName(MemoryView view) {
  switch (view) {
    case MemoryView::kAllocatedLastRank:
      return "allocated_last_rank";
    case MemoryView::kAllocatedMax:
      return "allocated_max";
    case MemoryView::kReservedMax:
      return "reserved_max";
    case MemoryView::kReservedFirstRank:
      return "reserved_first_rank";
    case MemoryView::kAllocatedFirstRank:
      return "allocated_first_rank";
    case MemoryView::kDeviceTotal:
      return "device_total";
  }
  return "";
}

const char* ViewWords(MemoryView view) {
  switch (view) {
    case MemoryView::kAllocatedLastRank:
      return "tensors on the last rank";
    case MemoryView::kAllocatedMax:
      return "tensors on the fullest rank";
    case MemoryView::kReservedMax:
      return "tensors and the allocator's reserve on the fullest rank";
    case MemoryView::kReservedFirstRank:
      return "tensors and the allocator's reserve on the first rank";
    case MemoryView::kAllocatedFirstRank:
      return "tensors on the first rank";
    case MemoryView::kDeviceTotal:
      return "all that is in use on the fullest device";
  }
  return "";
}

std::vector<SkipReason> SkipReasons(const AccuracySummary& summary) {
  std::map<std::pair<std::string, std::string>, SkipReason> reasons;
  for (const SkippedRun& skip : summary.skipped) {
    SkipReason& reason = reasons[{skip.source, skip.reason}];
    if (reason.count++ > 0) continue;
    reason.source = skip.source;
    reason.reason = skip.reason;
    reason.example = skip.id;
  }
  std::vector<SkipReason> list;
  for (auto& [key, reason] : reasons) list.push_back(std::move(reason));
  return list;
}

std::string AccuracyText(const AccuracySummary& summary) {
  return absl::StrCat(SourceTableText(summary), SharePredicted(summary), RangeTable(summary),
                      FailedTable(summary), GroupTable(summary), WorstRows(summary),
                      Skipped(summary), "\ncalibration ", summary.calibration_id, "; ",
                      FittedSliceRule(), "\n");
}

}  // namespace parplan::accuracy
