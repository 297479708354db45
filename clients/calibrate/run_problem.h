// Expresses a published run in the planner's own values, as a question for its prediction.
// `MeasuredRunsOf` and the accuracy study make such questions, and `PredictRun` predicts them.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_PROBLEM_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_PROBLEM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "clients/calibrate/published_run.h"
#include "planner/model/hardware.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/topology.h"

namespace parplan::accuracy {

// Name of the cluster if neither a run nor its source names one, and the run has no repository.
inline constexpr char kUnnamedCluster[] = "published";

// The inputs of a predictor, without measurements. No pointer is null.
struct RunQuestion {
  // The id of the run.
  std::string id;
  std::shared_ptr<const ModelSpec> model;
  // Topology; the device kind of its node group is `hardware->device.device_id`.
  std::shared_ptr<const Topology> topology;
  // Whether the run or its source names the cluster. Otherwise the cluster of the topology stands
  // for the repository that publishes the run, or is `kUnnamedCluster`.
  bool has_stated_cluster = false;
  std::shared_ptr<const Hardware> hardware;
  // `plan.stages` holds virtual stages in the order of the model's layers.
  Plan plan;
  RuntimeTraits runtime;
  // The kind of peak that the source published.
  MemoryView memory_view = MemoryView::kAllocatedMax;
  // Memory of a device that programs can allocate; a run that needs more fails.
  Bytes device_memory;
  // Key of the job: equal for equal model (`ModelKey`), devices, batch, precision and source, and
  // different otherwise.
  std::string job_key;
  // Key of the plan: equal for equal plans of one job.
  std::string plan_key;
  // Values that the run leaves open and how they were filled in, one sentence per entry.
  std::vector<std::string> assumptions;
};

// Returns the question of `run`, a run of ReadPublishedRuns (`beyond` is not looked at: that
// function leaves such runs out). Returns INVALID_ARGUMENT (SPEC_INVALID), with the member of the
// run's row at fault, for a run that the planner can't express or that contradicts itself, and with
// the field of the model or topology made of it if its sizes are out of range. docs/accuracy.md
// lists the rules for values that rows leave open. Pure.
absl::StatusOr<RunQuestion> QuestionOf(const PublishedRun& run);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_PROBLEM_H_
