// The collectives of one rank in a step, as the cost model prices them. `planctl explain
// --collectives` shows them, and `parplan-torch check` compares its counts with the same table in
// Python (clients/python/parplan/traffic.py).

#ifndef PARPLAN_PLANNER_COST_STEP_COLLECTIVES_H_
#define PARPLAN_PLANNER_COST_STEP_COLLECTIVES_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// The part of a step to which a collective belongs.
enum class CollectivePurpose {
  kTensor = 1,
  kContext = 2,
  kExpert = 3,
  // Gradients and sharded parameters of layers.
  kGradient = 4,
  // Gradients of which each tensor-parallel rank has a part.
  kPartialGradient = 5,
  // Changes between layers of different strategies; between stages, those of the sending stage.
  kLayout = 6,
  // Messages between stages: a message is one call on either side. Activations and gradients of a
  // pair of ranks are one entry. If the runtime scatters messages
  // (`RuntimeTraits::scattered_pipeline_messages`), also the all-gathers that put them together.
  kPipeline = 7,
  // Gradients of the table that embedding and head share, summed once over all stages that hold
  // it, if these are several. Times count an exchange for each layer that holds it, which is the
  // same in models whose first layer is the embedding and whose last one is the head.
  kTiedTable = 8,
  // The sum of the loss over all ranks, once a step; only for runtimes that sum it.
  kLoss = 9,
};

// Returns the name for messages and JSON, for example `change of layout`, which lives as long as
// the program.
absl::string_view CollectivePurposeName(CollectivePurpose purpose);

// The collectives of one kind for one purpose in one group.
struct StepCollective {
  CollectivePurpose purpose = CollectivePurpose::kTensor;
  Collective collective = Collective::kAllReduce;
  // The ranks of the job that take part, ascending; the rank asked for is one of them. For ring
  // attention, whose calls are `kSendReceive`, they are all ranks of the ring.
  std::vector<int> ranks;
  // Calls of the rank in a step; a fraction if layers share a message.
  double count = 0.0;
  // The sizes of all calls together, counted as in nccl-tests.
  double bytes = 0.0;
};

// Lists what `rank` takes part in during one step, each purpose, kind and group once, in the order
// of the layers that need it first; messages to and from a stage are behind what its layers need,
// and the loss is last. It is what the times of `PredictPlan` consist of, hidden parts included:
// times and this list come from the same functions (`LayerTraffic`, `GroupCosts`).
//
// REQUIRES: `plan` satisfies `CheckPlanStructure` for `problem`, of which `costs` are the costs;
// 0 <= rank < plan.device_count. Nothing checks it.
std::vector<StepCollective> CollectivesOfStep(const PlanningProblem& problem,
                                              const CostModel& costs, const Plan& plan, int rank);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_STEP_COLLECTIVES_H_
