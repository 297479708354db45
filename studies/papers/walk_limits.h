// The ends of the walks of `galvatron-bmw`, and what other limits would give: measurements behind
// `kMaxPartitions` (bi_objective.h) and `kMaxWalkStates` (bmw_walk.h). The command `parplan-study
// papers` makes them for its section `long-walks`.

#ifndef PARPLAN_STUDIES_PAPERS_WALK_LIMITS_H_
#define PARPLAN_STUDIES_PAPERS_WALK_LIMITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "studies/papers/paper_models.h"

namespace parplan::papers {

// Limits that are tried: numbers of partitions of a walk, and powers of two of states.
inline constexpr int kPartitionLimits[] = {2, 8, 32, 128};
inline constexpr int kStateLimitLogs[] = {21, 23, 25, 27};

// Pipelines alone (`PipelinesAlone`) of a model with even stages to start from.
struct WalkQuestion {
  Family family = Family::kT5Short;
  int layer_count = 32;
  Devices devices;
  int64_t batch = 64;
};

// The walks of the batch, pipeline degree and number of micro-batches of the answer of
// `galvatron-bmw`. Steps are in seconds, six digits, 0 if no partition fits. If the answer has no
// plan, the lists are empty and the counts from `stage_count` on are 0.
struct WalkRow {
  // The name that `ModelName` (paper_models.h) gives.
  std::string model;
  std::string device_kind;
  int device_count = 0;
  // Memory of a device, in GiB.
  int memory_gb = 0;
  int64_t batch = 0;
  int stage_count = 0;
  int64_t micro_batch_count = 0;
  int walk_count = 0;
  // Under the last of `kStateLimitLogs`: partitions of the longest walk, and whether
  // `kMaxPartitions` ended any.
  int most_partitions = 0;
  bool has_most_partitions = false;
  // [limit of `kPartitionLimits`] the step of the fastest plan of the walks' first partitions,
  // beside which the end at balanced time is always looked at, under the last of `kStateLimitLogs`;
  // then that of all.
  std::vector<double> steps_by_partitions;
  // [limit of `kStateLimitLogs`] the step of the fastest plan, and the processor seconds of all
  // walks, two digits.
  std::vector<double> steps_by_states;
  std::vector<double> seconds_by_states;

  friend bool operator==(const WalkRow&, const WalkRow&) = default;
};

// Walks for one question. A question whose answer has one stage has no walks.
WalkRow WalkRowOf(const WalkQuestion& question);

// Lists the questions: the three models whose layers are unlike, with 32 and 48 layers on eight RTX
// Titans; and longer ones on A100.
std::vector<WalkQuestion> WalkQuestions();

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_WALK_LIMITS_H_
