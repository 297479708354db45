// Predicts a published run with the cost model. `planctl calibrate` and the accuracy study call it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_PREDICT_RUN_H_
#define PARPLAN_CLIENTS_CALIBRATE_PREDICT_RUN_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "clients/calibrate/run_problem.h"
#include "planner/model/calibration.h"
#include "planner/model/plan.h"

namespace parplan::accuracy {

// The prediction of a published run by PredictRun or a fake of a test.
struct RunPrediction {
  // Time of one step.
  Seconds step;
  // Range in which nine of ten measured steps lie; absent if the cost model gives none.
  std::optional<StepRange> step_range;
  // The kind of data behind the times.
  Confidence confidence = Confidence::kEstimated;
  // Times of one micro-batch on the stage that is busy longest.
  TimeItems time_items;
  // Memory of the stage whose peak the source published, only the items that this peak counts.
  MemoryItems memory_items;
  // Sum of `memory_items`, which is compared with the measured peak.
  Bytes memory;
  // The bound of `memory` at the risk that the planner accepts: measured peaks are above it as
  // often.
  Bytes memory_bound;
  // Total memory of the fullest device (whatever the source published) at the risk that the planner
  // accepts: a run is refused if this is above the device's memory.
  Bytes memory_upper;
};

// Returns a prediction, or the reason why there is none.
using RunPredictor = std::function<absl::StatusOr<RunPrediction>(const RunQuestion&)>;

// Returns the items of a stage's peak that `view` counts: tensors and workspaces for allocated
// memory, whichever rank it is of, with the allocator's loss for reserved memory, and all of them
// for the device.
MemoryItems ItemsInView(const MemoryItems& items, MemoryView view);

// Predicts with the cost model, from data sheets alone. A null `calibration` stands for the
// built-in one. Pure, safe to call from any thread. REQUIRES, unchecked: `question` is one of
// `QuestionOf` (run_problem.h). Returns the errors of `PlanningProblem::Create`
// (planning_problem.h) and `CostModel::Create` (cost_model.h): INVALID_ARGUMENT (SPEC_INVALID), or
// FAILED_PRECONDITION (PROFILE_MISSING).
absl::StatusOr<RunPrediction> PredictRun(const RunQuestion& question,
                                         const std::shared_ptr<const Calibration>& calibration);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_PREDICT_RUN_H_
