// The planners that are pure or fixed combinations of paradigms. `FindPlan` lists them as planners;
// `exact`, the Galvatron planners and the ILP planners start from some of their plans.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINES_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/baselines/uniform_search.h"
#include "planner/search/space/strategy_tree.h"

namespace parplan {

// Returns the names of the seven baselines of the Galvatron papers, those that `SpaceOfBaseline`
// knows. `megatron` and `fsdp-best` are not among them.
absl::Span<const absl::string_view> PaperBaselineNames();

// Returns the space of a baseline that chooses layer by layer (docs/papers.md 1.1), or nothing for
// another name:
//
//  dp, sdp, tp      no pipeline; every layer data-parallel, sharded data-parallel,
//                   tensor-parallel over all devices
//  pp               one device per stage
//  dp+tp            no pipeline
//  dp+pp            no tensor parallelism
//  deepspeed-3d     one strategy for all layers, degrees as equal as possible
//                   (`EqualDegrees`), tensor parallelism on consecutive ranks
//
// None but `sdp` shards. These search the number of micro-batches, divide layers into stages by the
// partitioner of the rules, and do not recompute. The space may have no plan for the problem, as
// `pp` with more devices than layers: `SearchBaseline` then returns nothing.
std::optional<SearchSpace> SpaceOfBaseline(absl::string_view name, const PlanningProblem& problem);

// Returns the grid of `megatron`: uniform tensor, pipeline, data and context degrees, the degree by
// which experts are spread, micro-batch size, recomputation and interleaving, as people tune
// Megatron-LM by hand (Narayanan et al., SC'21, section 5.4); with or without the distributed
// optimizer.
UniformGrid MegatronGrid();

// Returns the grid of `fsdp-best`: no pipeline, parameters or gradients of all layers sharded over
// all devices (a single device shards nothing); any number of micro-batches, any recomputation, and
// experts spread by any degree.
UniformGrid FsdpGrid();

// Degrees of the fixed three-dimensional baseline.
struct ThreeDegrees {
  int tensor_parallel_degree = 1;
  int pipeline_parallel_degree = 1;
  int data_parallel_degree = 1;
  friend bool operator==(const ThreeDegrees&, const ThreeDegrees&) = default;
};

// Deals the factors of two of the device count to tensor, pipeline and data parallelism in turn, so
// that 8 devices give 2, 2, 2 and 16 give 4, 2, 2. A degree that the space lacks, or that has
// reached the limit of heads, nodes, layers or rules, is skipped from then on; the odd factor that
// remains goes to data parallelism. The product is the device count.
ThreeDegrees EqualDegrees(const PlanningProblem& problem);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINES_H_
