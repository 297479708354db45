// The times of operators and collectives on a mesh. `MeshSearch` and `DrawGraph` make them,
// `GraphOfModel` and `OptionsOf` read them.

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

// Computes times of an `Operator` (operator_graph.h). Immutable; any thread may read it. Device
// times are shares: callers scale those of a layer to the cost model's time of the whole layer,
// measured or estimated.
class OperatorTimes {
 public:
  // Uses `MatrixTime` and the calibration's coefficients if there are data sheets, otherwise a
  // nominal device. Collectives are the cost model's, on every axis of `meshes`.
  OperatorTimes(const PlanningProblem& problem, const std::vector<DeviceMesh>& meshes);

  // Returns the time of forward and backward of `shape`, an operator reduced to one device's part:
  // rows, columns, inner, flops and moved bytes are those of the part.
  double DeviceSeconds(const Operator& shape) const;

  // Returns the time of one collective on every group of an axis at once; `bytes` counts the
  // message as nccl-tests does. Without data sheets an all-to-all that was not measured takes as
  // long as an all-gather, an all-gather or a reduce-scatter half as long as an all-reduce, and an
  // all-reduce no time, and so do other collectives. 0 on an axis of size 1, and for no bytes.
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
