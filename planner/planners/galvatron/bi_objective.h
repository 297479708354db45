// The queue of partitions of Galvatron-BMW: from the one that balances memory towards the
// one that balances time (TKDE 2024; papers.md 2.4).

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_BI_OBJECTIVE_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_BI_OBJECTIVE_H_

#include <functional>
#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {

// A partition whose stages were solved: each stage's time in a step and its peak memory.
struct StageFigures {
  std::vector<Seconds> times;
  std::vector<Bytes> peaks;
};

// How even a partition is: 1 - max / sum, in [0, 1 - 1/P]; the upper end is perfect.
struct BalanceDegrees {
  double time = 0.0;    // alpha_t
  double memory = 0.0;  // alpha_m
};
BalanceDegrees DegreesOf(const StageFigures& figures);

// Partitions looked at, at most.
inline constexpr int kMostPartitions = 512;

// Starts with `memory_balanced`, and in the order of a queue adjusts each partition: a
// boundary layer of its slowest stage (the first of equally slow ones) goes to the stage
// before, and in another partition to the stage behind. The new one joins the queue when
// its slowest stage takes no longer than that of the one it came from, every stage fits,
// and its fullest stage needs no more than the fullest stage of `time_balanced` does,
// where that one fits. No partition joins twice.
//
// `solve` gives the figures of a partition, nothing where a stage does not fit; `visit`
// sees each partition that joined, the first one included, and ends it all with false.
// The paper leaves open what the memory of a partition is before its strategies are known;
// here it is that of its solved stages.
void AdjustPartitions(const Partition& memory_balanced, const Partition& time_balanced,
                      const std::function<std::optional<StageFigures>(const Partition&)>& solve,
                      const std::function<bool(const Partition&, const StageFigures&)>& visit);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_BI_OBJECTIVE_H_
