// Shows the results of runs. `planctl runs` prints one of them.

#ifndef PARPLAN_CLIENTS_PLANCTL_RUNS_RUN_RESULTS_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_RUNS_RUN_RESULTS_VIEW_H_

#include <string>

#include "absl/types/span.h"
#include "clients/planctl/runs/run_results.h"

namespace parplan::planctl {

// Return the runs as a table in the order given with their summary below it, as text (ms, MiB) or
// as JSON (seconds, bytes). REQUIRES, unchecked: at least one run.
std::string RunsText(absl::Span<const RunResult> runs);
std::string RunsJson(absl::Span<const RunResult> runs);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_RUNS_RUN_RESULTS_VIEW_H_
