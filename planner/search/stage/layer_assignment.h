// Picks a strategy for every layer of one stage so that the stage is as fast as
// possible and its fullest moment fits in a budget.
//
// The dynamic programme of Galvatron (PVLDB 16(3), section 3.3; papers.md 1.3),
// C(L,E) = min { C(L-1, E - O(L,S)) + c(L,S) + R(L,S',S) }, with two differences.
// Memory is not rounded to a grid: the states of a layer are the Pareto-optimal
// pairs of memory and time (labels), so the answer is exact. And the transient
// memory of a layer counts: for each value it can have, layers may only use
// strategies that stay below, and the rest of the budget is for what they keep
// (the peak of Galvatron-BMW, papers.md 2.2, with nothing missed).

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_LAYER_ASSIGNMENT_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_LAYER_ASSIGNMENT_H_

#include <cstddef>
#include <variant>
#include <vector>

#include "base/units.h"
#include "planner/model/strategy.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// What a layer costs its stage under one strategy.
struct LayerOption {
  Strategy strategy;
  // Strategies between which activations move for nothing share a layout.
  int layout = 0;
  // Over all micro-batches of a step, with gradient synchronisation.
  Seconds time;
  // Held all through the step: states, and activations of all micro-batches in
  // flight.
  Bytes kept;
  // Held only while the layer runs; stages keep room for the largest.
  Bytes transient;
};

// Layers that cost alike.
struct LayerChoices {
  // At least one, ascending by strategy.
  std::vector<LayerOption> options;
  // [from * layout_count + to]: to bring activations from a layout into that of
  // a layer of this kind, over all micro-batches. Not negative.
  std::vector<Seconds> transitions;
};

// Equal layers one after the other; `kind` indexes `StageChoices::kinds`.
struct LayerChoiceRun {
  int kind = 0;
  int layer_count = 0;
  friend auto operator<=>(const LayerChoiceRun&, const LayerChoiceRun&) = default;
};

// A stage: at least one layer.
struct StageChoices {
  int layout_count = 1;
  std::vector<LayerChoices> kinds;
  std::vector<LayerChoiceRun> runs;
};

// The best assignment.
struct StageAssignment {
  // [layer] index into the options of the layer's kind.
  std::vector<int> options;
  // Sum of option times and transitions.
  Seconds time;
  // Kept by all layers, plus the largest transient.
  Bytes peak;
  // False where a limit ended the search: then the best that was found.
  bool is_exact = true;
};

// No assignment fits; with `smallest_budget` one does, with a byte less none.
struct BudgetTooSmall {
  Bytes smallest_budget;
};

// Solves the stage. Of equally fast assignments the one with the smaller peak
// wins, then the one whose options come first, layer by layer; so the answer
// depends on nothing but the arguments.
//
// States are counted on `meter`; when it ends the search, the answer is an
// assignment that fits, not always the best. Time O(L * S * labels), where
// bounds of a Lagrangian relaxation keep the labels few.
std::variant<StageAssignment, BudgetTooSmall> AssignStrategies(const StageChoices& stage,
                                                               Bytes budget, SearchMeter& meter);

// The smallest budget with which `stage` can be solved.
Bytes SmallestBudget(const StageChoices& stage);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_LAYER_ASSIGNMENT_H_
