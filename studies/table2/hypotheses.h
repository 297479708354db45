// Hypotheses about what table 2 counts, and how well parplan's model reproduces it under each.
//
// The table names neither batch, precision, optimizer nor what "memory overhead" is. A hypothesis
// sets all four; its error compares our 48 memories and 36 ratios with the table's. `parplan-study
// table2` tries them.

#ifndef PARPLAN_STUDIES_TABLE2_HYPOTHESES_H_
#define PARPLAN_STUDIES_TABLE2_HYPOTHESES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/model/model_spec.h"
#include "studies/table2/published_table.h"
#include "studies/table2/table_plans.h"

namespace parplan::table2 {

// A reading of "memory overhead": the member of `TableMemory` (table_plans.h) that it stands for.
enum class Definition {
  kPeak,                     // peak
  kPersistent,               // persistent
  kWeights,                  // weights
  kRedundant,                // redundant
  kActivations,              // activations
  kTemporary,                // temporary
  kActivationsAndTemporary,  // activations + temporary
  kProgram,                  // program_memory
  kProgramActivations,       // program_activations
  kProgramRedundant,         // program_redundant
};
inline constexpr int kDefinitionCount = 10;
// Returns the words of the page for a definition.
const char* DefinitionName(Definition definition);

// Returns the memory of a plan by a definition, in MB (10^6 bytes).
double OverheadOf(const TableMemory& memory, Definition definition);

// How the batch of a row is set.
enum class BatchRule {
  kGlobal,         // the same for all rows
  kPerDevice,      // times the devices
  kByDeviceCount,  // the best one of the list for each number of devices
  kByModel,        // the best one for each model
};

// One reading of the table, and how far our model is from it.
struct Hypothesis {
  Definition definition = Definition::kPeak;
  Precision precision = Precision::kBf16;
  Optimizer optimizer = Optimizer::kAdam;
  BatchRule rule = BatchRule::kGlobal;
  // [row] global batch size.
  std::vector<int64_t> batches;
  // For people: `8`, `4 a device`, `2: 8, 4: 4, 8: 16`.
  std::string batch_text;

  // [row][column] MB of our model; the members below are computed from it (`Judge`).
  std::vector<std::array<double, kColumnCount>> memory_mb;
  // Mean of |ln(ours / theirs)| over the memories, as a factor: e to its power. 1 is equality.
  double memory_factor = 1.0;
  // The same after all of ours are scaled by the one number that fits best (the median of logs).
  double shape_factor = 1.0;
  // Mean of |ln| over the ratios, as a factor.
  double ratio_factor = 1.0;
  // The mean over all 84 numbers, as a factor.
  double total_factor = 1.0;
  // Spearman's rank correlation of our ratios with theirs.
  double ratio_rank_correlation = 0.0;
};

// Returns Spearman's rank correlation; equal values share their mean rank. 0 if either side has
// only equal values. REQUIRES, unchecked: equal sizes.
double RankCorrelation(absl::Span<const double> a, absl::Span<const double> b);

// Memories below 1 MB count as 1 MB, so that a redundancy of 0 has a logarithm.
inline constexpr double kLeastMb = 1.0;

// Sets the five errors of `hypothesis` from `memory_mb`. REQUIRES, unchecked: that has a row for
// each of `table`, which has some.
void Judge(const PublishedTable& table, Hypothesis& hypothesis);

// Returns the yardstick, which knows neither planners nor devices: for each model the median of its
// memories in the table, which must have a row, here and below (unchecked). Only its memories and
// errors have a meaning. A hypothesis that is further off explains nothing of the table but sizes.
Hypothesis YardstickOf(const PublishedTable& table);

// Batches tried, as global batches and for each device.
inline constexpr int64_t kTriedBatches[] = {1, 2, 4, 8, 16, 32, 64};

// Returns the hypothesis that sets these, with its errors; `batches` has a global batch size for
// each row, which is not checked; `rule` has no meaning. Returns the errors of `MemoryOfPlan`. The
// test of the page calls it, which plans the page's best hypothesis again without the others.
absl::StatusOr<Hypothesis> TryOne(const PublishedTable& table, const std::string& device,
                                  Definition definition, Precision precision, Optimizer optimizer,
                                  std::vector<int64_t> batches, std::string batch_text);

// Plans every row under every batch, precision (fp32, bf16) and optimizer (Adam, SGD), and returns
// all hypotheses, those with the smallest `total_factor` (to six decimals) first; equal ones in the
// order of precision, optimizer and definition. Without an optimizer, a process holds its weights:
// the definition `kWeights`. Plans some 1,700 questions on this thread. Returns the errors of
// `MemoryOfPlan`.
absl::StatusOr<std::vector<Hypothesis>> TryHypotheses(const PublishedTable& table,
                                                      const std::string& device);

}  // namespace parplan::table2

#endif  // PARPLAN_STUDIES_TABLE2_HYPOTHESES_H_
