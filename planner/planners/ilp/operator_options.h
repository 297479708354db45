// Every way to split one operator over a mesh, and its costs. The candidates are ours
// (docs/papers.md 3.4): the text at hand shows one product only.
//
// For a product Y = X W each axis takes one of
//
//  choice           X        W        Y        exchanges
//  m  rows          rows     whole    rows     gradient of W summed, once a step
//  n  columns       whole    columns  columns  gradient of X summed
//  k  inner         columns  rows     whole    Y summed
//  r  replicate     whole    whole    whole    nothing; every device does all the work
//
// Attention takes rows (samples), columns (heads) or neither; norms take rows or neither;
// element-wise work takes any layout, the same for inputs and output. Used by `GraphOfModel`.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_OPTIONS_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "planner/planners/ilp/device_mesh.h"
#include "planner/planners/ilp/operator_graph.h"
#include "planner/planners/ilp/operator_times.h"
#include "planner/planners/ilp/strategy_graph.h"

namespace parplan {

// Sizes and factors of the layer an operator belongs to. The factors make the parts of the layer
// add up to the cost model's costs of the whole.
struct OperatorScales {
  // Bytes of an element of an activation, of the states of one parameter, and of its gradient in
  // messages.
  double element_bytes = 2.0;
  double state_bytes_per_parameter = 0.0;
  double gradient_message_bytes_per_parameter = 0.0;
  // Factors of the bytes of activations and of computing times.
  double activation_factor = 1.0;
  double time_factor = 1.0;
  // Number of micro-batches of a step, because `NodeOption::seconds` is the time of a step.
  int64_t micro_batch_count = 1;
};

// One way to split an operator.
struct OperatorOption {
  // Costs without the output, whether or not it is kept.
  NodeOption cost;
  Layout input;
  Layout output;
  // Layout of W; its rows are the inner dimension.
  Layout weight;
};

// Returns the options in a fixed order; at least one, since everything may be replicated.
std::vector<OperatorOption> OptionsOf(const Operator& op, const DeviceMesh& mesh,
                                      const OperatorTimes& times, const OperatorScales& scales);

// Returns the seconds to bring a matrix of `bytes` in all from one layout into another, and its
// gradient back. Per axis: nothing to keep it or to take a slice, an all-gather to make it whole,
// an all-to-all from rows to columns. Slices come first and gathers last, which moves least. 0 if
// `from` equals `to`.
double ReshardSeconds(double bytes, const Layout& from, const Layout& to, const DeviceMesh& mesh,
                      const OperatorTimes& times);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_OPTIONS_H_
