// Executions reported by executors as measured runs, for `planctl calibrate --executions`. The
// result goes to `CalibrateRuns`.

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

// Returns the executions that measured a step or a peak and have the prediction of it, as runs in
// their order; the others are left out. REQUIRES, unchecked: `base` and the pointers in `others`
// are not null; the runs share ownership of them.
//
// The prediction is taken from the execution, so that no plan, model or profile is needed. It is
// assumed to be proportional to the cluster's `time_factor` (step) and `activation_factor`
// (memory): a run therefore moves these two, by no more than it should if other terms have a share.
// It makes no range: its residual after the fit is not that of a prediction. Device families stay
// open: a cluster's factors hold for all of its devices.
//
// An execution names the calibration of its prediction by its digest. A prediction under `base`,
// with which the fit begins, is used unchanged. One under a calibration of `others` is converted to
// `base` if the two differ for its cluster in these two factors only, as calibrations that were
// fitted one after the other do; so no factor is applied twice. An execution that names none (of an
// older server) is assumed to be under `base`. A `base` without a digest, such as
// `Calibration::BuiltIn()`, is that of no execution that names one.
//
// Pure. Returns INVALID_ARGUMENT (SPEC_INVALID) with `executions[i].name` if that is not the name
// of an execution, with the field of an invalid duration, or with
// `executions[i].calibration_digest` if the calibration is not among those given or differs in
// other values.
absl::StatusOr<std::vector<MeasuredRun>> RunsOfExecutions(
    const v1::ListExecutionsResponse& executions, const std::shared_ptr<const Calibration>& base,
    absl::Span<const std::shared_ptr<const Calibration>> others = {});

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_CALIBRATE_EXECUTION_RUNS_H_
