// Median and spread of repeated measurements, and how well the samples determine the median. The
// probes of layers and collectives measure on until it is certain enough:
//
//   if (MedianUncertainty(samples) <= SpreadOf(samples).median * precision) break;
//
// Pure functions; samples may come in any order.

#ifndef PARPLAN_EXECUTOR_LAYER_PROBE_TIME_SPREAD_H_
#define PARPLAN_EXECUTOR_LAYER_PROBE_TIME_SPREAD_H_

#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace parplan {

// All zero without samples.
struct TimeSpread {
  absl::Duration median;
  // The 10th and the 90th percentile by nearest rank, but never beyond the median.
  absl::Duration p10;
  absl::Duration p90;
  int sample_count = 0;
};

// Returns the spread of `samples`. The median of an even number is the mean of the two in the
// middle.
TimeSpread SpreadOf(absl::Span<const absl::Duration> samples);

// Returns half the width of an interval between two samples that contains the median of the
// distribution with a probability of about 95 % (94.7 to 98.9 %, by the number of samples),
// whatever the distribution. The sample median need not be in its middle, so it says how far to
// trust the median rather than bounds it on either side. Infinite for fewer than six samples: even
// the smallest and the largest of five enclose the median with less than 94 %.
absl::Duration MedianUncertainty(absl::Span<const absl::Duration> samples);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_LAYER_PROBE_TIME_SPREAD_H_
