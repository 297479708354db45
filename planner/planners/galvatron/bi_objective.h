// The queue of partitions of Galvatron-BMW: from the one that balances memory towards the one that
// balances time (docs/papers.md 2.4: from memory, unverified; rules of ours in 2.6). Used by
// `WalkPartitions` (bmw_walk.h), whose callers read the steps.
//
// Words (docs/glossary.md): a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_BI_OBJECTIVE_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_BI_OBJECTIVE_H_

#include <functional>
#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {

// The time in a step and the peak memory of each stage of a solved partition, [stage] both.
struct StageFigures {
  std::vector<Seconds> times;
  std::vector<Bytes> peaks;
};

// Balance of a partition, 1 - max / sum, for time and memory: in [0, 1 - 1/P], where the upper end
// means equal stages. 0 if the sum is 0.
struct BalanceDegrees {
  double time = 0.0;    // alpha_t
  double memory = 0.0;  // alpha_m
};
// Returns the balance of these figures.
BalanceDegrees DegreesOf(const StageFigures& figures);

// Largest number of partitions to try, so that a walk ends for any model: `memory_balanced` and the
// neighbours count, also those that are refused; `time_balanced` counts only where it comes of
// adjusting. `on_step` is therefore called at most once more. No measured walk came to it, and 8 to
// 128 find nearly the same plans (docs/measurements/papers.md, *Where a walk ends*, which
// `parplan-study papers --section long-walks` makes).
inline constexpr int kMaxPartitions = 512;

// Why a partition is in the queue, or is not. The planner offers the plan of any that fits. Test 2
// is made first, because the others need the times: a partition that fails several tests has the
// verdict of test 2, else that of test 1.
enum class PartitionVerdict {
  kStart,       // the memory-balanced partition; without figures if a stage does not fit
  kEnd,         // the time-balanced partition
  kJoined,      // satisfies the three tests below
  kSlower,      // test 1: its slowest stage takes longer than that of its parent
  kDoesNotFit,  // test 2: a stage does not fit
  kTooFull,     // test 3: it needs more memory than the time-balanced partition
};

// One partition that the queue came to.
struct AdjustmentStep {
  Partition partition;
  PartitionVerdict verdict = PartitionVerdict::kStart;
  // Index, in the order of calls of `on_step` from 0 on, of the step whose partition this one was
  // made from, and the stages that gave and got a layer; -1 for the two ends.
  int parent = -1;
  int from_stage = -1;
  int to_stage = -1;
  // Absent if a stage does not fit.
  std::optional<StageFigures> figures;
};

// Why the adjusting came to its end.
enum class WalkEnd {
  kNothingLeft,     // no partition of the queue has a neighbour that was not tried
  kMostPartitions,  // after `kMaxPartitions`
  kStopped,         // `on_step` returned false
};

// Goes through partitions in queue order and calls `on_step` with each it comes to: first
// `memory_balanced` (p_m), then `time_balanced` (p_t) if it is another one, then what comes of
// adjusting. Each partition of the queue is adjusted: a boundary layer of its slowest stage (the
// first of equally slow ones) moves to the stage before, and in another partition to the stage
// after. `memory_balanced` alone is in the queue at first, and `time_balanced` limits memory but is
// not adjusted. The new partition joins the queue if its slowest stage takes no longer than that of
// the partition it came from, every stage fits, and `memory_of` it is no more than `memory_of` the
// time-balanced partition. No partition is tried twice, except that `time_balanced` may come of
// adjusting too; one whose slowest stage has one layer has no neighbours. If a stage of
// `memory_balanced` does not fit, nothing is adjusted. Ends early if `on_step` returns false.
// Returns why it ended.
//
//  memory_of   the memory of the fullest stage in the measure under which p_m is balanced: solved
//              stages all fill the budget they are given, so their peaks say nothing (ours,
//              docs/papers.md 2.6)
//  solve       the figures of a partition, or nothing if a stage does not fit; called once for each
//              call of `on_step`, with the same partition and before it, and not again in between,
//              so that a caller may keep the solved stages for `on_step`. `time_balanced` is solved
//              a second time if it comes of adjusting.
//
// All three are called on this thread and must not be empty, and an `AdjustmentStep` is valid until
// `on_step` returns. REQUIRES, unchecked: both partitions have the same number of stages and the
// same sum.
WalkEnd AdjustPartitions(const Partition& memory_balanced, const Partition& time_balanced,
                         const std::function<Bytes(const Partition&)>& memory_of,
                         const std::function<std::optional<StageFigures>(const Partition&)>& solve,
                         const std::function<bool(const AdjustmentStep&)>& on_step);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_BI_OBJECTIVE_H_
