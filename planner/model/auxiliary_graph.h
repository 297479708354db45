// The auxiliary graph of a model for drawings: every operator, the strategies it may take, and the
// choice of least memory.
//
// Shi et al., FITEE 26(1), 2025, figures 1 and 2 (docs/min-memory-ilp.md). Plain values, which
// every build has; only builds with PARPLAN_WITH_ILP make them (planner/ilp_searches.h). `planctl
// graph` draws them.

#ifndef PARPLAN_PLANNER_MODEL_AUXILIARY_GRAPH_H_
#define PARPLAN_PLANNER_MODEL_AUXILIARY_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace parplan {

// One strategy of an operator. Bytes are those of one device for one copy of the operator (one
// layer of its run), seconds those of one step.
struct AuxiliaryStrategy {
  // One letter per axis of the mesh: `m` rows, `n` columns, `k` inner dimension, `r` replicated.
  std::string tag;
  double state_bytes = 0.0;  // weights, gradients, optimizer
  double kept_bytes = 0.0;   // from forward to backward
  // Memory beyond an even share of one copy of everything.
  double redundant_bytes = 0.0;
  double seconds = 0.0;
  // Returns the memory of one device: states and kept tensors.
  double memory_bytes() const { return state_bytes + kept_bytes; }
};

// An operator of a run of equal layers.
struct AuxiliaryOperator {
  // `layer definition.operator`; operators of several runs of one definition have one name.
  std::string name;
  // Layers of the run, all of which get the chosen strategy.
  int multiplicity = 1;
  // Bytes of one copy if everything is held once.
  double unique_bytes = 0.0;
  std::vector<AuxiliaryStrategy> strategies;
  // Index of the chosen strategy; absent if the programme was not solved.
  std::optional<int> chosen;
};

// A tensor from one operator to another, given by their indices in `AuxiliaryGraph::operators`. The
// tensor between two layers of a run goes back from the last operator of a layer to each that reads
// a layer's input, so `from` may be at or above `to`.
struct AuxiliaryEdge {
  int from = 0;
  int to = 0;
  // Number of such tensors. The costs below are those of one.
  int multiplicity = 1;
  // [strategy of from][strategy of to] seconds of resharding a step, and bytes of a second copy of
  // the tensor, which is redundant as a whole.
  std::vector<std::vector<double>> seconds;
  std::vector<std::vector<double>> copy_bytes;
};

// The graph of one model on one mesh, with the choice of strategies if there is one.
struct AuxiliaryGraph {
  // The ranks in a row (`8`), or as rows and columns (`2x4`).
  std::string mesh;
  int device_count = 1;
  int64_t micro_batch_size = 1;
  int64_t micro_batch_count = 1;
  std::vector<AuxiliaryOperator> operators;  // in the order of the forward pass
  std::vector<AuxiliaryEdge> edges;
  // Totals in bytes a device and seconds a step. `even_share_bytes` is the share of a device if
  // everything is held once. The others are those of the choice, and 0 if there is none;
  // `memory_bytes` is the sum of states and of what is kept from forward to backward, second copies
  // included.
  double memory_bytes = 0.0;
  double state_bytes = 0.0;
  double even_share_bytes = 0.0;
  double seconds = 0.0;
  // Whether the choice has the least memory (or time) of this graph, proved.
  bool is_proved = false;
};

// A question about the graph.
struct AuxiliaryGraphQuestion {
  // Samples of a micro-batch over all devices of the mesh, and micro-batches of a step.
  int64_t micro_batch_size = 1;
  int64_t micro_batch_count = 1;
  // `8` or `2x4`; empty for the mesh with the least memory, or time.
  std::string mesh;
  // Whether the choice is that of least time, as for `alpa-like` without a cap on memory.
  bool wants_least_time = false;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_AUXILIARY_GRAPH_H_
