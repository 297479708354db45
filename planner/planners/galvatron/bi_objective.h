// The queue of partitions of Galvatron-BMW: from the one that balances memory towards the one that
// balances time (TKDE 2024; docs/papers.md 2.4).

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_BI_OBJECTIVE_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_BI_OBJECTIVE_H_

#include <functional>
#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {

// The time in a step and the peak memory of each stage of a solved partition.
struct StageFigures {
  std::vector<Seconds> times;
  std::vector<Bytes> peaks;
};

// Balance of a partition, 1 - max / sum, for time and memory: in [0, 1 - 1/P], where the upper end
// means equal stages.
struct BalanceDegrees {
  double time = 0.0;    // alpha_t
  double memory = 0.0;  // alpha_m
};
BalanceDegrees DegreesOf(const StageFigures& figures);

// Largest number of partitions to visit, so that models of many layers end. The value is not
// measured: below it the queue may end before a time-balanced partition is reached, above it time
// grows in proportion.
inline constexpr int kMaxPartitions = 512;

// Visits partitions in queue order, starting with `memory_balanced`, and adjusts each: moves a
// boundary layer of its slowest stage (the first of equally slow ones) to the stage before, and in
// another partition to the stage after. The new partition joins the queue if its slowest stage
// takes no longer than that of the partition it came from, every stage fits, and its fullest stage
// needs no more memory than the fullest stage of `time_balanced`, if that partition fits. No
// partition joins twice.
//
// `solve` returns the figures of a partition, or nothing if a stage does not fit; `visit` is called
// with each partition that joined, including the first, and returns false to end the search. The
// paper does not say what the memory of a partition is before its strategies are known; here it is
// that of its solved stages.
void AdjustPartitions(const Partition& memory_balanced, const Partition& time_balanced,
                      const std::function<std::optional<StageFigures>(const Partition&)>& solve,
                      const std::function<bool(const Partition&, const StageFigures&)>& visit);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_BI_OBJECTIVE_H_
