// One layer on one device under one strategy, in time and memory.

#ifndef PARPLAN_PLANNER_COST_LAYER_COST_H_
#define PARPLAN_PLANNER_COST_LAYER_COST_H_

#include "base/units.h"
#include "planner/cost/rank_memory.h"
#include "planner/model/plan.h"

namespace parplan {

struct LayerCost {
  // One micro-batch, without gradient synchronisation.
  Seconds forward;
  Seconds backward;
  // Adds up to forward + backward.
  TimeItems time;
  // What the synchronisation of gradients adds to the end of a step, as far as the
  // backward pass of the layer does not hide it.
  Seconds gradient_sync;
  // The layer's share of the update, once a step.
  Seconds optimizer_step;

  LayerMemory memory;

  // Held all the time.
  Bytes states() const { return memory.states() + memory.gathered_all_time; }
  // Held from forward to backward, for each micro-batch in flight: all activations,
  // or the layer's input when it recomputes.
  Bytes kept_per_micro_batch() const { return memory.kept; }
  // Held only while the layer itself runs: its activations when it recomputes, its
  // gathered parameters and gradients when they are sharded, messages.
  Bytes transient() const { return memory.transient(); }
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_COST_H_
