// Turns the published runs that two slices select (run_slice.h) into measured runs, which the cost
// model predicts later. `PublishedRuns` are those of published_run.h; `MeasuredRun`, of
// calibrate_runs.h, is a run with its measured values and a function that predicts them. `planctl
// calibrate` calls it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_MEASURED_RUNS_H_
#define PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_MEASURED_RUNS_H_

#include <string>
#include <vector>

#include "clients/calibrate/calibrate_runs.h"
#include "clients/calibrate/published_run.h"
#include "clients/calibrate/run_slice.h"

namespace parplan::planctl {

// Returns the runs in the order of the file: each with its step time if it is in `time_slice`, and
// with its peak memory if it is in `memory_slice`. Runs in neither slice are left out, and so are
// runs that published none of the figures their slices ask for. Other runs of either slice that the
// planner cannot express, and all of `published.skipped` in either slice, are appended to `skipped`
// as `id: reason`, the latter first.
//
// Nothing is predicted here: `MeasuredRun::predict` is called later, owns its question, and is safe
// to call from any thread. Pure.
std::vector<MeasuredRun> MeasuredRunsOf(const accuracy::PublishedRuns& published,
                                        const RunSlice& time_slice, const RunSlice& memory_slice,
                                        std::vector<std::string>& skipped);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_MEASURED_RUNS_H_
