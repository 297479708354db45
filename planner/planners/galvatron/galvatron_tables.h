// The options of a model's layers in Galvatron's decision tree, with their costs. Used by
// `GalvatronMethodSearch`, `GalvatronStages`, the walks of bmw_walk.h and studies of the papers.
//
// Words (docs/glossary.md): micro-batches in flight have done their forward pass and not yet their
// backward pass; a definition is the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_TABLES_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/strategy.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// One strategy of a unit.
struct GalvatronOption {
  // [layer of the unit]
  std::vector<Strategy> strategies;
  std::vector<LayerCost> costs;
  // Index of the layout (tensor- and data-parallel degree and rank order) of the strategy that
  // leads the unit: that of the last transformer layer, or of the first layer if there is none.
  // Below `GalvatronTables::layout_count()`.
  int layout = 0;
  // Seconds of a micro-batch: both passes of all layers, and the moves between the layers of the
  // unit.
  Seconds micro_batch;
  // Seconds once per step: gradient synchronisation and optimizer step of all layers.
  Seconds once;
  // Sums over the layers: bytes of the states, and bytes kept for each micro-batch in flight.
  Bytes states;
  Bytes kept;
  // Bytes of the largest transient of any layer.
  Bytes transient;
};

// Layers that are solved as one unit: a single layer; up to `PlanningRules::fused_layer_count`
// equal transformer layers in a row, which share a strategy; and embedding and head together with
// the neighbouring transformer layer, if they have no strategies of their own or the target asks
// for a transformer layer in each stage.
struct GalvatronKind {
  // [layer of the unit]
  std::vector<int> definitions;
  bool has_transformer = false;
  // Ascending by the strategy that leads the unit.
  std::vector<GalvatronOption> options;
  // [from * layout_count + to] time to move into a unit of this kind, per micro-batch. Only entries
  // whose `to` is the layout of one of the `options` have a meaning.
  std::vector<Seconds> transitions;
};

// The tables of one pipeline degree and micro-batch size. Immutable; keeps no reference to what it
// was made from.
class GalvatronTables {
 public:
  // Lists the strategies of `space`, which `costs` prices, that the tree has: tensor and data
  // parallelism in either order, all parameters sharded or none, and, if `with_recompute`, whole
  // layers recomputed or none (docs/papers.md 1.1, 2.1). Once `meter`, if it is not null, ends the
  // search the tables are not usable.
  GalvatronTables(const StrategySpace& space, const CostModel& costs, int pipeline_parallel_degree,
                  int64_t micro_batch_size, bool with_recompute, SearchMeter* meter = nullptr);

  // Whether every unit has an option and there are at least as many units as stages. If not, only
  // this and the numbers given to the constructor have a meaning.
  bool usable() const { return usable_; }
  // The numbers given to the constructor.
  int pipeline_parallel_degree() const { return pipeline_parallel_degree_; }
  int64_t micro_batch_size() const { return micro_batch_size_; }
  // Number of layouts of the options, and the kinds of units of the model.
  int layout_count() const { return static_cast<int>(layouts_.size()); }
  const std::vector<GalvatronKind>& kinds() const { return kinds_; }
  // [unit]
  const std::vector<int>& kind_of_unit() const { return kind_of_unit_; }

  // Returns tables that together cover the plans of the space: this one, or, if all transformer
  // layers must be alike, one for each of their strategies, and one for each sharding of a tied
  // table and for each choice that the target has once for a plan. All are usable; none if no such
  // choice leaves every unit an option. `space` is the one given to the constructor. REQUIRES:
  // `usable()`, which is not checked.
  std::vector<GalvatronTables> Choices(const StrategySpace& space) const;

  // Returns a lower bound of the step of any plan with `micro_batch_count` micro-batches, without
  // `CostModel::step_overhead`: the larger of two bounds, which step_bound.h proves as its first
  // and third, with memory ignored.
  // For m micro-batches and P stages the first is X / (1 - (1 - 1/m)^P), where X is the sum over
  // all units of the least time of one micro-batch. The second is the least work of all units in a
  // step, divided by P. REQUIRES: `usable()`, which is not checked.
  Seconds LowerBound(int64_t micro_batch_count) const;

 private:
  std::vector<GalvatronTables> TransformerChoices(const StrategySpace& space) const;
  // Returns this table without the options of a layer for which `refuses(definition, strategy)`
  // holds; nothing if a kind is left without options.
  template <typename Refuses>
  std::optional<GalvatronTables> Without(const Refuses& refuses) const;
  // Returns a table for each way to treat the layers of the definitions for which `belongs` holds
  // alike; this table itself if there are none.
  template <typename Belongs, typename Alike>
  std::vector<GalvatronTables> OneForEach(const Belongs& belongs, const Alike& alike) const;
  // Returns a table with and one without sequence parallelism of tensor-parallel layers; this table
  // itself if the target does not ask that they agree, or all do.
  std::vector<GalvatronTables> SequenceParallelChoices(const StrategySpace& space) const;
  void AddUnits(const StrategySpace& space);
  void AddOptions(const StrategySpace& space, const CostModel& costs, bool with_recompute,
                  GalvatronKind& kind);
  // Adds the option in which the layer `leader` of the unit has the strategy `leading`. Layers at
  // the ends have `of_end` if it is not null, else they follow. Adds nothing if a layer cannot.
  void AddOption(const StrategySpace& space, const CostModel& costs,
                 const std::vector<std::vector<Strategy>>& strategies, size_t leader,
                 const Strategy& leading, const Strategy* of_end, GalvatronKind& kind);
  void AddTransitions(const CostModel& costs, GalvatronKind& kind) const;

  int pipeline_parallel_degree_;
  int64_t micro_batch_size_;
  bool usable_ = true;
  // [layout] one of its strategies.
  std::vector<Strategy> layouts_;
  std::vector<GalvatronKind> kinds_;
  std::vector<int> kind_of_unit_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_TABLES_H_
