#include "exports/refusal.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan {

absl::Status RefusePlan(absl::string_view program, absl::string_view field,
                        absl::string_view reason) {
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat(reason, "; ", program, " can't run that"));
}

absl::Status RefuseModel(absl::string_view program, absl::string_view field,
                         absl::string_view reason) {
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat(reason, "; ", program,
                                 " can't run that, whatever the plan: change the model, or plan "
                                 "for another target"));
}

absl::Status RefuseFirstStrategy(absl::string_view program, absl::string_view member,
                                 absl::string_view reason) {
  return RefusePlan(program, absl::StrCat("stages[0].layer_runs[0].strategy.", member), reason);
}

absl::Status CheckRecomputesAllOrNone(const UniformPlan& plan, absl::string_view program) {
  if (plan.strategy.recompute_level == RecomputeLevel::kSelective) {
    return RefuseFirstStrategy(program, "recompute_level", "is selective in layer 1");
  }
  if (plan.strategy.recompute_level == RecomputeLevel::kModules) {
    return RefuseFirstStrategy(program, "recompute_modules", "names modules in layer 1");
  }
  if (plan.recomputed_layer_count == 0) return absl::OkStatus();
  return RefuseFirstStrategy(
      program, "recompute_level",
      absl::StrCat("recomputes the first ", plan.recomputed_layer_count, " decoder layers",
                   plan.pipeline_parallel_degree() > 1 ? " of each stage" : "",
                   ", layer 1 first, and it is all of them or none"));
}

}  // namespace parplan
