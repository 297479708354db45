// Assigns a strategy to every layer of one stage so that the stage is as fast as possible and its
// peak memory fits a budget.
//
// The dynamic programme of Galvatron (docs/papers.md 1.3), C(L,E) = min { C(L-1, E - O(L,S)) +
// c(L,S) + R(L,S',S) }, with two differences. Memory is not rounded to a grid: the states of a
// layer are the Pareto-optimal pairs of memory and time (labels), so the answer is exact. And
// transient memory counts: for each value the largest transient can have, layers may use only
// strategies that do not exceed it, and the rest of the budget is for what they keep. That is the
// peak of docs/papers.md 2.2 without the scan that can miss plans. Used by the baselines
// (candidate_search.h) and by the study of the engine.
//
// Words (docs/glossary.md): a label is a partial solution of a dynamic programme with its costs;
// options have one layout if activations move between them at no cost; an option is a strategy of a
// layer definition with its costs (option_table.h); micro-batches in flight have done their forward
// pass and not yet their backward pass.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_LAYER_ASSIGNMENT_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_LAYER_ASSIGNMENT_H_

#include <cstddef>
#include <variant>
#include <vector>

#include "base/units.h"
#include "planner/model/strategy.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// The cost of a layer under one strategy.
struct LayerOption {
  Strategy strategy;
  // Below `StageChoices::layout_count`. Activations move at no cost between strategies of a layout.
  int layout = 0;
  // Time over all micro-batches of a step, including gradient synchronisation. Finite, not
  // negative.
  Seconds time;
  // Bytes held throughout the step: states, and activations of all micro-batches in flight.
  Bytes kept;
  // Bytes held only while the layer runs; a stage reserves the largest of its layers.
  Bytes transient;
};

// Layers that cost alike.
struct LayerChoices {
  // The options: at least one, ascending by strategy.
  std::vector<LayerOption> options;
  // [from * layout_count + to] time to move activations from a layout into that of a layer of this
  // kind, over all micro-batches. Finite, not negative.
  std::vector<Seconds> transitions;
};

// Equal consecutive layers; `kind` indexes `StageChoices::kinds`.
struct LayerChoiceRun {
  int kind = 0;
  int layer_count = 0;
  friend auto operator<=>(const LayerChoiceRun&, const LayerChoiceRun&) = default;
};

// A stage with at least one layer.
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
  // Bytes kept by all layers, plus the largest transient.
  Bytes peak;
  // False if the meter has stopped, before the call or in it; the assignment is then the best that
  // was found.
  bool is_exact = true;
};

// The outcome if no assignment fits: `smallest_budget` is the least budget with which one does.
struct BudgetTooSmall {
  Bytes smallest_budget;
};

// Solves the stage. Among equally fast assignments the one with the smaller peak wins, then the one
// whose options come first, layer by layer; so the answer depends only on the arguments.
//
// REQUIRES: at least one run, and an option for each kind that a layer has; aborts otherwise. Does
// not refer to its arguments afterwards. Counts states on `meter`; if it ends the search, the
// answer is an assignment that fits but may not be the best. Whether one fits, and the smallest
// budget, do not depend on it. O(L * S * labels) time, where bounds of a Lagrangian relaxation keep
// the labels few.
std::variant<StageAssignment, BudgetTooSmall> AssignStrategies(const StageChoices& stage,
                                                               Bytes budget, SearchMeter& meter);

// Returns the smallest budget with which `stage` can be solved. REQUIRES: an option for each kind
// that a layer has; aborts otherwise. `Bytes::Max()` without a run.
Bytes SmallestBudget(const StageChoices& stage);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_LAYER_ASSIGNMENT_H_
