// Measures how far the walks of `galvatron-bmw` go, and which plans they would find under other
// limits than `kMaxPartitions` (bi_objective.h) and `kMaxWalkStates` (bmw_walk.h). The command
// `parplan-study papers` measures it for its section `long-walks`.
//
// Words (docs/glossary.md): a partition is the number of layers of each stage. A walk tries
// partitions on the way from balanced memory to balanced time (bmw_walk.h). States are those of the
// dynamic program that solves the stages of each partition.

#ifndef PARPLAN_STUDIES_PAPERS_WALK_LIMITS_H_
#define PARPLAN_STUDIES_PAPERS_WALK_LIMITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "studies/papers/paper_models.h"

namespace parplan::papers {

// The limits that are tried: the number of partitions of a walk, and the binary logarithm of the
// number of states (21 means 2^21).
inline constexpr int kPartitionLimits[] = {2, 8, 32, 128};
inline constexpr int kStateLimitLogs[] = {21, 23, 25, 27};

// A question without tensor parallelism and sharding (`PipelinesAlone` of pipelines_alone.h), with
// the partitioner `even` (partitioner.h). `batch` is the only batch, in samples.
struct WalkQuestion {
  Family family = Family::kT5Short;
  int layer_count = 32;
  Devices devices;
  int64_t batch = 64;
};

// The walks with the batch, pipeline degree and number of micro-batches that the answer of
// `galvatron-bmw` has. There are several: with and without recomputation, and under each measure of
// memory (`ExplainWalks` of bmw_walk.h). Steps are predicted, in seconds with six significant
// digits, and 0 if no partition fits. If the answer has no plan, the lists are empty and the counts
// from `stage_count` on are 0.
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
  // The partitions of the longest walk, and whether `kMaxPartitions` ended any walk; both with the
  // last of `kStateLimitLogs`.
  int most_partitions = 0;
  bool has_most_partitions = false;
  // [limit of `kPartitionLimits`, then one more element without a limit] the step of the fastest
  // plan if each walk tries only so many partitions. The time-balanced partition is tried always
  // and does not count. With the last of `kStateLimitLogs`.
  std::vector<double> steps_by_partitions;
  // [limit of `kStateLimitLogs`] the step of the fastest plan, and the processor seconds that all
  // walks together took, with two decimals. The seconds differ from run to run.
  std::vector<double> steps_by_states;
  std::vector<double> seconds_by_states;

  friend bool operator==(const WalkRow&, const WalkRow&) = default;
};

// Plans the question with `galvatron-bmw`, then walks once for each limit of states. Some of the
// questions below make more states than a search would. An answer of one stage has no walks: its
// `walk_count` and all its steps are 0. Aborts for a question that `ProblemOf` or the planner does
// not take.
WalkRow WalkRowOf(const WalkQuestion& question);

// Lists the questions of the page: the three models whose layers are unlike, with 32 and 48 layers
// on eight RTX Titans of 8, 12 and 16 GiB; and two of them with 320 and 1000 layers on 64 A100,
// one also with 320 layers on 8.
std::vector<WalkQuestion> WalkQuestions();

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_WALK_LIMITS_H_
