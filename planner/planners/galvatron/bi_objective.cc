#include "planner/planners/galvatron/bi_objective.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace parplan {
BalanceDegrees DegreesOf(const StageFigures& figures) {
  const Seconds time = std::accumulate(figures.times.begin(), figures.times.end(), Seconds());
  const Bytes memory = std::accumulate(figures.peaks.begin(), figures.peaks.end(), Bytes());
  BalanceDegrees degrees;
  if (time > Seconds()) {
    degrees.time = 1.0 - *std::max_element(figures.times.begin(), figures.times.end()) / time;
  }
  if (memory > Bytes()) {
    const Bytes largest = *std::max_element(figures.peaks.begin(), figures.peaks.end());
    degrees.memory = 1.0 - largest.as_double() / memory.as_double();
  }
  return degrees;
}

WalkEnd AdjustPartitions(const Partition& memory_balanced, const Partition& time_balanced,
                         const std::function<Bytes(const Partition&)>& memory_of,
                         const std::function<std::optional<StageFigures>(const Partition&)>& solve,
                         const std::function<bool(const AdjustmentStep&)>& on_step) {
  // The queue, from which nothing leaves: steps are its entries with their indices among all steps.
  std::vector<std::pair<int, AdjustmentStep>> queue;
  std::set<Partition> seen = {memory_balanced};
  AdjustmentStep start{.partition = memory_balanced, .figures = solve(memory_balanced)};
  int step_count = 1;
  if (!on_step(start)) return WalkEnd::kStopped;
  if (time_balanced != memory_balanced) {
    ++step_count;
    if (!on_step({.partition = time_balanced,
                  .verdict = PartitionVerdict::kEnd,
                  .figures = solve(time_balanced)})) {
      return WalkEnd::kStopped;
    }
  }
  if (start.figures) queue.push_back({0, std::move(start)});
  const Bytes memory_limit = memory_of(time_balanced);
  for (size_t next = 0; next < queue.size(); ++next) {
    const auto [index, entry] = queue[next];
    const std::vector<Seconds>& times = entry.figures->times;
    const auto slowest = std::max_element(times.begin(), times.end());
    const int from = static_cast<int>(slowest - times.begin());
    if (entry.partition[from] == 1) continue;
    for (const int to : {from - 1, from + 1}) {
      if (to < 0 || to >= static_cast<int>(times.size())) continue;
      AdjustmentStep step{.partition = entry.partition,
                          .verdict = PartitionVerdict::kJoined,
                          .parent = index,
                          .from_stage = from,
                          .to_stage = to};
      --step.partition[from];
      ++step.partition[to];
      if (static_cast<int>(seen.size()) >= kMaxPartitions) return WalkEnd::kMostPartitions;
      if (!seen.insert(step.partition).second) continue;
      step.figures = solve(step.partition);
      if (!step.figures) {
        step.verdict = PartitionVerdict::kDoesNotFit;
      } else if (*std::max_element(step.figures->times.begin(), step.figures->times.end()) >
                 *slowest) {
        step.verdict = PartitionVerdict::kSlower;
      } else if (memory_of(step.partition) > memory_limit) {
        step.verdict = PartitionVerdict::kTooFull;
      }
      if (!on_step(step)) return WalkEnd::kStopped;
      if (step.verdict == PartitionVerdict::kJoined) queue.push_back({step_count, std::move(step)});
      ++step_count;
    }
  }
  return WalkEnd::kNothingLeft;
}

}  // namespace parplan
