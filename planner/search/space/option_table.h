// The costs of every strategy of every layer definition, for one pipeline degree and one
// micro-batch size. Used by the searches of planner/planners/exact and by the solvers of stages
// that they share (planner/search/stage).
//
// Words (docs/glossary.md): micro-batches in flight have done their forward pass and not yet their
// backward pass; a definition is the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_OPTION_TABLE_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_OPTION_TABLE_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/layer_pricing.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// One strategy of one definition, with its costs (an "option", docs/glossary.md).
struct StageOption {
  Strategy strategy;
  // Index of the layout, below `OptionTable::layout_count`. Activations move at no cost between
  // strategies of one layout, and their messages to other stages cost the same.
  int layout = 0;
  // Time of the forward pass of one micro-batch, with the collectives that it waits for.
  Seconds forward;
  // The same of the backward pass, with what it recomputes.
  Seconds backward;
  // Exposed gradient synchronisation plus the optimizer's step; once per training step.
  Seconds sync;
  // Bytes held throughout the step, including the gathered parameters of sharded tables.
  Bytes states;
  // Bytes held from the forward to the backward pass of each micro-batch in flight.
  Bytes kept;
  // Bytes held only while the layer runs; a stage reserves the largest of its layers.
  Bytes transient;
  // Bytes held only in the optimizer's step, when activations are gone.
  Bytes step;
  // Bytes of flat gradient copies, bounded by the runtime's bucket.
  Bytes bucket;
  // Communicators that a rank needs for this option, without that of a tied table on another stage.
  // A device has as many as that layer of it that needs the most.
  int communicator_count = 0;
  // The part of `states` that is also held in the optimizer's step.
  Bytes states_in_step;

  // Returns whether no number of bytes or communicators is larger than that of `other`.
  bool NeedsNoMoreMemory(const StageOption& other) const;
  // Returns whether no cost at all of this option is larger than that of `other`.
  bool NowhereWorse(const StageOption& other) const;
};

// The options of all definitions. Immutable, so safe to use from any thread.
class OptionTable {
 public:
  // The options a table has.
  enum class Keeps {
    // Those that no other dominates (`options`).
    kUndominated,
    // All: for plans in which the layers of a definition have several options that belong together,
    // so that one alone must not be replaced. Options by modules are left out, because no search
    // looks for them in such plans.
    kAll,
  };

  // Prices all strategies for micro-batches of `micro_batch_size` samples, which all replicas of a
  // stage share. About 0.2 us per strategy. The table does not refer to its arguments afterwards.
  // If `should_stop` is set, it is asked a few times for each definition; once it returns true, the
  // table is not complete. REQUIRES, unchecked: the degree divides the number of devices.
  OptionTable(const PlanningProblem& problem, const CostModel& costs, const StrategySpace& space,
              int pipeline_parallel_degree, int64_t micro_batch_size,
              Keeps keeps = Keeps::kUndominated,
              const std::function<bool()>& should_stop = nullptr);

  // Return the arguments of the constructor with these names, and the number of ranks of a stage.
  int pipeline_parallel_degree() const { return pipeline_parallel_degree_; }
  int rank_count() const { return rank_count_; }
  int64_t micro_batch_size() const { return micro_batch_size_; }
  // Returns whether the table was made to its end. If not, `usable` is false and does not say
  // whether every definition has an option.
  bool is_complete() const { return is_complete_; }
  // Returns whether every definition that a layer of the model has, has an option. If not, no other
  // method than those above may be called.
  bool usable() const { return usable_; }
  // Returns the number of layouts; indices of layouts are below it.
  int layout_count() const { return static_cast<int>(layouts_.size()); }
  // Returns the number of options of all definitions together.
  int64_t option_count() const {
    int64_t count = 0;
    for (const auto& options : options_) count += static_cast<int64_t>(options.size());
    return count;
  }

  // Returns [option] the options of a definition, ascending by strategy; empty for a definition no
  // layer uses. Valid as long as the table.
  //
  // Unless the table keeps all, no option is dominated: no other of the same layout is at least as
  // good in every cost and, if the space constrains pairs of layers (`PlanWideMasks`), constrained
  // alike. Dominated layouts are dropped too: those for which another layout of the same
  // tensor-parallel degree has, for each option of each definition, one at least as good, and whose
  // moves and messages take no longer. They stay if the runtime exchanges layouts at once, or if
  // the space has `per-layer` without `end-strategies`. Costs are those of
  // `GroupCosts::CostOfLayer`, so their sums are what `PlanEvaluator` computes.
  const std::vector<StageOption>& options(int definition_index) const {
    return options_[definition_index];
  }

  // Returns the resharding time, forward and backward together (half each), per micro-batch,
  // between two neighbouring layers of a stage, the second of which is of `definition_index`.
  // `Seconds::Infinite()` if the space has no such neighbours: with `per-layer` and without
  // `end-strategies`, an embedding or head must have the degrees, rank order, kind of context
  // parallelism and sharding of its neighbours. (With neither option, `PlanWideMasks` sees to
  // that.) REQUIRES, here and below, unchecked: a layer has the definition.
  Seconds Transition(int definition_index, int from_layout, int to_layout) const {
    const Layout& from = layouts_[from_layout];
    const Layout& to = layouts_[to_layout];
    if (binds_neighbours_ && (from.of_end || to.of_end) &&
        (from.place != to.place || from.strategy.sharding() != to.strategy.sharding())) {
      return Seconds::Infinite();
    }
    const std::vector<GroupCosts::ReshardingTimes>& moves = resharding_[definition_index];
    // Runtimes that exchange layouts also do it where sequence parallelism begins or ends.
    if (from.place == to.place && moves[to_layout].exchange == Seconds()) return Seconds();
    return GroupCosts::TransitionTime(from.strategy, to.strategy, moves[from_layout],
                                      moves[to_layout]);
  }
  // Returns the time of one message, one direction, from a stage whose last layer is of
  // `definition_index` under `from_layout` to one that begins under `to_layout`. 0 with one stage;
  // otherwise infinite when `Transition` is. For `leaves_node` see `CostModel::SendTime`.
  Seconds Send(int definition_index, int from_layout, int to_layout, bool leaves_node) const {
    if (pipeline_parallel_degree_ == 1) return Seconds();
    return messages_[definition_index][from_layout].time(leaves_node) +
           Transition(definition_index, from_layout, to_layout) * 0.5;
  }
  // Returns the bytes of the message that a rank sends to the next stage for one micro-batch, if
  // the last layer is of this definition and layout; some runtimes keep them. 0 with one stage.
  Bytes Message(int definition_index, int layout) const {
    return messages_[definition_index][layout].size;
  }

 private:
  using OptionsByLayout = std::vector<std::vector<StageOption>>;
  struct Layout {
    // One of the strategies that share the layout.
    Strategy strategy;
    // Index of the activations' placement: layouts of one place hold the same part of the
    // activations on each rank.
    int place = 0;
    // True for layouts of end layers if these must follow their neighbours. Such spaces give end
    // layers layouts of their own, and each layout has one sharding.
    bool of_end = false;
  };
  struct Sent {
    Seconds time_within_node;
    Seconds time_between_nodes;
    Bytes size;
    Seconds time(bool leaves_node) const {
      return leaves_node ? time_between_nodes : time_within_node;
    }
  };

  int LayoutOf(const Strategy& strategy, bool of_end);
  // Returns [layout] the options of a definition, without those another option of the layout
  // dominates if these are not kept.
  OptionsByLayout PriceOptions(const GroupCosts& group, const StrategySpace& space,
                               int definition_index, Keeps keeps);
  void PriceResharding(const GroupCosts& group, int definition_index);
  // Returns whether any plan with layers in place `worse` can be changed to place `better` without
  // loss.
  bool PlaceDominates(const StrategySpace& space, const std::vector<OptionsByLayout>& priced,
                      int better, int worse) const;
  // Returns [layout] whether its place is dominated by one that is kept.
  std::vector<char> DominatedLayouts(const StrategySpace& space,
                                     const std::vector<OptionsByLayout>& priced) const;
  // Fills `options_` with the options of all layouts that are not beaten, and renumbers layouts.
  // Returns early if `must_stop` says so.
  void Keep(const std::vector<OptionsByLayout>& priced, const std::vector<char>& dominated,
            const std::function<bool()>& must_stop);

  int pipeline_parallel_degree_;
  int rank_count_;
  int64_t micro_batch_size_;
  // End layers must follow their neighbours, and these may differ.
  bool binds_neighbours_ = false;
  bool usable_ = true;
  bool is_complete_ = true;
  std::vector<Layout> layouts_;
  // [definition][option]
  std::vector<std::vector<StageOption>> options_;
  // [definition][layout]
  std::vector<std::vector<GroupCosts::ReshardingTimes>> resharding_;
  std::vector<std::vector<Sent>> messages_;
};

// [definition][option] whether a plan under the mask may use the option (other than 0: yes).
// Indices are those of `OptionTable::options` of the table for which the mask was made.
using OptionMask = std::vector<std::vector<char>>;

// Returns whether masks with these options of the transformer layers are wanted, so that those of
// which a bound is known to be too high are not made. What is refused while definitions have not
// decided must be refused whatever they decide.
//   chosen   [definition] index of the option that all its layers have; -1 if not decided, as for
//            embeddings and heads, and for all definitions in spaces with `per-layer`
using MaskFilter = std::function<bool(absl::Span<const int> chosen)>;

// Counts operations and returns whether to go on (`SearchMeter::Work`).
using WorkCounter = std::function<bool(int64_t operations)>;

// Returns masks that together cover the best plans of the space. There is a single mask of all
// options if nothing constrains pairs of layers; otherwise one for each choice that concerns the
// whole plan (`StrategySpace::GoTogether`): the strategy of all transformer layers, the sharding of
// a tied table, and what the target has once for all layers. Masks that leave a definition without
// an option are dropped, and so are choices dominated by another, and those that `keeps`, if set,
// does not keep.
//
// There may be very many where layers of several definitions choose together, so `works` is asked,
// if it is set. Once it has returned false, masks are missing. There is none if `table` is not
// usable.
std::vector<OptionMask> PlanWideMasks(const StrategySpace& space, const OptionTable& table,
                                      const MaskFilter& keeps = nullptr,
                                      const WorkCounter& works = nullptr);

// Returns fewer, wider masks, for lower bounds: as `PlanWideMasks`, but layers that hold a tied
// table may shard it differently, and what a target has once for all layers may differ.
std::vector<OptionMask> RelaxedMasks(const StrategySpace& space, const OptionTable& table,
                                     const MaskFilter& keeps = nullptr,
                                     const WorkCounter& works = nullptr);

// Returns the part of `mask` in which a definition that has options of `layout` in it uses only
// those, and the others use what they have. REQUIRES, unchecked: `mask` was made for `table`, and
// `layout` is below its `layout_count`.
OptionMask InOneLayout(const OptionTable& table, const OptionMask& mask, int layout);

// Least times of each definition over its strategies, regardless of memory. Quick to compute, for
// bounds.
struct LeastTimes {
  // [definition] times of one micro-batch, infinite for definitions without layers. Each of the
  // three is a minimum by itself, so the third may be more than the sum of the first two.
  std::vector<Seconds> forward;
  std::vector<Seconds> backward;
  std::vector<Seconds> forward_and_backward;
  // Whether every definition with layers has a strategy; the times mean nothing if not.
  bool usable = true;
};

// Returns the least times. Only strategies that neither recompute nor shard are looked at, since
// they are never slower than those that do. O(strategies, not counting recomputation and sharding
// levels). For one question only; `exact` uses the class below.
LeastTimes LeastTimesOf(const PlanningProblem& problem, const CostModel& costs,
                        const StrategySpace& space, int pipeline_parallel_degree,
                        int64_t micro_batch_size);

// The times of strategies that `LeastTimesFinder`s of one cost model have met. Strategies that give
// a rank the same work share them; most do. They depend neither on the dimensions of a space nor on
// the memory, so searches of the spaces of one question share a memo. Not thread-safe.
class LeastTimesMemo {
 private:
  friend class LeastTimesFinder;
  // Everything the time of a layer under a bare strategy depends on.
  struct Work {
    int64_t samples = 0;
    int tensor_parallel_degree = 1;
    int context_parallel_degree = 1;
    int expert_parallel_degree = 1;
    int expert_tensor_parallel_degree = 0;
    ContextKind context_kind = ContextKind::kRing;
    // Distance between consecutive ranks of a tensor-parallel group; above 1 only if the other axis
    // has neighbouring ranks.
    int tensor_stride = 1;

    template <typename H>
    friend H AbslHashValue(H h, const Work& work) {
      return H::combine(std::move(h), work.samples, work.tensor_parallel_degree,
                        work.context_parallel_degree, work.expert_parallel_degree,
                        work.expert_tensor_parallel_degree, work.context_kind, work.tensor_stride);
    }
    friend bool operator==(const Work&, const Work&) = default;
  };

  // Number of each work, in the order in which works were met.
  absl::flat_hash_map<Work, int> works_;
  // [definition][work] pass times, negative until computed; rows may be shorter than the number of
  // works.
  std::vector<std::vector<LayerPricing::Passes>> passes_;
};

// Answers `LeastTimesOf` for many pipeline degrees and micro-batch sizes. The arguments must
// outlive it. Not thread-safe.
class LeastTimesFinder {
 public:
  // All problems with which `memo` is used must differ in dimensions and memory only.
  LeastTimesFinder(const PlanningProblem& problem, const CostModel& costs,
                   const StrategySpace& space, LeastTimesMemo& memo)
      : problem_(problem), costs_(costs), space_(space), memo_(memo) {}

  // Returns what `LeastTimesOf` returns for these numbers.
  LeastTimes Find(int pipeline_parallel_degree, int64_t micro_batch_size);

 private:
  // A strategy that several definitions have, with the number of its work.
  struct NumberedStrategy {
    Strategy strategy;
    int work = 0;
  };

  std::vector<NumberedStrategy> StrategiesOf(int definition, int pipeline_parallel_degree,
                                             int64_t micro_batch_size);

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const StrategySpace& space_;
  LeastTimesMemo& memo_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_OPTION_TABLE_H_
