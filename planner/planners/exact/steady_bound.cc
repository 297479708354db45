#include "planner/planners/exact/steady_bound.h"

#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"

namespace parplan {
namespace {

// Number of micro-batches that stands for infinitely many.
constexpr int64_t kManyMicroBatches = int64_t{1} << 45;
// Relative error allowed for the terms of a step that do not grow with the number of micro-batches.
// They are smaller: a plan whose round trip or synchronisation took a larger share would by that
// alone take longer than any step of `kMaxForwardPassCount` passes.
constexpr double kShareBesides = 1e-6;

// Returns a bound per micro-batch from `bound_of`, which returns a bound of a step of so many
// micro-batches through `depth` stages, or the cutoff that it is given.
template <typename Bound>
Seconds PerMicroBatch(int depth, Seconds cutoff, const Bound& bound_of) {
  // A multiple of the degree, as interleaved schedules require.
  const int64_t micro_batch_count = kManyMicroBatches / depth * depth;
  const auto count = static_cast<double>(micro_batch_count);
  // Enlarged so that the allowed error does not keep a bound from reaching `cutoff`.
  const Seconds total_cutoff = cutoff * (count * (1.0 + 2.0 * kShareBesides));
  return bound_of(micro_batch_count, total_cutoff) * ((1.0 - kShareBesides) / count);
}

}  // namespace

Seconds SteadyBound(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                    Schedule schedule, Seconds cutoff, SearchMeter& meter) {
  const int depth = table.pipeline_parallel_degree();
  return PerMicroBatch(depth, cutoff, [&](int64_t micro_batch_count, Seconds total_cutoff) {
    // The bound does not depend on the batch size.
    return TraitsOf(schedule).has_virtual_stages
               ? InterleavedSteadyBound(space, costs, table, SearchedPartitionsOf(space, depth),
                                        micro_batch_count, total_cutoff, meter)
               : PipelineBound(space, costs, table,
                               {.micro_batch_count = micro_batch_count,
                                .pipeline_parallel_degree = depth,
                                .schedule = schedule},
                               total_cutoff, meter);
  });
}

Seconds UnevenSteadyBound(const StrategySpace& space, const CostModel& costs,
                          const OptionTable& table, Seconds cutoff, SearchMeter& meter) {
  const int depth = table.pipeline_parallel_degree();
  const InterleavedPartitions partitions = {.listed = {},
                                            .unlisted = UnlistedVirtualStageCounts(space, depth)};
  return PerMicroBatch(depth, cutoff, [&](int64_t micro_batch_count, Seconds total_cutoff) {
    return InterleavedSteadyBound(space, costs, table, partitions, micro_batch_count, total_cutoff,
                                  meter);
  });
}

}  // namespace parplan
