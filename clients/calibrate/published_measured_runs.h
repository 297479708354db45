// Published runs as measured runs: those of the slices, predicted by the cost model.

#ifndef PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_MEASURED_RUNS_H_
#define PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_MEASURED_RUNS_H_

#include <string>
#include <vector>

#include "clients/calibrate/calibrate_runs.h"
#include "clients/calibrate/published_run.h"
#include "clients/calibrate/run_slice.h"

namespace parplan::planctl {

// In the order of the file. A run keeps its step when `time_slice` holds it and its
// memory when `memory_slice` does; the others are left out, unseen. Those that the
// planner has no words for go to `skipped`, `id: reason`.
std::vector<MeasuredRun> MeasuredRunsOf(const accuracy::PublishedRuns& published,
                                        const RunSlice& time_slice, const RunSlice& memory_slice,
                                        std::vector<std::string>& skipped);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_MEASURED_RUNS_H_
