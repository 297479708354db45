#include "planner/search/stage/stage_balance.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planner/search/base/tick_scale.h"

namespace parplan {
namespace {

// Returns the ends of the stages of a partition.
std::vector<int> Ends(const Partition& partition) {
  std::vector<int> ends(partition.size());
  std::partial_sum(partition.begin(), partition.end(), ends.begin());
  return ends;
}

Partition FromEnds(const std::vector<int>& ends) {
  Partition partition;
  int first = 0;
  for (int end : ends) {
    partition.push_back(end - first);
    first = end;
  }
  return partition;
}

// Finds partitions in which every stage stays within the limit of `Load`:
//
//   void Start(int stage);   begins an empty stage
//   bool Add(int layer);     adds a layer; returns false if it does not fit
//
// Layers that fit a stage also fit any later stage, and so do fewer of them.
template <typename Load>
class Splitter {
 public:
  Splitter(Load load, int layer_count, int stage_count)
      : load_(std::move(load)), layer_count_(layer_count), stage_count_(stage_count) {}

  // Returns whether there is such a partition.
  bool Solve() {
    FillFromLast();
    if (least_start_.front() > 0) return false;
    // Then a layer may move to any empty stage, so no stage stays empty.
    all_starts_ = EveryLayerFitsTheFirstStage();
    if (all_starts_) return true;
    for (int stage = stage_count_ - 1; stage >= 0; --stage) FindStarts(stage);
    return CanStart(0, 0);
  }

  // Returns the partition closest to `preferred`, boundary by boundary from the front. REQUIRES:
  // `Solve` returned true.
  Partition ClosestTo(const Partition& preferred) {
    const std::vector<int> preferred_ends = Ends(preferred);
    std::vector<int> ends;
    int first = 0;
    for (int stage = 0; stage < stage_count_; ++stage) {
      int best = -1;
      load_.Start(stage);
      for (int end = first + 1; end <= layer_count_ && load_.Add(end - 1); ++end) {
        if (best >= 0 &&
            std::abs(end - preferred_ends[stage]) >= std::abs(best - preferred_ends[stage])) {
          break;  // Later ends are only farther away.
        }
        if (CanStart(stage + 1, end)) best = end;
      }
      PARPLAN_CHECK(best > first);
      ends.push_back(best);
      first = best;
    }
    return FromEnds(ends);
  }

 private:
  // Fills stages from the last one, each as far as possible, possibly with nothing. No stage can
  // start before the start it gets here.
  void FillFromLast() {
    least_start_.assign(stage_count_ + 1, layer_count_);
    for (int stage = stage_count_ - 1; stage >= 0; --stage) {
      int first = least_start_[stage + 1];
      load_.Start(stage);
      while (first > 0 && load_.Add(first - 1)) --first;
      least_start_[stage] = first;
    }
    starts_.assign(stage_count_ + 1, {});
    starts_[stage_count_] = {layer_count_};
  }

  bool EveryLayerFitsTheFirstStage() {
    for (int layer = 0; layer < layer_count_; ++layer) {
      load_.Start(0);
      if (!load_.Add(layer)) return false;
    }
    return true;
  }

  // Finds the layers from which stages `stage` and later can hold the rest, given the result for
  // the next stage. The shortest possible stage decides.
  void FindStarts(int stage) {
    const std::vector<int>& next_starts = starts_[stage + 1];
    const int last = layer_count_ - (stage_count_ - stage);
    for (int first = std::max(least_start_[stage], stage); first <= last; ++first) {
      const auto next = std::upper_bound(next_starts.begin(), next_starts.end(), first);
      if (next == next_starts.end()) break;
      load_.Start(stage);
      int end = first;
      while (end < *next && load_.Add(end)) ++end;
      if (end == *next) starts_[stage].push_back(first);
    }
  }

  bool CanStart(int stage, int first) const {
    if (stage == stage_count_) return first == layer_count_;
    if (all_starts_) {
      return first >= least_start_[stage] && first <= layer_count_ - (stage_count_ - stage);
    }
    return std::binary_search(starts_[stage].begin(), starts_[stage].end(), first);
  }

  Load load_;
  const int layer_count_;
  const int stage_count_;
  std::vector<int> least_start_;
  // [stage] possible first layers, ascending; unused if `all_starts_`.
  std::vector<std::vector<int>> starts_;
  bool all_starts_ = false;
};

class TimeLoad {
 public:
  TimeLoad(const std::vector<int64_t>& layer_ticks, int64_t limit)
      : layer_ticks_(layer_ticks), limit_(limit) {}
  void Start(int) { total_ = 0; }
  bool Add(int layer) {
    total_ += layer_ticks_[layer];
    return total_ <= limit_;
  }

 private:
  const std::vector<int64_t>& layer_ticks_;
  int64_t limit_;
  int64_t total_ = 0;
};

class MemoryLoad {
 public:
  MemoryLoad(absl::Span<const int> kind_of_layer, const LeastMemory& memory, int64_t limit)
      : kind_of_layer_(kind_of_layer), memory_(memory), limit_(limit) {}

  void Start(int stage) {
    stage_ = stage;
    totals_.clear();
    for (Bytes cap : memory_.caps) totals_.push_back(cap.count());
  }

  bool Add(int layer) {
    const std::vector<Bytes>& kept = (*memory_.kept[stage_])[kind_of_layer_[layer]];
    bool fits = false;
    for (size_t cap = 0; cap < totals_.size(); ++cap) {
      if (totals_[cap] > limit_) continue;
      if (kept[cap].count() > limit_ - totals_[cap]) {
        totals_[cap] = Bytes::Max().count();
        continue;
      }
      totals_[cap] += kept[cap].count();
      fits = true;
    }
    return fits;
  }

 private:
  absl::Span<const int> kind_of_layer_;
  const LeastMemory& memory_;
  int64_t limit_;
  int stage_ = 0;
  std::vector<int64_t> totals_;
};

}  // namespace

Partition EvenSplit(absl::Span<const char> is_transformer, int stage_count) {
  const int layer_count = static_cast<int>(is_transformer.size());
  PARPLAN_CHECK(stage_count >= 1 && stage_count <= layer_count);
  std::vector<int> counted;
  for (int layer = 0; layer < layer_count; ++layer) {
    if (is_transformer[layer]) counted.push_back(layer);
  }
  if (static_cast<int>(counted.size()) < stage_count) {
    counted.resize(layer_count);
    std::iota(counted.begin(), counted.end(), 0);
  }
  const int base = static_cast<int>(counted.size()) / stage_count;
  const int left_over = static_cast<int>(counted.size()) % stage_count;
  std::vector<int> shares(stage_count, base);
  for (int index = 0; index < left_over; ++index) {
    shares[stage_count - 2 - index] += 1;
  }
  std::vector<int> ends;
  int taken = 0;
  for (int share : shares) {
    taken += share;
    ends.push_back(counted[taken - 1] + 1);
  }
  ends.back() = layer_count;
  return FromEnds(ends);
}

Partition TimeBalancedSplit(absl::Span<const Seconds> layer_times, const Partition& preferred) {
  const TickScale scale(std::accumulate(layer_times.begin(), layer_times.end(), Seconds()));
  std::vector<int64_t> ticks;
  for (Seconds time : layer_times) ticks.push_back(scale.ToTicks(time));
  const auto split_within = [&](int64_t limit) {
    return Splitter<TimeLoad>(TimeLoad(ticks, limit), static_cast<int>(ticks.size()),
                              static_cast<int>(preferred.size()));
  };
  int64_t too_small = -1;
  int64_t enough = std::accumulate(ticks.begin(), ticks.end(), int64_t{0});
  while (enough - too_small > 1) {
    const int64_t middle = too_small + (enough - too_small) / 2;
    (split_within(middle).Solve() ? enough : too_small) = middle;
  }
  Splitter<TimeLoad> splitter = split_within(enough);
  PARPLAN_CHECK(splitter.Solve());
  return splitter.ClosestTo(preferred);
}

Bytes LeastMemoryOf(absl::Span<const int> kind_of_layer, const LeastMemory& memory,
                    const Partition& partition) {
  Bytes fullest;
  int end = 0;
  for (size_t stage = 0; stage < partition.size(); ++stage) {
    const int first = end;
    end += partition[stage];
    Bytes least = Bytes::Max();
    for (size_t cap = 0; cap < memory.caps.size(); ++cap) {
      Bytes sum = memory.caps[cap];
      for (int layer = first; layer < end && sum != Bytes::Max(); ++layer) {
        const Bytes kept = (*memory.kept[stage])[kind_of_layer[layer]][cap];
        sum = kept == Bytes::Max() ? kept : sum + kept;
      }
      least = std::min(least, sum);
    }
    fullest = std::max(fullest, least);
  }
  return fullest;
}

std::optional<Partition> MemoryLimitedSplit(absl::Span<const int> kind_of_layer,
                                            const LeastMemory& memory, Bytes limit,
                                            const Partition& preferred) {
  Splitter<MemoryLoad> splitter(MemoryLoad(kind_of_layer, memory, limit.count()),
                                static_cast<int>(kind_of_layer.size()),
                                static_cast<int>(preferred.size()));
  if (!splitter.Solve()) return std::nullopt;
  return splitter.ClosestTo(preferred);
}

std::optional<MemoryBalancedPartition> MemoryBalancedSplit(
    absl::Span<const int> kind_of_layer, const LeastMemory& memory, const Partition& preferred,
    const std::function<bool(int64_t)>& work) {
  const auto fits = [&](int64_t limit) {
    return Splitter<MemoryLoad>(MemoryLoad(kind_of_layer, memory, limit),
                                static_cast<int>(kind_of_layer.size()),
                                static_cast<int>(preferred.size()))
        .Solve();
  };
  // A partition that is known suffices, and saves a third of the halvings. Else more than any stage
  // needs, and far from overflow.
  int64_t enough = int64_t{1} << 60;
  if (const Bytes known = LeastMemoryOf(kind_of_layer, memory, preferred); known != Bytes::Max()) {
    enough = known.count();
  } else if (!fits(enough)) {
    return std::nullopt;
  }
  int64_t too_small = -1;
  const auto sums = static_cast<int64_t>(kind_of_layer.size() * memory.caps.size());
  while (enough - too_small > 1) {
    if (work && !work(sums)) return std::nullopt;
    const int64_t middle = too_small + (enough - too_small) / 2;
    (fits(middle) ? enough : too_small) = middle;
  }
  const Bytes largest = Bytes::Of(enough);
  return MemoryBalancedPartition{*MemoryLimitedSplit(kind_of_layer, memory, largest, preferred),
                                 largest};
}

}  // namespace parplan
