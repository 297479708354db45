// Fast lower bounds of the times of a range of layers as one stage within its memory.
//
// A Lagrangian relaxation: memory has a price, each layer then takes its best option independently,
// and any price gives a bound. A few prices are used, the best ones for the stages of a reference
// partition, so a range costs a few additions per run, or per layer if it extends the previous
// range. Transient memory counts with the least of each definition; layouts are ignored. Used by
// `MaskSearch` and `PartitionGraph`.
//
// Words (docs/glossary.md): a price is the Lagrangian multiplier of memory, in seconds per byte; a
// meter counts states and says when a search must end (search_meter.h); an option is a strategy of
// a layer definition with its costs (option_table.h); a partition is the number of layers of each
// stage; micro-batches in flight have done their forward pass and not yet their backward pass.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_RANGE_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_RANGE_BOUND_H_

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"
#include "planner/search/stage/stage_front.h"

namespace parplan {

// Lower bounds of weighted sums of a stage's forward, backward and synchronisation, in seconds.
struct RangeTimes {
  // Forward and backward of one micro-batch.
  double forward_backward = 0.0;
  // The same plus the synchronisation.
  double forward_backward_sync = 0.0;
  // Forward and backward of all micro-batches plus the synchronisation.
  double work = 0.0;
  // (m - in flight + 1) forward and m backward passes: the work of a stage outside the round trip
  // of the first micro-batch through the later stages. Under GPipe the same as `forward_backward`.
  double uneven = 0.0;
  // One forward pass.
  double forward = 0.0;
};

// Computes the bounds. Keeps references to `setting` and `meter`, which must outlive it. Not
// thread-safe.
class RangeBounds {
 public:
  // Numbers of prices and weights. Each adds one addition per layer and range; more prices give
  // tighter bounds. Not measured for other numbers.
  static constexpr int kPriceCount = 4;
  static constexpr int kWeightCount = 4;
  static constexpr int kSumCount = kPriceCount * kWeightCount;

  // Sums over layers. An infinite sum means that some definition has no option that fits by itself.
  struct Sums {
    // [weight * kPriceCount + price] the least weighted time plus priced memory of any option; then
    // the least forward time and the least memory of any option by themselves, and the largest of
    // the least transients.
    std::array<double, kSumCount> relaxed = {};
    double forward = 0.0;
    double memory = 0.0;
    double transient = 0.0;
  };

  // `boundaries` is a reference partition (reference_partition.h). Only options in `allowed` are
  // considered; all if it is empty. Looks at options are counted on the meter, but bounds hold
  // after it has stopped too.
  RangeBounds(const PipelineSetting& setting, const OptionMask& allowed,
              absl::Span<const int> boundaries, SearchMeter& meter);

  // Adds `count` layers of a definition to the sums of stage `stage`, from 0; all that is added to
  // one `sums`, which is `Sums()` at first, must be of one stage.
  void Add(int stage, int definition, int count, Sums& sums) {
    const Sums& one = MinimaOf(flight_of_stage_[stage], definition);
    const double times = count;
    for (int k = 0; k < kSumCount; ++k) sums.relaxed[k] += one.relaxed[k] * times;
    sums.forward += one.forward * times;
    sums.memory += one.memory * times;
    sums.transient = sums.transient < one.transient ? one.transient : sums.transient;
  }
  // Returns the sums of layers [first, end).
  Sums SumsOf(int stage, int first_layer, int end_layer);

  // Returns whether layers of such sums need too much memory for one stage, with the largest budget
  // over all numbers of communicators; then more layers do too.
  bool TooMuch(const Sums& sums) const { return sums.memory + sums.transient > budget_; }
  // Returns the bounds of a stage with these sums. REQUIRES, unchecked: !TooMuch(sums).
  RangeTimes Times(int stage, const Sums& sums) const;

 private:
  // An option of a definition, with its time under each of the weights.
  struct Item {
    double weighted[kWeightCount];
    double forward;
    double memory;
    double transient;
  };
  struct Flight {
    int64_t in_flight = 1;
    // [weight][price] seconds per byte; the first price is 0.
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
  SearchMeter& meter_;
  // [definition] the allowed options.
  std::vector<std::vector<int>> allowed_;
  const double budget_;
  // Distinct numbers of micro-batches in flight, with their prices.
  std::vector<Flight> flights_;
  std::vector<int> flight_of_stage_;
  const int definition_count_;
  // [flight * definitions + definition] index into `minima_`; -1 until it is computed.
  std::vector<int32_t> index_of_minima_;
  std::deque<Sums> minima_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_RANGE_BOUND_H_
