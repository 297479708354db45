#include "planner/planners/galvatron/bi_objective.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <utility>

namespace parplan {
namespace {

struct Entry {
  Partition partition;
  StageFigures figures;
};

}  // namespace

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

void AdjustPartitions(const Partition& memory_balanced, const Partition& time_balanced,
                      const std::function<std::optional<StageFigures>(const Partition&)>& solve,
                      const std::function<bool(const Partition&, const StageFigures&)>& visit) {
  std::optional<StageFigures> first = solve(memory_balanced);
  if (!first || !visit(memory_balanced, *first)) return;
  Bytes max_memory = Bytes::Max();
  if (const std::optional<StageFigures> end = solve(time_balanced)) {
    max_memory = *std::max_element(end->peaks.begin(), end->peaks.end());
  }
  std::set<Partition> seen = {memory_balanced};
  std::deque<Entry> queue;
  queue.push_back({memory_balanced, *std::move(first)});
  while (!queue.empty()) {
    const Entry entry = std::move(queue.front());
    queue.pop_front();
    const std::vector<Seconds>& times = entry.figures.times;
    const auto slowest = std::max_element(times.begin(), times.end());
    const int from = static_cast<int>(slowest - times.begin());
    if (entry.partition[from] == 1) continue;
    for (const int to : {from - 1, from + 1}) {
      if (to < 0 || to >= static_cast<int>(times.size())) continue;
      Partition moved = entry.partition;
      --moved[from];
      ++moved[to];
      if (static_cast<int>(seen.size()) >= kMaxPartitions) return;
      if (!seen.insert(moved).second) continue;
      std::optional<StageFigures> figures = solve(moved);
      if (!figures) continue;
      if (*std::max_element(figures->times.begin(), figures->times.end()) > *slowest) continue;
      if (*std::max_element(figures->peaks.begin(), figures->peaks.end()) > max_memory) continue;
      if (!visit(moved, *figures)) return;
      queue.push_back({std::move(moved), *std::move(figures)});
    }
  }
}

}  // namespace parplan
