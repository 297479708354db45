// The check that the executor can run a plan exactly. `RankProgram::Create` calls it first.

#ifndef PARPLAN_PLANNER_PROGRAM_RUNNABLE_PLAN_H_
#define PARPLAN_PLANNER_PROGRAM_RUNNABLE_PLAN_H_

#include <string>

#include "absl/status/status.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Returns OK if the executor runs `plan` for `model`, else the first reason against it, by
// `RefuseRun`: layers that it does not train; stages that leave a layer out, are unequal in ranks
// or have none of the order of devices; degrees that do not divide a layer or a micro-batch;
// interleaving of micro-batches that the pipeline does not divide; passes, recomputation or sharing
// of tokens of other kinds than its own; and a shared table that is spread in two ways. Memory is
// not looked at. O(layers).
absl::Status CheckRunnablePlan(const Plan& plan, const ModelSpec& model);

// Returns INVALID_ARGUMENT (SPEC_INVALID): the executor cannot run the plan, for the reason `why`
// at `where`, which is also `field` in the metadata: a field of the plan (`micro_batch_count`), a
// stage
// (`stages[2]`), a layer of the model, from 0 (`layer 7`), or `rank`. Never OK.
absl::Status RefuseRun(const std::string& where, const std::string& why);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PROGRAM_RUNNABLE_PLAN_H_
