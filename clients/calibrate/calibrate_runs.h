// A calibration from measured runs, each with a function that predicts it; `planctl calibrate`
// calls it once. Pure functions, safe to call from any thread.

#ifndef PARPLAN_CLIENTS_CALIBRATE_CALIBRATE_RUNS_H_
#define PARPLAN_CLIENTS_CALIBRATE_CALIBRATE_RUNS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "planner/calibrate/fit_coefficients.h"
#include "planner/calibrate/fit_parameters.h"
#include "planner/model/calibration.h"

namespace parplan::planctl {

// The prediction of a run: of one step, and of the peak of one device that the run measured.
struct RunPrediction {
  // Step and memory; each may be absent if `MeasuredRun` has no measured value of it.
  std::optional<Seconds> step;
  std::optional<Bytes> memory;
  // The confidence and reach by which residuals are classed; absent if unknown.
  std::optional<Confidence> confidence;
  std::optional<TensorParallelReach> tensor_parallel_reach;
};

// A run and a way to predict it.
struct MeasuredRun {
  // Name of the run in messages: the id of its row, or the name of its execution.
  std::string id;
  // The source named in the provenance: a data set, or `executions of CLUSTER`.
  std::string source;
  // Device family and cluster, which choose the coefficients that the run moves (fit_parameters.h).
  FitPlace place;
  // The measured values to fit, above 0; for another value the run is skipped for that quantity
  // only. A run may have only one of them, if it was chosen (docs/calibration.md) for only one. A
  // run with neither is passed over, and is not in `CalibrateResult::skipped`.
  std::optional<Seconds> step;
  std::optional<Bytes> memory;
  // Whether its residual may widen ranges; false if `predict` only approximates.
  bool makes_range = true;
  // Pure: the same answer for the same calibration. Called on the thread of the caller, for each
  // quantity that the run has about 2 * parameters + 1 times in each of usually 5 to 20 iterations
  // (fit_coefficients.h): a few hundred times and more; must not keep the calibration.
  //
  // If it fails, or lacks a value to compare, under the calibration that a fit starts from, the run
  // is skipped; under a later one, the fit avoids that one. The fit of step time starts from the
  // base, and that of memory from the result for step time. REQUIRES, unchecked: not empty.
  std::function<absl::StatusOr<RunPrediction>(const Calibration&)> predict;
};

// One coefficient that was fitted, with its value before (`FitParameter`) and after.
struct FittedCoefficient {
  FitParameter parameter;
  FittedParameter fitted;
};

// Residuals of the runs of one source, of one quantity.
struct SourceResiduals {
  ResidualQuantity quantity = ResidualQuantity::kStepDuration;
  // `MeasuredRun::source` of the runs, and their number.
  std::string source;
  int64_t run_count = 0;
  // Mean of |predicted / measured - 1| before and after.
  double error_before = 0.0;
  double error_after = 0.0;
  // Mean of predicted / measured - 1 after.
  double bias_after = 0.0;
};

// The start of a fit, and the origin that its result states.
struct CalibrateRequest {
  // The calibration that the fit starts from and shrinks towards. Null: `Calibration::BuiltIn()`.
  std::shared_ptr<const Calibration> base;
  // Provenance of the result: who fitted it, which must not be empty (`Calibration::Create` refuses
  // that after the fit), and when in RFC 3339, of which only the length is checked. Its sources are
  // those of the runs, and those of the base that have no run; `slice_rule_of` returns the rule by
  // which the runs of a source were chosen, and may be empty: no rule.
  std::string agent;
  std::string fit_time;
  std::function<std::string(const std::string& source)> slice_rule_of;
};

// The fitted calibration, and how well it predicts the runs.
struct CalibrateResult {
  Calibration calibration;
  // Those of step time first, then those of memory; residuals by source within each of the two.
  std::vector<FittedCoefficient> coefficients;
  std::vector<SourceResiduals> residuals;
  // Runs that could not be predicted or compared, as `id: reason`; one that has both values may be
  // there twice.
  std::vector<std::string> skipped;
};

// Fits the coefficients of step time, then those of memory, and makes the classes of residuals.
// Classes of the base for which there is no run are kept. Those of them with no residuals are left
// out; `Calibration` has its priors for them. Peaks below 8e9 bytes are fitted but enter no class:
// their relative errors are those of fixed costs. The result has the digest of the base as its
// parent and no digest of its own: `CalibrationToProto` computes it. A quantity that no run has
// keeps the base's values. Blocks for as long as the predictions take; nothing ends it early.
// Returns INVALID_ARGUMENT (SPEC_INVALID) naming `runs` if no run is left to fit, and the errors of
// `FitCoefficients` and of `Calibration::Create`, for example for too many classes.
absl::StatusOr<CalibrateResult> CalibrateRuns(const std::vector<MeasuredRun>& runs,
                                              const CalibrateRequest& request);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_CALIBRATE_CALIBRATE_RUNS_H_
