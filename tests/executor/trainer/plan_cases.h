// Plans of every kind the executor runs, for small models.

#ifndef PARPLAN_TESTS_EXECUTOR_TRAINER_PLAN_CASES_H_
#define PARPLAN_TESTS_EXECUTOR_TRAINER_PLAN_CASES_H_

#include <ostream>
#include <string>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

struct PlanCase {
  friend void PrintTo(const PlanCase& c, std::ostream* out) { *out << PlanGist(c.plan); }
  std::string name;
  Plan plan;
  bool is_tied = false;
  // Instead of a GPT.
  ModelSpec (*other_model)(int layer_count) = nullptr;
  // For models of 8 layers.
  ModelSpec Model() const;
};

// Samples of a step.
inline constexpr int64_t kCaseBatch = 24;

// At 1 to 8 ranks, each under a name of its own.
std::vector<PlanCase> PlanCases();
// Plans of 2 to 8 ranks in one or two stages, with any strategy that splits the model on each of
// their layers; the same in every run. If `max_rank_count` is 16, also of 12 and 16 ranks, and of 1
// to 4 devices in a pipeline, of which up to a third has two stages on each.
std::vector<PlanCase> RandomPlanCases(int count, int max_rank_count = 8);
// REQUIRES: there is one of this name.
PlanCase PlanCaseNamed(const std::string& name);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_TRAINER_PLAN_CASES_H_
