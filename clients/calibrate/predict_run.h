// What the cost model expects of a published run.

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

struct RunPrediction {
  Seconds step;
  // Where a measured step is expected, when the model says.
  std::optional<StepRange> step_range;
  // What the times rest on.
  Confidence confidence = Confidence::kEstimated;
  // Of the stage that is busy longest, one micro-batch.
  TimeItems time_items;
  // Of the stage whose peak the source published, only what that peak counts.
  MemoryItems memory_items;
  // Their sum: compared with the measured peak.
  Bytes memory;
  // What the fullest device holds in all (whatever the source published), at the
  // risk the planner accepts: a run is refused when this is above the device's
  // memory.
  Bytes memory_upper;
};

// Gives a prediction, or why there is none.
using RunPredictor = std::function<absl::StatusOr<RunPrediction>(const RunQuestion&)>;

// The items of a stage's peak that `view` counts: tensors and workspaces for
// allocated memory, with the allocator's loss for reserved memory, and all of them
// for the device.
MemoryItems ItemsInView(const MemoryItems& items, MemoryView view);

// Predicts with the cost model, from data sheets alone. A null `calibration` is the
// built-in one. Errors are those of `PlanningProblem::Create` and
// `CostModel::Create`.
absl::StatusOr<RunPrediction> PredictRun(const RunQuestion& question,
                                         const std::shared_ptr<const Calibration>& calibration);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_PREDICT_RUN_H_
