// Finds collectives whose times in running jobs differ from the stored profile. The daemon compares
// with it what `WindowSpool` took, and measures drifted shapes again.

#ifndef PARPLAN_PROFILER_AGENT_DRIFT_FIND_DRIFT_H_
#define PARPLAN_PROFILER_AGENT_DRIFT_FIND_DRIFT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// How far times must be off, and in how many operations, to count as drifted.
struct DriftOptions {
  // Relative widening of the stored range at both ends. The stored range reaches from median / r to
  // median * r, where r is the ratio of the 90th percentile to the median, 1 if the profile has no
  // percentile. Not measured: 0.1 was chosen as more than the spread between two measurements of a
  // free node.
  double tolerance = 0.1;
  // Operations that must have been seen at one size of a shape before it is judged.
  int64_t min_sample_count = 20;
};

// A shape of collective whose times have drifted from the stored ones.
struct Drift {
  v1::Collective collective = v1::COLLECTIVE_UNSPECIFIED;
  // Ranks of a group, and the distance in ranks between neighbours.
  int participant_count = 0;
  int rank_stride = 0;
  // Time seen divided by time stored, at the message size that is farthest out of range. Above 1 is
  // slower; the time seen is then one that nine tenths of the operations reach, else the median.
  double ratio = 1.0;
};

// Returns the shapes in `stored` whose times in `passive` are out of range, ordered by (collective,
// participants, stride).
//
// Ranks wait for one another within a job, so passive times include waiting. A shape therefore
// counts as slower only if nine tenths of the operations seen at one size are above the range, and
// as faster if half of them are below it. A size between two measured sizes is compared with a
// log-log interpolation between them. Up to half the smallest measured size the time of the
// smallest is taken, up to twice the largest a time in proportion to the size. Sizes beyond these
// are ignored, as are shapes that were never measured and timings whose median is not above 0. Each
// timing counts as its number of samples, at least one, at its median.
std::vector<Drift> FindDrift(const v1::Profile& stored,
                             absl::Span<const v1::CollectiveTiming> passive,
                             const DriftOptions& options = {});

// Returns the largest ratio between passive median and stored median, in either direction, over
// everything that can be compared, however few its samples; 1 if nothing can.
double LargestDriftRatio(const v1::Profile& stored, absl::Span<const v1::CollectiveTiming> passive);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DRIFT_FIND_DRIFT_H_
