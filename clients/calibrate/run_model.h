// The model of a published run (a row of published_run.h) as the planner describes models.
// `QuestionOf` (run_problem.h) calls it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_MODEL_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "clients/calibrate/published_run.h"
#include "clients/calibrate/run_runtime.h"
#include "planner/model/model_spec.h"

namespace parplan::accuracy {

// Returns the embedding, the layers, those that predict further tokens, and the head, in this
// order. Layers that are equal share a definition. With `runtime.pads_vocabulary` the vocabulary is
// padded to a multiple of 128 x the tensor-parallel degree. The precision is that of `runtime`, and
// the optimizer is Adam. Returns the errors of `LayerDefinition::Create` and `ModelSpec::Create`.
// REQUIRES, unchecked: `run` is one of `ReadPublishedRuns`, and its tensor-parallel degree is at
// most `kMaxDeviceCount` (planner/model/planning_problem.h).
absl::StatusOr<ModelSpec> ModelOf(const PublishedRun& run, const RunRuntime& runtime);

// Returns a text, for people and as a key of a job, that is equal for models which differ in
// nothing but their name, and different otherwise; the length of the sequence is one of the sizes.
// A size that is left out and one that says what then counts give the same, and so do sizes of a
// part that the model lacks. Kind, convolution's width, chunk and rank of time steps of a state
// space are not in the text, since rows cannot say them.
std::string ModelKey(const PublishedModel& model);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_MODEL_H_
