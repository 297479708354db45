#include "planner/planners/exact/steady_bound.h"

#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"

namespace parplan {
namespace {

// Micro-batches that go on for ever.
constexpr int64_t kManyMicroBatches = int64_t{1} << 45;
// More than what a step of so many has besides its limit: a plan of which a round trip or
// synchronisation took a larger share would by that alone take longer than any step of
// `kMaxForwardPassCount` passes at the limit.
constexpr double kShareBesides = 1e-6;

}  // namespace

Seconds SteadyBound(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                    Schedule schedule, Seconds most, SearchMeter& meter) {
  const int depth = table.pipeline_parallel_degree();
  // A multiple of the degree.
  const int64_t micro_batch_count = kManyMicroBatches / depth * depth;
  const auto count = static_cast<double>(micro_batch_count);
  // So that the share does not keep a bound from reaching `most`.
  const Seconds most_in_all = most * (count * (1.0 + 2.0 * kShareBesides));
  // The batch is no matter for bounds.
  const Seconds bound =
      TraitsOf(schedule).has_virtual_stages
          ? InterleavedSteadyBound(space, costs, table, micro_batch_count, most_in_all)
          : PipelineBound(space, costs, table,
                          {.micro_batch_count = micro_batch_count,
                           .pipeline_parallel_degree = depth,
                           .schedule = schedule},
                          most_in_all, meter);
  return bound * ((1.0 - kShareBesides) / count);
}

}  // namespace parplan
