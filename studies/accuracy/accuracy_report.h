// Writes the answer of `parplan-study accuracy` as text, as one JSON object or as an HTML page.
// studies/main/accuracy_command.cc calls them.

#ifndef PARPLAN_STUDIES_ACCURACY_ACCURACY_REPORT_H_
#define PARPLAN_STUDIES_ACCURACY_ACCURACY_REPORT_H_

#include <string>
#include <vector>

#include "studies/accuracy/accuracy_metrics.h"

namespace parplan::accuracy {

// Returns tables by source, the worst rows with the terms that dominate them, groups, and the
// reasons of skipped rows.
std::string AccuracyText(const AccuracySummary& summary);

// Returns one object; docs/accuracy.md lists its members. Errors and rates are fractions, times
// seconds, sizes bytes; null means absent.
std::string AccuracyJson(const AccuracySummary& summary);

// Returns a self-contained page without script: scatter plots of predicted against measured, and
// the tables. Below 1 MiB for 2,000 rows; says what it leaves out.
std::string AccuracyHtml(const AccuracySummary& summary);

// Return the name of a view in JSON, for example `allocated_last_rank`, and in words; they live as
// long as the program.
const char* ViewName(MemoryView view);
const char* ViewWords(MemoryView view);

// Skipped rows with equal reasons: source, reason, number of rows, and the id of one.
struct SkipReason {
  std::string source;
  std::string reason;
  int count = 0;
  std::string example;
};
// Returns the reasons of all skipped rows, by source and then by text; the example is the first row
// of `AccuracySummary::skipped` with the reason.
std::vector<SkipReason> SkipReasons(const AccuracySummary& summary);

}  // namespace parplan::accuracy

#endif  // PARPLAN_STUDIES_ACCURACY_ACCURACY_REPORT_H_
