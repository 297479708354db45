// Median and spread of repeated measurements, and whether there are enough of them. The probes of
// layers, devices and collectives ask it.

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

// Returns percentiles by nearest rank; the median of an even number is the mean of the two in the
// middle. All zero without samples.
TimeSpread SpreadOf(absl::Span<const absl::Duration> samples);

// Returns half the width of the interval that contains the median of the distribution with 95 %
// probability, from order statistics, so for any distribution. Infinite for fewer than six samples.
absl::Duration MedianUncertainty(absl::Span<const absl::Duration> samples);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_LAYER_PROBE_TIME_SPREAD_H_
