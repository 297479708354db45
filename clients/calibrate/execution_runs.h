// Executions reported by executors as measured runs.

#ifndef PARPLAN_CLIENTS_CALIBRATE_EXECUTION_RUNS_H_
#define PARPLAN_CLIENTS_CALIBRATE_EXECUTION_RUNS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "clients/calibrate/calibrate_runs.h"
#include "parplan/v1/execution_service.pb.h"
#include "planner/model/calibration.h"

namespace parplan::planctl {

// Those of `executions` that measured something, in their order. What was predicted
// is taken from the execution, so that no plan, model or profile is needed. It is
// taken to be proportional to the cluster's `time_factor` (step) and
// `activation_factor` (memory): a run therefore moves these two, by no more than it
// should where other terms have a share, and makes no range: what is left of it after
// the fit is not what a prediction leaves. Device families stay open: a cluster's
// factors hold for all of its devices.
//
// An execution names the calibration it was predicted under by its digest. One under
// `base`, which the fit begins with, is taken as it is; one under another of `others` is
// moved to `base` if the two differ for its cluster in these two factors only, as
// calibrations of one line do; so a factor is never taken times what it was. One that
// names none (an older server's) is taken to be under `base`.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming `executions[i].name` when that is no name of
// an execution, or a duration that is none; `executions[i].calibration_digest` when the
// calibration is none of those given, or differs in more.
absl::StatusOr<std::vector<MeasuredRun>> RunsOfExecutions(
    const v1::ListExecutionsResponse& executions, std::shared_ptr<const Calibration> base,
    absl::Span<const std::shared_ptr<const Calibration>> others = {});

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_CALIBRATE_EXECUTION_RUNS_H_
