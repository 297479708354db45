// Whether what jobs measure in passing is still what is stored.

#ifndef PARPLAN_PROFILER_AGENT_DRIFT_FIND_DRIFT_H_
#define PARPLAN_PROFILER_AGENT_DRIFT_FIND_DRIFT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

struct DriftOptions {
  // The stored range, from its 90th percentile mirrored at the median up to that, is made wider
  // by this on either side.
  double tolerance = 0.1;
  // Operations that a shape must have been seen with.
  int64_t min_sample_count = 20;
};

// Collectives of one shape that take another time than is stored.
struct Drift {
  v1::Collective collective = v1::COLLECTIVE_UNSPECIFIED;
  int participant_count = 0;
  int rank_stride = 0;
  // Of the times seen to those stored, at the size that is farthest out of range.
  double ratio = 1.0;
};

// Of the collectives in `stored`, those that `passive` finds out of range, in the order
// (collective, participants, stride).
//
// Passive times are of operations within jobs, in which ranks wait for one another. So a shape
// is slower only when nine tenths of what was seen at a size are above the range, and faster
// when half is below. Sizes between two that were measured are compared with what lies between
// on a line of logarithms; sizes more than twice beyond the ends, and shapes that were never
// measured, with nothing.
std::vector<Drift> FindDrift(const v1::Profile& stored,
                             absl::Span<const v1::CollectiveTiming> passive,
                             const DriftOptions& options = {});

// The largest ratio of seen to stored, or of stored to seen, over all that can be compared, by
// the passive median; 1 where nothing can be.
double LargestDriftRatio(const v1::Profile& stored, absl::Span<const v1::CollectiveTiming> passive);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DRIFT_FIND_DRIFT_H_
