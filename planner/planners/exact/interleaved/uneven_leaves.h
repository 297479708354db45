// Lists of interleaved plans whose partitions are too many to list: one leaf for each strategy of
// the definition with most layers and each number of virtual stages, ordered by a bound over all
// its partitions (uneven_bound.h). `SearchUneven` (uneven_search.h) simulates the most promising.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; a cutoff is a time
// that a plan must stay below to be wanted; virtual stages are the several stages of one device; a
// partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_LEAVES_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_LEAVES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/planners/exact/interleaved/interleaved_choices.h"
#include "planner/planners/exact/interleaved/uneven_bound.h"
#include "planner/planners/exact/interleaved/uneven_partition.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {

// The plans with one option of the major definition and one number of virtual stages.
struct UnevenLeaf {
  const MaskedOptions* masked = nullptr;
  int option = 0;
  int virtual_stage_count = 2;
  // Lower bounds of the step, with its overhead: that of partitions (`UnevenBound::Bound`), and the
  // larger of it and the priced one, which is the same for many leaves.
  double partition_bound = 0.0;
  double bound = 0.0;
  // The best of the first partitions: bytes above the memory, and seconds.
  UnevenScore score;
  UnevenPartition partition;
  // [definition]
  std::vector<int> options;
  int64_t group_size = 0;
};

// The leaves to search, and a bound of all that there are.
struct ListedLeaves {
  // The least first.
  std::vector<UnevenLeaf> leaves;
  // Lower bound of the step of all leaves, with its overhead; infinite if none is below the cutoff.
  double bound = kInfinity;
};

// Lists the at most `most` leaves of the least bounds below the cutoff of `finds`. If `meter`
// stops, the bound is 0, because some leaves have not been bounded.
//
//   masks                  none is null, and each is usable; they must outlive the result
//   virtual_stage_counts   numbers of stages of one device, ascending, at least 2
//   group_size             `Plan::micro_batch_group_size`; if above 0 the bounds hold for all sizes
//                          there are
ListedLeaves LeavesOf(const PipelineSetting& setting,
                      const std::vector<const MaskedOptions*>& masks,
                      const std::vector<int>& virtual_stage_counts, int64_t group_size,
                      const InterleavedFinds& finds, size_t most, SearchMeter& meter);

// Returns the least bound, in seconds and with the overhead of a step, of the plans with options of
// `masked` and any partition into one of the ascending numbers of virtual stages, with the memory
// of the setting's micro-batches and steps of `micro_batch_count`; `cutoff` if that is less, or if
// there are no numbers. The limit of passes is not asked (`FitsPassLimit`). REQUIRES, unchecked:
// `masked.usable`; `bound` is for the model and the pipeline degree of `setting`.
double LeastUnevenBound(const PipelineSetting& setting, const MaskedOptions& masked,
                        const UnevenBound& bound, const std::vector<int>& virtual_stage_counts,
                        int64_t micro_batch_count, double cutoff);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_LEAVES_H_
