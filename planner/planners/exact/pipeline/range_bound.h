// Least times of a range of layers as one stage within its memory, quickly.
//
// A Lagrangian relaxation: memory is bought at a price, each layer then takes its best
// option by itself, and any price gives a bound. Prices are few and those that are best
// for stages of a reference partition, so a range costs a few additions for each of its
// runs, or for one layer more than the range before. What only exists while a layer runs
// counts with the least of each definition, layouts not at all.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_RANGE_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_RANGE_BOUND_H_

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"
#include "planner/search/stage/stage_front.h"

namespace parplan {

// Bounds of weighted sums of a stage's forward, backward and synchronisation, in seconds.
struct RangeTimes {
  // One micro-batch there and back.
  double way = 0.0;
  // The same and the synchronisation.
  double way_and_sync = 0.0;
  // All micro-batches and the synchronisation.
  double work = 0.0;
  // (m - in flight + 1) forward and m backward passes: what a stage does besides the round
  // trip of the first micro-batch behind it.
  double uneven = 0.0;
  // One forward pass.
  double forward = 0.0;
};

// Keeps references to its arguments; not to be used by two threads at once.
class RangeBounds {
 public:
  static constexpr int kPriceCount = 4;
  static constexpr int kWeightCount = 4;
  static constexpr int kSumCount = kPriceCount * kWeightCount;

  // Sums over layers. Infinite sums never come down again: some definition has no option.
  struct Sums {
    std::array<double, kSumCount> relaxed = {};
    double forward = 0.0;
    double memory = 0.0;
    double transient = 0.0;
  };

  // `boundaries` of a reference partition. Options that are not in `allowed` (empty: all)
  // do not exist.
  RangeBounds(const PipelineSetting& setting, const OptionMask& allowed,
              absl::Span<const int> boundaries);

  // Adds `count` layers of a definition to sums for stage `stage`.
  void Add(int stage, int definition, int count, Sums& sums) {
    const Sums& one = MinimaOf(flight_of_stage_[stage], definition);
    const double times = count;
    for (int k = 0; k < kSumCount; ++k) sums.relaxed[k] += one.relaxed[k] * times;
    sums.forward += one.forward * times;
    sums.memory += one.memory * times;
    sums.transient = sums.transient < one.transient ? one.transient : sums.transient;
  }
  // Of layers [first, end).
  Sums SumsOf(int stage, int first_layer, int end_layer);

  // Whether layers of such sums cannot be one stage; more layers cannot either.
  bool TooMuch(const Sums& sums) const { return sums.memory + sums.transient > budget_; }
  // REQUIRES: !TooMuch(sums).
  RangeTimes Times(int stage, const Sums& sums) const;

 private:
  // What a definition weighs under each of the weights, at no price for memory first.
  struct Item {
    double weighted[kWeightCount];
    double forward;
    double memory;
    double transient;
  };
  struct Flight {
    int64_t in_flight = 1;
    // [weight][price] seconds a byte, the first 0.
    std::array<std::array<double, kPriceCount>, kWeightCount> prices = {};
  };

  std::vector<Item> ItemsOf(int definition, int64_t in_flight) const;
  double BestPrice(absl::Span<const DefinitionRun> runs, int weight,
                   absl::Span<const std::vector<Item>> items) const;
  void SetPrices(absl::Span<const int> boundaries);
  const Sums& MinimaOf(int flight, int definition) {
    int32_t& index = index_of_minima_[flight * definition_count_ + definition];
    if (index < 0) index = FindMinima(flight, definition);
    return minima_[index];
  }
  int32_t FindMinima(int flight, int definition);

  const PipelineSetting& setting_;
  const OptionMask& allowed_;
  const double budget_;
  // Numbers of micro-batches in flight, each once, with what follows from it.
  std::vector<Flight> flights_;
  std::vector<int> flight_of_stage_;
  const int definition_count_;
  // [flight * definitions + definition] of `minima_`, which are found when they are asked
  // for; -1 before.
  std::vector<int32_t> index_of_minima_;
  std::deque<Sums> minima_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_RANGE_BOUND_H_
