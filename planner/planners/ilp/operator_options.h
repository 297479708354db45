// Every way to spread one operator over a mesh (K_v of the paper), and what it costs.
//
// Of a product Y = X W each axis takes one of
//
//   choice           X        W        Y        exchanges
//   m  rows          rows     whole    rows     gradient of W summed, once a step
//   n  columns       whole    columns  columns  gradient of X summed
//   k  inner         columns  rows     whole    Y summed
//   r  replicate     whole    whole    whole    nothing; every device does all the work
//
// Attention takes rows (samples), columns (heads) or neither; norms rows or neither;
// element-wise work any layout, the same for inputs and output.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_OPTIONS_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "planner/planners/ilp/device_mesh.h"
#include "planner/planners/ilp/operator_graph.h"
#include "planner/planners/ilp/operator_times.h"
#include "planner/planners/ilp/strategy_graph.h"

namespace parplan {

// Of the layer an operator belongs to: what makes its parts add up to what the cost
// model says of the whole, and sizes.
struct OperatorScales {
  double element_bytes = 2.0;
  double state_bytes_per_parameter = 0.0;
  double gradient_message_bytes_per_parameter = 0.0;
  double activation_factor = 1.0;
  double time_factor = 1.0;
  int64_t micro_batch_count = 1;
};

struct OperatorOption {
  // Without the output, whether or not it is kept.
  NodeOption cost;
  Layout input;
  Layout output;
  // Of W: rows are its inner dimension.
  Layout weight;
};

// In a fixed order; at least one, since everything may be replicated.
std::vector<OperatorOption> OptionsOf(const Operator& op, const DeviceMesh& mesh,
                                      const OperatorTimes& times, const OperatorScales& scales);

// Seconds to bring a matrix of `bytes` from one layout into another, and its gradient
// back. Per axis: nothing to keep or to take a slice, an all-gather to make it whole, an
// all-to-all from rows to columns. Slices come first and gathers last, which moves least.
// 0 where `from` is `to`.
double ReshardSeconds(double bytes, const Layout& from, const Layout& to, const DeviceMesh& mesh,
                      const OperatorTimes& times);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_OPERATOR_OPTIONS_H_
