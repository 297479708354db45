// The planners by name: which part of the space each searches.

#ifndef PARPLAN_PLANNER_SEARCH_BASELINES_H_
#define PARPLAN_PLANNER_SEARCH_BASELINES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/planning_problem.h"
#include "planner/search/strategy_tree.h"

namespace parplan {

// The space of a planner (papers.md 1.1):
//
//   galvatron-base   everything, with recomputation
//   galvatron        everything, without
//   dp, sdp, tp      no pipeline; every layer data-parallel, sharded
//                    data-parallel, tensor-parallel over all devices
//   pp               one device a stage
//   dp+tp            no pipeline, no sharding
//   dp+pp            no tensor parallelism, no sharding
//   deepspeed-3d     one strategy for all layers, degrees as equal as can be
//                    (`EqualDegrees`), tensor parallelism on consecutive ranks
//
// The baselines search the number of micro-batches and the partition like the
// others, and do not recompute. INVALID_ARGUMENT (SPEC_INVALID) for an unknown
// name.
absl::StatusOr<SearchSpace> SpaceOfPlanner(absl::string_view planner,
                                           const PlanningProblem& problem);

// Degrees of the fixed three-dimensional baseline.
struct ThreeDegrees {
  int tensor_parallel_degree = 1;
  int pipeline_parallel_degree = 1;
  int data_parallel_degree = 1;
  friend bool operator==(const ThreeDegrees&, const ThreeDegrees&) = default;
};

// The factors of two of the device count are dealt to tensor, pipeline and data
// parallelism in turn, so that 8 devices give 2, 2, 2 and 16 give 4, 2, 2. A
// degree that has reached what heads, nodes, layers or rules allow is passed
// over; an odd factor goes to data parallelism.
ThreeDegrees EqualDegrees(const PlanningProblem& problem);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_BASELINES_H_
