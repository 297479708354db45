// Runtime, precision, recomputation and kind of memory figure of a published run. `QuestionOf`
// (run_problem.h) calls it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_RUNTIME_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_RUNTIME_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/calibrate/published_run.h"
#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan::accuracy {

// Settings of a run that are in neither its model nor its plan.
struct RunRuntime {
  // Those of the runtime that the framework names, changed where the run says otherwise.
  RuntimeTraits traits;
  Precision precision = Precision::kBf16;
  RecomputeLevel recompute_level = RecomputeLevel::kNone;
  // Interval of the layers that recompute; 1: each layer.
  int recompute_interval = 1;
  // Values where the run does not say.
  int default_zero_level = 0;
  bool default_sequence_parallel = false;
  // Whether vocabularies are padded to a multiple of 128 x the tensor-parallel degree.
  bool pads_vocabulary = false;
  // Whether stages are filled from the front if layers do not divide evenly (DeepSpeed).
  bool fills_stages_from_front = false;
  MemoryView memory_view = MemoryView::kAllocatedMax;
};

// Returns the settings of `run`, and adds a sentence to `assumptions`, which must not be null, for
// each default that was taken. A framework that is not known is such a default: it is taken as
// parplan's own executor. Returns INVALID_ARGUMENT (SPEC_INVALID) naming `precision` or `recompute`
// if the planner can't express its value.
absl::StatusOr<RunRuntime> RuntimeOf(const PublishedRun& run,
                                     std::vector<std::string>* assumptions);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_RUNTIME_H_
