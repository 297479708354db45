// `WalksSection` of page_sections.h.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/planners/galvatron/bi_objective.h"
#include "planner/planners/galvatron/bmw_walk.h"
#include "studies/papers/page_sections.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

std::string Step(double seconds) {
  return seconds > 0.0 ? absl::StrFormat("%.4g", seconds) : "none fits";
}

// Returns by how much the slowest step of a column is longer than the last one of its row.
double LargestLoss(const std::vector<WalkRow>& rows, std::vector<double> WalkRow::*steps,
                   size_t column) {
  double largest = 0.0;
  for (const WalkRow& row : rows) {
    const std::vector<double>& taken = row.*steps;
    if (taken.empty() || taken.back() <= 0.0) continue;
    // Without a plan there is no ratio; the row says so.
    if (taken[column] > 0.0) largest = std::max(largest, taken[column] / taken.back() - 1.0);
  }
  return largest;
}

}  // namespace

std::string WalksSection(const PapersResults& results) {
  if (results.walks.empty()) return "";
  std::string text = "## Where a walk ends\n\n";
  text += Paragraph(absl::StrCat(
      "A walk of `galvatron-bmw` ends after ", kMaxPartitions,
      " partitions, and adjusts nothing "
      "more after 2^23 states of the dynamic program. Here other limits stand in their place: the "
      "question is that of pipelines alone (`--space all,-tensor,-zero-1,-zero-2,-zero-3 "
      "--partitioner even`), and the walks are those of the batch, depth and number of "
      "micro-batches of its answer. Steps in seconds of the fastest partition that fits; behind "
      "those of states the processor seconds of all walks, with the prediction of every plan. "
      "`parplan-study papers --section long-walks` makes this table."));
  std::vector<std::string> head = {"model", "devices", "batch",
                                   "P, m",  "walks",   "partitions of the longest"};
  for (const int limit : kPartitionLimits) head.push_back(absl::StrCat(limit, " partitions"));
  head.emplace_back("all");
  for (const int log : kStateLimitLogs) head.push_back(absl::StrCat("2^", log, " states"));
  text += Head(head);
  int most = 0, ended = 0;
  for (const WalkRow& row : results.walks) {
    std::vector<std::string> cells = {
        row.model,
        absl::StrCat(row.device_count, " x ", row.device_kind, ", ", row.memory_gb, " GB"),
        absl::StrCat(row.batch)};
    if (row.walk_count == 0) {
      cells.emplace_back(row.stage_count == 1 ? "one stage" : "no plan");
      cells.resize(head.size());
      text += Row(cells);
      continue;
    }
    most = std::max(most, row.most_partitions);
    if (row.has_most_partitions) ++ended;
    cells.push_back(absl::StrCat(row.stage_count, ", ", row.micro_batch_count));
    cells.push_back(absl::StrCat(row.walk_count));
    cells.push_back(absl::StrCat(row.most_partitions));
    for (const double step : row.steps_by_partitions) cells.push_back(Step(step));
    for (size_t index = 0; index < row.steps_by_states.size(); ++index) {
      cells.push_back(absl::StrFormat("%s in %.2f s", Step(row.steps_by_states[index]),
                                      row.seconds_by_states[index]));
    }
    text += Row(cells);
  }
  std::string losses;
  for (size_t index = 0; index < std::size(kPartitionLimits); ++index) {
    absl::StrAppend(&losses, index == 0 ? "" : ", ", kPartitionLimits[index], " partitions ",
                    Percent(LargestLoss(results.walks, &WalkRow::steps_by_partitions, index)));
  }
  for (size_t index = 0; index < std::size(kStateLimitLogs); ++index) {
    absl::StrAppend(&losses, ", 2^", kStateLimitLogs[index], " states ",
                    Percent(LargestLoss(results.walks, &WalkRow::steps_by_states, index)));
  }
  return absl::StrCat(text, "\n",
                      Paragraph(absl::StrCat(
                          "The longest walk has ", most,
                          " partitions; the limit on partitions "
                          "ended the walks of ",
                          ended, " of ", results.walks.size(),
                          " questions. The largest loss of a step by each limit: ", losses, ".")));
}

}  // namespace parplan::papers
