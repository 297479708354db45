// A published run as the planner's own values: the question "what would you have
// expected of this?".

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

// Cluster of the topologies of sources that do not say where they measured.
inline constexpr char kUnnamedCluster[] = "published";

// Everything that a predictor needs; nothing that was measured.
struct RunQuestion {
  std::string id;
  std::shared_ptr<const ModelSpec> model;
  // Its node group's device kind is `hardware->device.device_id`.
  std::shared_ptr<const Topology> topology;
  std::shared_ptr<const Hardware> hardware;
  // `plan.stages` holds virtual stages in the order of the model's layers.
  Plan plan;
  RuntimeTraits runtime;
  // The kind of peak that the source published.
  MemoryView memory_view = MemoryView::kAllocatedMax;
  // Memory of a device that programs can allocate; a run that needs more fails.
  Bytes device_memory;
  // Questions of one job: equal model, devices, batch, precision and source.
  std::string job_key;
  // Among those, equal for equal plans.
  std::string plan_key;
  // Values that the row leaves open and how they were filled in, one sentence per entry.
  std::vector<std::string> assumptions;
};

// Returns the question of `run`. INVALID_ARGUMENT (SPEC_INVALID), with the member of the row at
// fault, for a run that the planner can't express or that contradicts itself. docs/accuracy.md
// lists the rules for what rows leave open.
absl::StatusOr<RunQuestion> QuestionOf(const PublishedRun& run);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_PROBLEM_H_
