#include "planner/search/stage/partition_moves.h"

#include <utility>
#include <vector>

namespace parplan {
namespace {

// Up to this many stages, layers are moved between any two; with more, the number of pairs would
// use up the limit of passes.
constexpr int kFewStages = 8;
// Passes of schedules simulated for moves of layers before they end. Not measured for other values.
constexpr int64_t kMaxPassesOfMoves = int64_t{1} << 21;

// Returns pairs of stages, closest first.
std::vector<std::pair<int, int>> MovesFrom(const Partition& partition, int slowest_stage) {
  const int stage_count = static_cast<int>(partition.size());
  std::vector<std::pair<int, int>> moves;
  for (int distance = 1; distance < stage_count; ++distance) {
    for (int from = 0; from < stage_count; ++from) {
      if (partition[from] == 1) continue;
      if (stage_count > kFewStages && from != slowest_stage) continue;
      if (from - distance >= 0) moves.push_back({from, from - distance});
      if (from + distance < stage_count) moves.push_back({from, from + distance});
    }
  }
  return moves;
}

}  // namespace

void MoveLayers(const Partition& start, int64_t max_trial_count,
                const std::function<int()>& slowest_stage,
                const std::function<bool(const Partition&)>& improves) {
  Partition best = start;
  for (bool improved = true; improved;) {
    improved = false;
    const Partition from_here = best;
    for (const auto& [from, to] : MovesFrom(from_here, slowest_stage())) {
      if (--max_trial_count < 0) return;
      Partition moved = from_here;
      --moved[from];
      ++moved[to];
      if (!improves(moved)) continue;
      best = std::move(moved);
      improved = true;
    }
  }
}

int64_t MoveTrialCount(int stage_count, int64_t micro_batch_count) {
  return kMaxPassesOfMoves / (stage_count * micro_batch_count);
}

}  // namespace parplan
