// Plans for the models of table 2, and the kinds of memory they hold. `parplan-study table2` and
// the hypotheses call them.

#ifndef PARPLAN_STUDIES_TABLE2_TABLE_PLANS_H_
#define PARPLAN_STUDIES_TABLE2_TABLE_PLANS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "planner/model/model_spec.h"
#include "planner/model/planning_problem.h"
#include "studies/table2/published_table.h"

namespace parplan::table2 {

// A row of the table, with the facts that the table does not state.
struct RowSetting {
  // One of the names in `PublishedRow`.
  std::string model;
  int device_count = 1;
  int64_t global_batch_size = 8;
  Precision precision = Precision::kBf16;
  Optimizer optimizer = Optimizer::kAdam;
  // Id in the library of hardware.
  std::string device = "a100-sxm-80gb";
  // Whether plans may shard states over replicas (ZeRO). The abstract has intra-operator strategies
  // alone (docs/papers.md 3.3).
  bool allow_zero = false;
  // Whether plans may recompute. Only `colossal-auto-like` may otherwise, whose part it is.
  bool allow_recompute = false;
};

// Memory of the fullest device under a plan.
struct TableMemory {
  // Whether the plan fits; otherwise it is the smallest one that the planner has.
  bool fits = false;
  // Predicted time of a step, and the plan in one line (`PlanGist`).
  Seconds step;
  std::string gist;
  // The memory that a device must have for the plan.
  Bytes needed;
  // The predicted peak of a process, with context, communicators and fragmentation.
  Bytes peak;
  // Weights, gradients, optimizer states and fp32 copies.
  Bytes persistent;
  Bytes weights;
  // Kept from forward to backward, inputs of recomputing layers included.
  Bytes activations;
  // Held while one layer runs: transient memory, gathered parameters, logits.
  Bytes temporary;
  // Persistent memory and activations beyond an even share of one copy of everything. Below 0 if
  // recomputation keeps less than that.
  Bytes redundant;
  // Memory of the program's own solution, before it is mapped to a plan: persistent memory with
  // activations, activations, and what is redundant. Alpa's is that of least time. Those of the
  // plan for planners without a program, and for `colossal-auto-like`, whose part comes after the
  // program.
  Bytes program_memory;
  Bytes program_activations;
  Bytes program_redundant;
};

// Returns the planner that stands for a column: `megatron`, `alpa-like`, `colossal-auto-like`,
// `min-memory-ilp`.
absl::string_view PlannerOf(Column column);

// Returns the question of a row: one node, one stage, one micro-batch, no context parallelism.
// INVALID_ARGUMENT (SPEC_INVALID) if `device` is not in the library (naming `--device`) or the
// model not in the table (`model`), and the errors of `ModelSpec::Create`, `Topology::Create` and
// `PlanningProblem::Create`.
absl::StatusOr<PlanningProblem> ProblemOf(const RowSetting& setting, Column column);

// Returns the memory of the plan of the column's planner. Returns the errors of `ProblemOf`,
// `CostModel::Create`, `FindPlan` and `draw_graph` (IlpSearches). Aborts if the planner has no plan
// at all, not even one that does not fit.
absl::StatusOr<TableMemory> MemoryOfPlan(const RowSetting& setting, Column column);

// The answers of the four planners to the rows as a user would ask them: bf16, Adam, ZeRO allowed.
struct ProductRows {
  std::string device;
  int64_t global_batch_size = 8;
  std::vector<std::array<TableMemory, kColumnCount>> cells;  // [row][column]
  // `min-memory-ilp` with recomputation allowed, as `colossal-auto-like` always has it. [row]
  std::vector<TableMemory> recomputing;
};

// Returns the answers to all rows of `table`, in their order, or an error of `MemoryOfPlan`.
absl::StatusOr<ProductRows> PlanRows(const PublishedTable& table, const std::string& device,
                                     int64_t global_batch_size);

}  // namespace parplan::table2

#endif  // PARPLAN_STUDIES_TABLE2_TABLE_PLANS_H_
