// The best interleaved plan of one pipeline degree and micro-batch count.
//
// Every definition has one strategy throughout (docs/search.md). Plans of even partitions, or of
// all if there are few, are enumerated, and each is simulated unless a bound excludes it. Those of
// all other partitions are searched by uneven_search.h, in large spaces apart from the others.
// Groups of more micro-batches than the pipeline degree are searched apart, at the end; only
// functions with "GroupSize" in their name cover them. `BestFirstSearch` calls the searches; the
// list of candidates and `SteadyBound` call the bounds.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a meter
// counts states and says when a search must end (search_meter.h); a candidate is all plans of one
// batch size, pipeline degree, number of micro-batches and schedule; an option is a strategy of a
// layer definition with its costs (option_table.h); virtual stages are the several stages of one
// device.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/interleaved_paths.h"
#include "planner/planners/exact/interleaved/uneven_bound.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"

namespace parplan {

// Number of definitions up to which combinations of options are enumerated; interleaved plans of
// models with more are rounded from prices (interleaved_rounding.h), and those of partitions that
// are searched apart are bounded only.
inline constexpr size_t kMaxDefinitionsChosen = 12;

// Lower bounds for all micro-batch counts of one pipeline degree, regardless of memory. Keeps no
// reference. REQUIRES, unchecked: `least` is usable and of this degree, and the micro-batch count
// is a multiple of the degree, except for `GroupSizeBound`.
class InterleavedBounds {
 public:
  InterleavedBounds(const StrategySpace& space, int pipeline_parallel_degree);

  // Returns a lower bound of the step, without its overhead, for any number of virtual stages.
  // Infinite if there is no plan, or if each has too many passes (`FitsPassLimit`).
  Seconds Bound(const LeastTimes& least, int64_t micro_batch_count) const;
  // Returns the same for the partitions that are not listed, which `Bound` leaves out if the space
  // searches them apart.
  Seconds UnevenBound(const LeastTimes& least, int64_t micro_batch_count) const;
  // Returns the same for all partitions, with groups of any size above the pipeline degree.
  Seconds GroupSizeBound(const LeastTimes& least, int64_t micro_batch_count) const;

 private:
  struct Partition {
    int stage_count = 0;
    InterleavedPaths paths;
  };
  double QuickUneven(const DefinitionTimes& times, int64_t micro_batch_count) const;

  std::vector<Partition> partitions_;
  // Set if there are partitions that are not listed.
  std::optional<class UnevenBound> uneven_;
  int fewest_uneven_stages_ = 0;
  bool is_uneven_apart_ = false;
};

// Returns a lower bound of the step of the candidate's plans that fit, or `cutoff` if that is less;
// here and in all functions below, both include the overhead of a step, and groups are as large as
// the pipeline degree unless the name says otherwise. Leaves out partitions that the space searches
// apart. Tries each option of the definition with most layers, with the least time and memory of
// the others. Infinite if memory never suffices and `cutoff` is infinite; `cutoff` if there are no
// partitions. 0 if the meter stopped. REQUIRES, unchecked: as `SearchInterleaved`.
Seconds InterleavedMemoryBound(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const PipelineCandidate& candidate,
                               Seconds cutoff, SearchMeter& meter);

// Returns the same for some partitions of the degree of `table` and steps of `micro_batch_count`
// micro-batches, even beyond the space's limit of passes, with the memory that the smallest number
// needs, which is the pipeline degree. More micro-batches need no less: at each moment of the first
// backward passes of all chunks, which are the moments that count, at least as many forward passes
// have run.
Seconds InterleavedSteadyBound(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const InterleavedPartitions& partitions,
                               int64_t micro_batch_count, Seconds cutoff, SearchMeter& meter);

// Searches as `SearchPipeline` does, over all numbers of virtual stages, except for partitions that
// the space searches apart. The bound of the outcome is at most the step of its best plan, and 0 if
// the meter stopped before all masks of options were bounded. The outcome is not exact if the
// limits of one candidate, which grow with `SearchMeter::effort`, left something: on choices of
// options, on passes of simulated schedules, and on plans of partitions that are not listed. The
// candidate's schedule is not read. REQUIRES, unchecked: the degree is above 1 and divides the
// micro-batch count; `table` as for `SearchPipeline`.
PipelineOutcome SearchInterleaved(const StrategySpace& space, const CostModel& costs,
                                  const OptionTable& table, const PipelineCandidate& candidate,
                                  Seconds cutoff, int wanted, SearchMeter& meter);

// Searches the plans of the candidate's partitions that are not listed, for spaces that search them
// apart (interleaved_partitions.h). Simulates plans while `looks_left` is above 0 and counts them
// off, one of many virtual stages as several, so that it may end below 0. The bound of the outcome
// is the lesser of `cutoff` and that of all those partitions, or 0 if the meter stopped too early;
// `is_exact` of the outcome means nothing. With `looks_left` 0 it only bounds. If there are no such
// partitions, the bound is `cutoff`. REQUIRES, unchecked: as `SearchInterleaved`.
PipelineOutcome SearchUnevenStages(const StrategySpace& space, const CostModel& costs,
                                   const OptionTable& table, const PipelineCandidate& candidate,
                                   Seconds cutoff, int wanted, int64_t& looks_left,
                                   SearchMeter& meter);

// Searches the plans of the candidate, of any partition, with groups of more micro-batches than the
// pipeline degree. Simulates plans of partitions that are not listed while `looks_left` is above 0
// and counts them off, as `SearchUnevenStages` does; those of listed ones have the limits of
// `SearchInterleaved`. Of many sizes some are tried (`GroupSizesOf`), and the bound holds for all.
// The bound of the outcome is the lesser of `cutoff` and that of all such plans. If the model has
// more than `kMaxDefinitionsChosen` definitions, none is looked at: the bound is 0, and `is_exact`
// means nothing. REQUIRES, unchecked: `HasGroupSizes` (group_sizes.h) is true of the candidate, and
// the option table is as for `SearchInterleaved`; the micro-batch count may be any.
PipelineOutcome SearchGroupSizes(const StrategySpace& space, const CostModel& costs,
                                 const OptionTable& table, const PipelineCandidate& candidate,
                                 Seconds cutoff, int wanted, int64_t& looks_left,
                                 SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_SEARCH_H_
