// Runtime, precision and recomputation of a published run, and which kind of memory figure it
// published. `QuestionOf` (run_problem.h) calls it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_RUNTIME_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_RUNTIME_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/calibrate/published_run.h"
#include "clients/calibrate/run_stages.h"
#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan::accuracy {

// Settings of a run that are in neither its model nor its plan.
struct RunRuntime {
  // Those of the runtime that `framework`, or else `source`, names (`megatron` alone is Megatron
  // Core if the device in `hardware` is younger than it, else the release of 2021), changed where
  // the run says otherwise or its source is known to differ. The precision sets the bytes of
  // gradients of Megatron's programs: 2 with fp16, else 4, or for DeepSpeed and Megatron-Bridge
  // those of the runtime.
  RuntimeTraits traits;
  Precision precision = Precision::kBf16;
  Recomputation recomputation;
  // With interval n the n-th, 2n-th, ... layer behind the embedding recompute, counted from 1 over
  // all stages; at least 1. Of these only the first `recompute_layer_count` of each virtual stage
  // do if the run has such a number. Layers that predict further tokens never recompute.
  int recompute_interval = 1;
  // ZeRO level, 0 to 3, of a run that does not say its own.
  int default_zero_level = 0;
  // Whether a run that does not say has sequence parallelism.
  bool default_sequence_parallel = false;
  // Whether vocabularies are padded to a multiple of 128 x the tensor-parallel degree.
  bool pads_vocabulary = false;
  // How the runtime splits layers into stages if the run does not say.
  StageSplit stage_split = StageSplit::kEven;
  // The kind of memory figure that the run published: that of its row, else that of its source if
  // it is known, else that which words of `note` name, else `kAllocatedMax`.
  MemoryView memory_view = MemoryView::kAllocatedMax;
};

// Returns the settings of `run`, and appends a sentence to `assumptions`, which must not be null,
// for a default that was taken for the framework, the precision or recomputation. The program is
// that of `framework` or, if that is not known, the one that `source` names; otherwise it is taken
// as parplan's own executor.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) naming `precision`, `recompute` or `recompute_modules` if
// the planner can't express its value; `assumptions` may have grown then. Pure.
absl::StatusOr<RunRuntime> RuntimeOf(const PublishedRun& run,
                                     std::vector<std::string>* assumptions);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_RUNTIME_H_
