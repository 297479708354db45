// What the layers of a model cost under every strategy worth considering, for one
// number of ranks a stage and one micro-batch.

#ifndef PARPLAN_PLANNER_SEARCH_OPTION_TABLE_H_
#define PARPLAN_PLANNER_SEARCH_OPTION_TABLE_H_

#include <cstdint>
#include <vector>

#include "planner/base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"
#include "planner/search/strategy_space.h"

namespace parplan {

// One strategy of one definition.
struct StageOption {
  Strategy strategy;
  // Strategies between which activations move for nothing, and whose messages to other
  // stages cost the same, share a layout.
  int layout = 0;
  // One micro-batch.
  Seconds forward;
  Seconds backward;
  // Gradient synchronisation that is exposed, and the optimizer's step, once a step.
  Seconds sync;
  // Held all the time.
  Bytes states;
  // Held from forward to backward of each micro-batch in flight.
  Bytes kept;
  // Held only while the layer runs: a stage keeps room for the largest.
  Bytes transient;
  // Only in the optimizer's step, instead of activations.
  Bytes step;
  // Copies in which gradients travel, bounded by the runtime's bucket.
  Bytes bucket;
  // Communicators a rank needs for it; a device has the largest number of its layers.
  int communicator_count = 0;
};

// Options of all definitions. Immutable.
class OptionTable {
 public:
  // `micro_batch_size` samples of a micro-batch over a whole stage.
  OptionTable(const PlanningProblem& problem, const CostModel& costs, const StrategySpace& space,
              int pipeline_parallel_degree, int64_t micro_batch_size);

  int pipeline_parallel_degree() const { return pipeline_parallel_degree_; }
  int rank_count() const { return rank_count_; }
  int64_t micro_batch_size() const { return micro_batch_size_; }
  // Whether every definition of the model has an option.
  bool usable() const { return usable_; }
  int layout_count() const { return static_cast<int>(layouts_.size()); }

  // [option] of a definition, ascending by strategy; none is dominated: no other of the
  // same layout is nowhere worse. Each strategy's costs are as `CostModel::CostOfLayer`
  // says, so sums of them are what `PlanEvaluator` computes.
  const std::vector<StageOption>& options(int definition_index) const {
    return options_[definition_index];
  }

  // Forward and backward together, half each, between neighbouring layers of a stage,
  // the second of `definition_index`; per micro-batch.
  Seconds Transition(int definition_index, int from_layout, int to_layout) const {
    return transitions_[definition_index][from_layout * layout_count() + to_layout];
  }
  // One way, from a stage that ends in a layer of `definition_index` under `from_layout`
  // to one that begins under `to_layout`. 0 with one stage. `leaves_node`: see
  // `CostModel::SendTime`.
  Seconds Send(int definition_index, int from_layout, int to_layout, bool leaves_node) const {
    return sends_[definition_index]
                 [(from_layout * layout_count() + to_layout) * 2 + (leaves_node ? 1 : 0)];
  }
  // What the last layer of a stage sends, for runtimes that keep it.
  Bytes Message(int definition_index, int layout) const {
    return messages_[definition_index][layout];
  }

 private:
  int LayoutOf(const Strategy& strategy);

  int pipeline_parallel_degree_;
  int rank_count_;
  int64_t micro_batch_size_;
  bool usable_ = true;
  // [layout] a strategy of it.
  std::vector<Strategy> layouts_;
  // [definition]
  std::vector<std::vector<StageOption>> options_;
  std::vector<std::vector<Seconds>> transitions_;
  std::vector<std::vector<Seconds>> sends_;
  std::vector<std::vector<Bytes>> messages_;
};

// [definition][option] whether it may be used.
using OptionMask = std::vector<std::vector<char>>;

// Masks such that the plans of the space are those within one of them: one mask of
// everything where nothing binds layers to each other, else one for each choice that
// concerns the whole plan (`StrategySpace::GoTogether`): the strategy of all transformer
// layers, or the inner axis. Masks that leave a definition without option are left out.
std::vector<OptionMask> PlanWideMasks(const StrategySpace& space, const OptionTable& table);

// The least any strategy of a definition takes, whatever the memory; quick to make, for
// bounds.
struct LeastTimes {
  // [definition] one micro-batch; each the least by itself.
  std::vector<Seconds> forward;
  std::vector<Seconds> backward;
  std::vector<Seconds> forward_and_backward;
  bool usable = true;
};

// From strategies that neither recompute nor shard, which are never slower than those
// that do. O(strategies without their levels).
LeastTimes LeastTimesOf(const PlanningProblem& problem, const CostModel& costs,
                        const StrategySpace& space, int pipeline_parallel_degree,
                        int64_t micro_batch_size);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_OPTION_TABLE_H_
