// The costs of one problem: those of each node group (group_costs.h), and those of messages between
// groups. Planners, `PredictPlan` and `planner/check` price plans by it.
//
//   PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
//   const GroupCosts& group = costs.group(problem.topology().GroupOfRank(stage.first_rank));
//   total += group.CostOfLayer(definition_index, strategy, micro_batch_size,
//                              plan.pipeline_parallel_degree()).forward;

#ifndef PARPLAN_PLANNER_COST_COST_MODEL_H_
#define PARPLAN_PLANNER_COST_COST_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "planner/cost/group_costs.h"
#include "planner/model/calibration.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// The entry of `Prediction::estimated_items` of plans whose schedule splits backward passes, which
// are therefore `kMixed` at best: profiles measure whole backward passes.
inline constexpr char kSplitBackwardItem[] =
    "split backward passes: the part for gradients of weights from the share of its matrix "
    "products";

// The entry of plans with groups of hybrid sharding whose collectives were not measured, where
// others were. They are `kMixed` at best.
inline constexpr char kHybridGroupsItem[] =
    "hybrid sharding: collectives of groups that were not measured, from similar groups or the "
    "data sheet of the links";

// The costs of one problem. Every stage lies in one node group, and its layers are priced by that
// group's devices, links and measurements. Immutable after `Create`; any thread may read it.
class CostModel {
 public:
  // Looks up, for every node group, every number that some strategy of the problem's space needs.
  // Numbers that were not measured are estimated if `rules().allow_estimates` is set. Returns
  // FAILED_PRECONDITION (PROFILE_MISSING) if numbers are missing nevertheless; the message lists
  // each with layer, degree and shape, and the metadata has their `count` and the first hundred,
  // from `missing0` on. Returns INVALID_ARGUMENT (SPEC_INVALID) naming `global_batch_size` if the
  // memory of all layers and samples adds up to more than 2^61 bytes. The model keeps no reference
  // to `problem`.
  static absl::StatusOr<CostModel> Create(const PlanningProblem& problem);

  // The costs on the devices of one node group. REQUIRES, unchecked: a group of the problem.
  const GroupCosts& group(GroupIndex group) const { return groups_[group.value()]; }
  // The costs by which searches price every layer.
  const GroupCosts& searched_group() const { return group(kSearchedGroup); }

  // Returns the time, one way, to hand the output of a layer of `definition_index` under `from` to
  // the next stage, whose first layer is under `to`: each rank sends its part, then the receivers
  // gather what `to` needs. Between groups a message takes as long as the slower end needs, and
  // each strategy reshards on its own group. `rank_count` is that of either stage. `leaves_node`
  // means that some rank's counterpart is on another node, which can happen even if stages are
  // smaller than a node. `micro_batch_size` counts samples over the whole stage.
  Seconds SendTime(GroupIndex from_group, GroupIndex to_group, int definition_index,
                   const Strategy& from, const Strategy& to, int rank_count, bool leaves_node,
                   int64_t micro_batch_size) const;

  // Host time of a step outside the layers, and the sum of its loss where the runtime makes one; 0
  // if unknown. Every step waits for all groups, so it is the longest time of any group.
  Seconds step_overhead() const { return step_overhead_; }

  // Factors by which a predicted step time is multiplied to get both ends of its range. They depend
  // on whether tensor-parallel groups span nodes. With several node groups, the range contains that
  // of each group, the median is the largest of theirs, and `residual_count` the smallest.
  const RangeFactors& step_range(TensorParallelReach reach) const {
    return reach == TensorParallelReach::kWithinNode ? step_within_node_ : step_across_nodes_;
  }

  // The runtime of the problem's rules, with those traits that depend on the devices.
  const RuntimeTraits& runtime() const { return runtime_; }

  // Every number that rests on no measurement: one sentence per entry, sorted. With several groups
  // each sentence begins with the group's id.
  const std::vector<std::string>& estimated_items() const { return estimated_items_; }
  // Whether plans with groups of hybrid sharding use collectives that were not measured, although
  // others were (`kHybridGroupsItem`).
  bool estimates_hybrid_groups() const { return estimates_hybrid_groups_; }

  // `kMeasured` if every number was measured, `kEstimated` if no layer time was, else `kMixed`.
  Confidence confidence() const { return confidence_; }

 private:
  CostModel() = default;

  RuntimeTraits runtime_;
  // [node group]
  std::vector<GroupCosts> groups_;
  Seconds step_overhead_;
  RangeFactors step_within_node_;
  RangeFactors step_across_nodes_;
  std::vector<std::string> estimated_items_;
  bool estimates_hybrid_groups_ = false;
  Confidence confidence_ = Confidence::kMeasured;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_COST_MODEL_H_
