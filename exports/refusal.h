// How exporters refuse a plan that their program cannot run. Importers of the same programs pass
// these errors on, since a plan that they read must be one that the program runs.

#ifndef PARPLAN_EXPORTS_REFUSAL_H_
#define PARPLAN_EXPORTS_REFUSAL_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "exports/uniform_plan.h"

namespace parplan {

// Returns INVALID_ARGUMENT (SPEC_INVALID), `FIELD: REASON; PROGRAM can't run that`. `reason` goes
// on after the name of the field, such as `is 3 with ...`. Never OK.
absl::Status RefusePlan(absl::string_view program, absl::string_view field,
                        absl::string_view reason);

// Returns the same for a model of which the program runs no plan, with what to do: `FIELD: REASON;
// PROGRAM can't run that, whatever the plan: change the model, or plan for another target`. `field`
// begins with `model.`.
absl::Status RefuseModel(absl::string_view program, absl::string_view field,
                         absl::string_view reason);

// Does the same as `RefusePlan` for a member of the strategy of the first layers, which stands for
// those of all layers in a plan with one strategy: `stages[0].layer_runs[0].strategy.MEMBER`.
absl::Status RefuseFirstStrategy(absl::string_view program, absl::string_view member,
                                 absl::string_view reason);

// Returns OK if `plan` recomputes all decoder layers or none, which is all that a call for the
// whole model can say (`gradient_checkpointing_enable`). Otherwise refuses it with
// `RefuseFirstStrategy`: for `recompute_level`, or `recompute_modules` if it names modules.
absl::Status CheckRecomputesAllOrNone(const UniformPlan& plan, absl::string_view program);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_REFUSAL_H_
