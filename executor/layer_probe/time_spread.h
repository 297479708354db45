// What repeated measurements say: their middle, their spread, and whether there are enough.

#ifndef PARPLAN_EXECUTOR_LAYER_PROBE_TIME_SPREAD_H_
#define PARPLAN_EXECUTOR_LAYER_PROBE_TIME_SPREAD_H_

#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace parplan {

struct TimeSpread {
  absl::Duration median;
  absl::Duration p10;
  absl::Duration p90;
  int sample_count = 0;
};

// Percentiles by the nearest rank, the median of an even number the mean of the two in the
// middle. All zero of no samples.
TimeSpread SpreadOf(absl::Span<const absl::Duration> samples);

// Half the width of the interval in which the median of the source lies with 95 %
// probability, whatever its distribution: from the order of the samples alone. Infinite for
// fewer than six.
absl::Duration MedianUncertainty(absl::Span<const absl::Duration> samples);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_LAYER_PROBE_TIME_SPREAD_H_
