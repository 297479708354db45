// What the layers of a model can do in Galvatron's decision tree, and what it costs.

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_TABLES_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_TABLES_H_

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/strategy.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// One strategy of a unit.
struct GalvatronOption {
  // [layer of the unit]
  std::vector<Strategy> strategies;
  std::vector<LayerCost> costs;
  int layout = 0;
  // Sums over the layers: a micro-batch forward and backward, and once a step.
  Seconds micro_batch;
  Seconds once;
  Bytes states;
  Bytes kept;
  // The largest of any layer.
  Bytes transient;
};

// Layers that are solved as one: each by itself, or, where embedding and head have no
// strategies of their own, they with the transformer layer beside them.
struct GalvatronKind {
  // [layer of the unit]
  std::vector<int> definitions;
  bool has_transformer = false;
  // Ascending by strategy.
  std::vector<GalvatronOption> options;
  // [from * layout_count + to] into a unit of this kind, per micro-batch.
  std::vector<Seconds> transitions;
};

// Of one pipeline degree and micro-batch size.
class GalvatronTables {
 public:
  // Strategies of `space` that the tree has: tensor and data parallelism in either order,
  // all parameters sharded or nothing, and, with `with_recompute`, whole layers
  // recomputed or nothing (papers.md 1.1, 2.1).
  GalvatronTables(const StrategySpace& space, const CostModel& costs, int pipeline_parallel_degree,
                  int64_t micro_batch_size, bool with_recompute);

  // Whether every unit has an option, and there are as many units as stages.
  bool usable() const { return usable_; }
  int pipeline_parallel_degree() const { return pipeline_parallel_degree_; }
  int64_t micro_batch_size() const { return micro_batch_size_; }
  int layout_count() const { return static_cast<int>(layouts_.size()); }
  const std::vector<GalvatronKind>& kinds() const { return kinds_; }
  // [unit]
  const std::vector<int>& kind_of_unit() const { return kind_of_unit_; }

  // Tables such that plans of the space are those of one of them: this one, or, where all
  // transformer layers are alike, one for each strategy of theirs, and one for each way to
  // spread a tied table.
  std::vector<GalvatronTables> Choices(const StrategySpace& space) const;

  // No plan of so many micro-batches takes less: a stage of y seconds a micro-batch works
  // for all of them while those before it wait for its first and last one, so that
  // step >= X / (1 - (1 - 1/m)^P), X the least y of all units together; and all the work
  // of the step is shared by P stages.
  Seconds LowerBound(int64_t micro_batch_count) const;

 private:
  std::vector<GalvatronTables> TransformerChoices(const StrategySpace& space) const;
  // Adds a choice for each way to spread the table; this one without a tied table.
  void AddTableChoices(const StrategySpace& space, std::vector<GalvatronTables>& choices) const;
  void AddUnits(const StrategySpace& space);
  void AddOptions(const StrategySpace& space, const CostModel& costs, bool with_recompute,
                  GalvatronKind& kind);
  void AddTransitions(const CostModel& costs, GalvatronKind& kind) const;
  int LayoutOf(const Strategy& strategy);

  int pipeline_parallel_degree_;
  int64_t micro_batch_size_;
  bool usable_ = true;
  // [layout] a strategy of it.
  std::vector<Strategy> layouts_;
  std::vector<GalvatronKind> kinds_;
  std::vector<int> kind_of_unit_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_TABLES_H_
