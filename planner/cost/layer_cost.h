// Time and memory of one layer on one device under one strategy. `GroupCosts::CostOfLayer` and
// `LayerPricing` return it.

#ifndef PARPLAN_PLANNER_COST_LAYER_COST_H_
#define PARPLAN_PLANNER_COST_LAYER_COST_H_

#include "base/units.h"
#include "planner/cost/layer_memory.h"
#include "planner/model/plan.h"

namespace parplan {

// The costs of one layer under one strategy on one rank.
struct LayerCost {
  // Times of one micro-batch, communication that nothing hides included. What is exchanged once a
  // step is in `gradient_sync` alone.
  Seconds forward;
  Seconds backward;
  // The part of `backward` that computes gradients of weights, which may follow in a pass of its
  // own. 0 unless the runtime splits backward passes (`RuntimeTraits::splits_backward`).
  Seconds backward_weights;
  // The parts of forward + backward.
  TimeItems time;
  // Part of the gradient synchronisation, and of the gathering of parameters after it, that
  // computation does not hide and that the end of a step therefore pays.
  Seconds gradient_sync;
  // The layer's share of the optimizer's step, once per step.
  Seconds optimizer_step;

  LayerMemory memory;

  // Memory held during all passes: the model's states, and what is gathered for all of them.
  Bytes states() const { return memory.states() + memory.gathered_all_time; }
  // Memory held from forward to backward for each micro-batch in flight: all activations, or the
  // input of a layer that recomputes.
  Bytes kept_per_micro_batch() const { return memory.kept; }
  // Memory held only while the layer itself runs: activations it recomputes, gathered parameters
  // and gradients if they are sharded, messages.
  Bytes transient() const { return memory.transient(); }
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_COST_H_
