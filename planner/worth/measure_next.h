// The numbers of a prediction that were not measured, by how much they move it: what to measure
// next, and whether that could decide between two plans. `planctl explain --measure-next` prints
// it. Pure.

#ifndef PARPLAN_PLANNER_WORTH_MEASURE_NEXT_H_
#define PARPLAN_PLANNER_WORTH_MEASURE_NEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/coefficients.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// The part of a prediction that one measurement replaces.
enum class MeasureTarget {
  kLayers,                // forward and backward times of layers, and the optimizer's step
  kIntraNodeCollectives,  // collectives of ranks of one node
  kInterNodeCollectives,  // collectives of ranks of several nodes
  kOverlap,               // how much computation and communication slow each other down
  kExecutions,            // host time of a step outside the layers: whole steps show it
};
inline constexpr int kMeasureTargetCount = 5;

// Returns the name for people and JSON, for example `layers`; it lives as long as the program.
absl::string_view MeasureTargetName(MeasureTarget target);

// A coefficient of the cost model on which a plan depends.
struct UncertainCoefficient {
  Coefficient coefficient = Coefficient::kMatrixEfficiency;
  double value = 0.0;
  // Standard deviation of its logarithm on a cluster where nothing was fitted
  // (docs/calibration.md).
  double width = 0.0;
  // Change of ln(time per sample) of the plan and of its rival when the coefficient grows by its
  // width, from a difference both ways. The second is 0 without a rival.
  double plan_change = 0.0;
  double rival_change = 0.0;
};

// A measurement to make.
struct MeasureStep {
  MeasureTarget target = MeasureTarget::kLayers;
  // Standard deviations, of ln(time per sample) of the plan and of the difference between it and
  // the rival, that come from what the measurement replaces. The second is 0 without a rival.
  double plan_deviation = 0.0;
  double difference_deviation = 0.0;
  // Share of the variance of the difference, or without a rival of that of the plan.
  double share = 0.0;
  // The coefficients, those that matter most first.
  std::vector<UncertainCoefficient> coefficients;
  // Entries of a profile that the plans need and none has, one line each, for example
  // `layer_timings: attention at tensor parallel 4` or `collective_timings: all_reduce of 8 ranks,
  // stride 1`. Empty for `kOverlap` and `kExecutions`.
  std::vector<std::string> entries;
};

// The measurements to make, the most useful first.
struct MeasureNext {
  Prediction plan;
  // ln of the rival's time per sample over the plan's: above 0 if the plan is faster. 0 without.
  double log_time_ratio = 0.0;
  // Square roots of the sums of the variances of all steps.
  double plan_deviation = 0.0;
  double difference_deviation = 0.0;
  std::vector<MeasureStep> steps;

  // Returns whether the plans already differ by more than twice the deviation of their difference.
  bool is_decided() const {
    return log_time_ratio > 2.0 * difference_deviation ||
           log_time_ratio < -2.0 * difference_deviation;
  }
};

// A plan and the problem it answers.
struct PlanOfProblem {
  const PlanningProblem& problem;
  const Plan& plan;
};

// Predicts the plan, and the rival if it is not null, with every coefficient of time at its value
// times e^(+width) and e^(-width), one at a time, kept within its bounds. A coefficient that only
// enters what was measured changes nothing, and is left out; so is a target without coefficients.
// Measured entries that were interpolated between sizes, and the spread of repeated runs, are not
// in it. The coefficients are taken as independent. Sorted by share, then by target.
//
// Returns the errors of `CostModel::Create`. REQUIRES, unchecked: `CheckPlanStructure` returns OK
// for both; both problems have one node group and the same model, topology and knowledge.
// O(coefficients) predictions and cost models.
absl::StatusOr<MeasureNext> FindMeasureNext(const PlanOfProblem& plan, const PlanOfProblem* rival);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_WORTH_MEASURE_NEXT_H_
