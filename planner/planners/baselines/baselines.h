// The planners that are pure or fixed combinations of paradigms.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINES_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/baselines/uniform_search.h"
#include "planner/search/space/strategy_tree.h"

namespace parplan {

// The space of a baseline that chooses layer by layer (papers.md 1.1), or nothing for
// another name:
//
//   dp, sdp, tp      no pipeline; every layer data-parallel, sharded data-parallel,
//                    tensor-parallel over all devices
//   pp               one device a stage
//   dp+tp            no pipeline, no sharding
//   dp+pp            no tensor parallelism, no sharding
//   deepspeed-3d     one strategy for all layers, degrees as equal as can be
//                    (`EqualDegrees`), tensor parallelism on consecutive ranks
//
// They search the number of micro-batches and the partition, and do not recompute.
std::optional<SearchSpace> SpaceOfBaseline(absl::string_view name, const PlanningProblem& problem);

// `megatron`: the best uniform tensor, pipeline, data and context degrees, micro-batch,
// recomputation and interleaving, as people tune Megatron-LM by hand (Narayanan et al.,
// SC'21, section 5.4); the distributed optimizer or none.
UniformGrid MegatronGrid();

// `fsdp-best`: no pipeline, parameters or gradients of all layers sharded over all
// devices; the best number of micro-batches and recomputation.
UniformGrid FsdpGrid();

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

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINES_H_
