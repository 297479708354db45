// The search of Galvatron as submitted in June 2022, over the costs of
// studies/parity/galvatron_2022.h: the batch, depth and strategies that its authors'
// own program, run again for this project, predicts to be best. A yardstick for `galvatron`, which
// plans under our own model.
//
// Algorithm: papers.md 1.2 to 1.5. Batches grow from 8 in steps of eight until no depth fits, at
// most to 4096; each stage is solved by the dense programme (dense_assignment.h) with layers
// rounded up to MB; the cost of a plan is the sum over stages of what the programme minimised.
// docs/galvatron.md lists the decisions that papers.md leaves open and the predictions of the
// authors' program settle. `parplan-study parity` and `ParseConstantsOf2022`
// (galvatron_constants.h) use it.

#ifndef PARPLAN_STUDIES_PARITY_GALVATRON_2022_SEARCH_H_
#define PARPLAN_STUDIES_PARITY_GALVATRON_2022_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/model/strategy.h"
#include "studies/parity/galvatron_2022.h"

namespace parplan {

// Parts of the tree that are compared. `3D` has two stages and consecutive tensor-parallel pairs:
// 2-2*-2 on eight devices.
enum class Subspace2022 { kDp, kTp, kPp, kSdp, kDpTp, kDpPp, kThreeD, kFull };
inline constexpr Subspace2022 kSubspaces2022[] = {
    Subspace2022::kDp,   Subspace2022::kTp,   Subspace2022::kPp,     Subspace2022::kSdp,
    Subspace2022::kDpTp, Subspace2022::kDpPp, Subspace2022::kThreeD, Subspace2022::kFull};
// Returns the name in the table of papers.md 1.8: `DP`, `TP`, `PP`, `SDP`, `DP+TP`, `DP+PP`,
// `3D(2,2,2)`, `Full`.
absl::string_view SubspaceName(Subspace2022 subspace);

// Consecutive equal layers.
struct LayerRun2022 {
  Galvatron2022Layer layer;
  int layer_count = 0;
};

// The input of the search.
struct Question2022 {
  Galvatron2022Hardware hardware;
  int device_count = 8;
  Galvatron2022Model model;
  MicroBatchRule2022 micro_batch_rule = MicroBatchRule2022::kBert;
  // First to last; at least one run, without which `Search2022` aborts.
  std::vector<LayerRun2022> layers;
  // Whether stages follow the greedy balance of memory; otherwise they are even, with the rest of
  // the layers in the last one.
  bool balances_memory = false;
};

// A plan and its predicted rate.
struct Plan2022 {
  double samples_per_second = 0.0;
  int64_t global_batch_size = 0;
  // [stage][layer]
  std::vector<std::vector<Strategy>> stages;

  // Returns `2-4-1 x1, 2-2*-2 x14 | 2-4-1 x15`; equal stages are written one by one.
  std::string Gist() const;
};

// Returns, for each budget in MB (2^20 bytes) per device, the plan with the most samples a second,
// the first of equal ones; absent if a batch of 8 does not fit, or the sub-space has no strategy
// for so many devices. Budgets may be in any order. All budgets are answered from the tables of the
// largest. Returns FAILED_PRECONDITION (PROFILE_MISSING) if a strategy of the sub-space needs a
// measurement that `question` lacks.
//
// The eight sub-spaces and four budgets of BERT-Huge-32 take a second.
absl::StatusOr<std::vector<std::optional<Plan2022>>> Search2022(const Question2022& question,
                                                                Subspace2022 subspace,
                                                                absl::Span<const int> budgets_mb);

}  // namespace parplan

#endif  // PARPLAN_STUDIES_PARITY_GALVATRON_2022_SEARCH_H_
