// What the layers of a model cost under every strategy worth considering, for one
// number of ranks a stage and one micro-batch.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_OPTION_TABLE_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_OPTION_TABLE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/layer_pricing.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"
#include "planner/search/space/strategy_space.h"

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
  // Held all the time, whole parameters of sharded tables included.
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
  // Of `states`, what is there in the optimizer's step as well.
  Bytes states_in_step;

  // Whether nothing of it is larger than of `other`.
  bool NowhereWorse(const StageOption& other) const;
};

// Options of all definitions. Immutable.
class OptionTable {
 public:
  // `micro_batch_size` samples of a micro-batch over a whole stage. About 0.2 us a
  // strategy; the table does not refer to its arguments.
  OptionTable(const PlanningProblem& problem, const CostModel& costs, const StrategySpace& space,
              int pipeline_parallel_degree, int64_t micro_batch_size);

  int pipeline_parallel_degree() const { return pipeline_parallel_degree_; }
  int rank_count() const { return rank_count_; }
  int64_t micro_batch_size() const { return micro_batch_size_; }
  // Whether every definition of the model has an option. Nothing else may be asked where
  // not.
  bool usable() const { return usable_; }
  int layout_count() const { return static_cast<int>(layouts_.size()); }
  // Of all definitions together.
  int64_t option_count() const {
    int64_t count = 0;
    for (const auto& options : options_) count += static_cast<int64_t>(options.size());
    return count;
  }

  // [option] of a definition, ascending by strategy; empty for a definition no layer has.
  // None is dominated: no other of the same layout is nowhere worse and, where the space
  // binds layers to each other (`PlanWideMasks`), bound in the same way. Nor is a layout:
  // where another one of the same tensor-parallel degree has for each of its options, of
  // all definitions, one that is nowhere worse, and moves take no longer, plans lose nothing
  // by it. Each strategy's costs are as `CostModel::CostOfLayer` says, so sums of them are
  // what `PlanEvaluator` computes.
  const std::vector<StageOption>& options(int definition_index) const {
    return options_[definition_index];
  }

  // Forward and backward together, half each, between neighbouring layers of a stage,
  // the second of `definition_index`; per micro-batch. `Seconds::Infinite()` where the
  // space has no such neighbours (`StrategySpace::MayBeNeighbours`).
  Seconds Transition(int definition_index, int from_layout, int to_layout) const {
    const Layout& from = layouts_[from_layout];
    const Layout& to = layouts_[to_layout];
    if (binds_neighbours_ && (from.of_end || to.of_end) &&
        (from.place != to.place || from.strategy.sharding_level != to.strategy.sharding_level)) {
      return Seconds::Infinite();
    }
    if (from.place == to.place) return Seconds();
    const std::vector<CostModel::MoveTimes>& moves = moves_[definition_index];
    return CostModel::TransitionTime(from.strategy, to.strategy, moves[from_layout],
                                     moves[to_layout]);
  }
  // One way, from a stage that ends in a layer of `definition_index` under `from_layout`
  // to one that begins under `to_layout`. 0 with one stage. `leaves_node`: see
  // `CostModel::SendTime`. Infinite as `Transition`.
  Seconds Send(int definition_index, int from_layout, int to_layout, bool leaves_node) const {
    if (pipeline_parallel_degree_ == 1) return Seconds();
    return messages_[definition_index][from_layout].time[leaves_node ? 1 : 0] +
           Transition(definition_index, from_layout, to_layout) * 0.5;
  }
  // What the last layer of a stage sends, for runtimes that keep it. 0 with one stage.
  Bytes Message(int definition_index, int layout) const {
    return messages_[definition_index][layout].size;
  }

 private:
  using OptionsByLayout = std::vector<std::vector<StageOption>>;
  struct Layout {
    // One of those that share it.
    Strategy strategy;
    // Layouts of one place hold the same part of the activations on each rank.
    int place = 0;
    // Where ends follow their neighbours, they have layouts of their own, and layouts have
    // one sharding level.
    bool of_end = false;
  };
  struct Sent {
    // [leaves_node]
    Seconds time[2];
    Bytes size;
  };

  int LayoutOf(const Strategy& strategy, bool of_end);
  // [layout] options of a definition, none of which another of the layout beats.
  OptionsByLayout PriceOptions(const CostModel& costs, const StrategySpace& space,
                               int definition_index);
  void PriceMoves(const CostModel& costs, int definition_index);
  // Whether a plan with layers in place `worse` is nowhere better than with all of them in
  // place `better`.
  bool PlaceBeats(const StrategySpace& space, const std::vector<OptionsByLayout>& priced,
                  int better, int worse) const;
  // [layout] whether its place is beaten by one that stays.
  std::vector<char> BeatenLayouts(const StrategySpace& space,
                                  const std::vector<OptionsByLayout>& priced) const;
  // Fills `options_` with those of the other layouts, which it numbers anew.
  void Keep(const std::vector<OptionsByLayout>& priced, const std::vector<char>& beaten);

  int pipeline_parallel_degree_;
  int rank_count_;
  int64_t micro_batch_size_;
  // Ends follow their neighbours, which differ.
  bool binds_neighbours_ = false;
  bool usable_ = true;
  std::vector<Layout> layouts_;
  // [definition][option]
  std::vector<std::vector<StageOption>> options_;
  // [definition][layout]
  std::vector<std::vector<CostModel::MoveTimes>> moves_;
  std::vector<std::vector<Sent>> messages_;
};

// [definition][option] whether it may be used.
using OptionMask = std::vector<std::vector<char>>;

// Masks such that the best plans of the space are those within one of them: one mask of
// everything where nothing binds layers to each other, else one for each choice that
// concerns the whole plan (`StrategySpace::GoTogether`): the strategy of all transformer
// layers, and how a tied table is spread. Left out are masks that leave a definition without
// option, and those of choices that are nowhere better than another.
std::vector<OptionMask> PlanWideMasks(const StrategySpace& space, const OptionTable& table);

// The same but for the tied table, which in plans of these may be spread in several ways: fewer
// masks, for lower bounds.
std::vector<OptionMask> RelaxedMasks(const StrategySpace& space, const OptionTable& table);

// The part of a mask in which every definition that has options of `layout` has no others.
OptionMask InOneLayout(const OptionTable& table, const OptionMask& mask, int layout);

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

// The same for one question after the other: remembers what strategies take that mean the
// same work for a rank at other pipeline degrees and micro-batches, which most do. Keeps
// references to its arguments. Not to be used by two threads at once.
class LeastTimesFinder {
 public:
  LeastTimesFinder(const PlanningProblem& problem, const CostModel& costs,
                   const StrategySpace& space)
      : problem_(problem), costs_(costs), space_(space) {}

  LeastTimes Find(int pipeline_parallel_degree, int64_t micro_batch_size);

 private:
  // What the time of a bare strategy of a layer depends on.
  struct Work {
    int64_t samples = 0;
    int tensor_parallel_degree = 1;
    int context_parallel_degree = 1;
    int expert_parallel_degree = 1;
    ContextKind context_kind = ContextKind::kRing;
    // Distance of a tensor-parallel group's ranks; 1 but for the other order.
    int tensor_stride = 1;

    template <typename H>
    friend H AbslHashValue(H h, const Work& work) {
      return H::combine(std::move(h), work.samples, work.tensor_parallel_degree,
                        work.context_parallel_degree, work.expert_parallel_degree,
                        work.context_kind, work.tensor_stride);
    }
    friend bool operator==(const Work&, const Work&) = default;
  };
  // One of the strategies of several definitions, and which work it is.
  struct NumberedStrategy {
    Strategy strategy;
    int work = 0;
  };

  std::vector<NumberedStrategy> StrategiesOf(int definition, int pipeline_parallel_degree,
                                             int64_t micro_batch_size);

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const StrategySpace& space_;
  // Works in the order in which they were met.
  absl::flat_hash_map<Work, int> works_;
  // [definition][work] negative before it is asked for; those met last may be missing.
  std::vector<std::vector<LayerPricing::Passes>> passes_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_OPTION_TABLE_H_
