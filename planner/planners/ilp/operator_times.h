// How long operators and collectives on a mesh take.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_TIMES_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_TIMES_H_

#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/cost/collective_costs.h"
#include "planner/cost/matrix_time.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/ilp/device_mesh.h"
#include "planner/planners/ilp/operator_graph.h"

namespace parplan {

// Immutable. Device times are shares: callers scale those of a layer to what the cost
// model says of the whole layer, measured or not.
class OperatorTimes {
 public:
  // With data sheets from `MatrixTime` and the calibration's coefficients; without, from
  // a nominal device. Collectives as the cost model's, on every axis of `meshes`.
  OperatorTimes(const PlanningProblem& problem, const std::vector<DeviceMesh>& meshes);

  // Forward and backward of `shape` (an operator of which one device has a part: rows,
  // columns, inner, flops and moved bytes are of the part).
  double DeviceSeconds(const Operator& shape) const;

  // One collective on every group of an axis at once, in a message counted as nccl-tests
  // counts it. An all-to-all nobody measured takes what an all-gather does, and that half
  // of an all-reduce. 0 on an axis of size 1.
  double CollectiveSeconds(Collective collective, const MeshAxis& axis, double bytes) const;

 private:
  std::optional<MatrixTime> matrix_time_;
  double attention_flops_per_second_;
  double bytes_per_second_;
  double kernel_overhead_ = 0.0;
  CollectiveCosts collectives_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_TIMES_H_
