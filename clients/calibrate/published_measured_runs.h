// Turns the published runs of slices into measured runs, predicted by the cost model.

#ifndef PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_MEASURED_RUNS_H_
#define PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_MEASURED_RUNS_H_

#include <string>
#include <vector>

#include "clients/calibrate/calibrate_runs.h"
#include "clients/calibrate/published_run.h"
#include "clients/calibrate/run_slice.h"

namespace parplan::planctl {

// Returns the runs in the order of the file. A run keeps its step if it is in `time_slice` and its
// memory if it is in `memory_slice`; runs in neither are left out before anything is read of them,
// and so are runs without the figure that is wanted. Runs that the planner cannot express, also
// those of `published.skipped`, are appended to `skipped`, as `id: reason`. Used by
// `planctl calibrate`.
std::vector<MeasuredRun> MeasuredRunsOf(const accuracy::PublishedRuns& published,
                                        const RunSlice& time_slice, const RunSlice& memory_slice,
                                        std::vector<std::string>& skipped);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_MEASURED_RUNS_H_
