// A profile of the ranks of a job, measured by themselves as the agent does it.

#ifndef PARPLAN_TESTS_BENCHMARKS_PREDICTION_MEASURE_PROFILE_H_
#define PARPLAN_TESTS_BENCHMARKS_PREDICTION_MEASURE_PROFILE_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/comm/rank_context.h"
#include "parplan/v1/profile.pb.h"
#include "tests/benchmarks/prediction/plan_sets.h"

namespace parplan {

// Measures everything that plans of the set may need. All ranks of the job must call it, each on
// the processor it is bound to; all get the same profile.
absl::StatusOr<v1::Profile> MeasureProfile(const PlanSet& set, absl::Duration time_budget,
                                           RankContext& job);

}  // namespace parplan

#endif  // PARPLAN_TESTS_BENCHMARKS_PREDICTION_MEASURE_PROFILE_H_
