// A lower bound of a candidate that respects memory and needs no table of options.
// `BestFirstSearch` closes candidates with it before their tables are made.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a
// candidate is all plans of one batch size, pipeline degree, number of micro-batches and schedule;
// an option is a strategy of a layer definition with its costs (option_table.h); a bare strategy
// has neither recomputation nor sharding (`StrategySpace::BareStrategies`); a definition is the
// sizes of a layer, the same for equal layers; micro-batches in flight have done their forward pass
// and not yet their backward pass; a concave hull is the least concave function above some points.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_CAPACITY_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_CAPACITY_BOUND_H_

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// No more than the costs of any option with one bare strategy and one recomputation, whatever its
// sharding: a smaller group of ranks that share states holds no less of them each.
struct LeastCost {
  // Seconds of the forward and the backward pass of one micro-batch together.
  double time = 0.0;
  // Bytes: `StageOption::states`, and `StageOption::kept` of one micro-batch.
  double states = 0.0;
  double kept = 0.0;
};

// The least costs of the commonest definitions of a model for one pipeline degree and micro-batch
// size. They depend neither on the memory nor on the dimensions of virtual and uneven stages, so
// searches that differ only in these may share them.
struct LeastCosts {
  // The layers of one transformer definition.
  struct Layers {
    int layer_count = 0;
    // Each of its options costs no less than one of these in all three members. The first has the
    // least time; none is dominated by another.
    std::vector<LeastCost> costs;
  };
  // At most `kMaxDefinitions`, those of most layers first. Empty if one of them has no option, or
  // if the model has no transformer layers; `CapacityBound` is 0 in both cases.
  std::vector<Layers> definitions;
  // Bytes, at least 0: no option's transient memory is below minus this. It can be negative,
  // because a part of what the layer keeps is freed before the layer needs most (layer_memory.h).
  double most_freed = 0.0;

  // Two for models of encoders and decoders or of dense and expert layers. With more, finding the
  // costs would take as long as the tables it is to save. Not measured for other values.
  static constexpr int kMaxDefinitions = 2;
};

// Returns the least costs. `micro_batch_size` is in samples of all replicas of a stage together.
// Takes about a tenth of the time of the option table of the same numbers, because sharding levels
// are not priced. REQUIRES, unchecked: the degree divides the number of devices.
LeastCosts LeastCostsOf(const StrategySpace& space, const CostModel& costs,
                        int pipeline_parallel_degree, int64_t micro_batch_size);

// Tests whether a plan of the candidate can take less than `cutoff` within the memory of the
// problem of `space`. Returns `cutoff` if it proves that none can, infinity if it proves that none
// even fits into the memory, and 0 if it proves nothing, as without definitions in `least_costs`.
// `cutoff` is the time of a step with `CostModel::step_overhead`, and may be infinite.
//
//   least_costs   those of the candidate's pipeline degree and micro-batch size
//
//   P   pipeline degree: the devices of one replica of the pipeline
//   m   number of micro-batches of a step
//   M   bytes of a device for tensors of layers, and `most_freed`
//   t   time of an option for one micro-batch
//   v   worth of a layer: the least time of all options of its definition
//   a   bytes of an option: its states, and what it keeps for the micro-batches in flight
//   w   time that a device has for one micro-batch
//   c   concave hull of the origin and the points (M t / a, M v / a) of all options
//
// A device that has the time w and the memory M holds layers worth at most c(w), because the shares
// of M that options take add up to at most 1. A device works m w in a step, and all P together at
// most what `SpreadStepBound` allows. If they cannot hold all layers of the commonest definitions
// within these times, no plan is that fast. docs/search.md has the proof. If all definitions
// together close nothing, the first is tried by itself.
//
// Interleaved plans are taken to run their micro-batches in groups of P. O(P + n log n) for n costs
// and each distinct number of micro-batches in flight.
Seconds CapacityBound(const StrategySpace& space, const CostModel& costs,
                      const LeastCosts& least_costs, const PipelineCandidate& candidate,
                      Seconds cutoff);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_CAPACITY_BOUND_H_
