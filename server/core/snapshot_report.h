// Facts about measurements that are reported to the observer. Called by `ProfileKeeper` and its
// uploads.

#ifndef PARPLAN_SERVER_CORE_SNAPSHOT_REPORT_H_
#define PARPLAN_SERVER_CORE_SNAPSHOT_REPORT_H_

#include <vector>

#include "absl/time/time.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/profile_snapshot.h"
#include "server/core/observer.h"

namespace parplan {

// Returns when a stored profile was measured: what its agent said, but no later than it was stored,
// so that a clock that is ahead does not make measurements young for ever; when it was stored if
// the agent did not say.
absl::Time MeasureTime(const v1::Profile& profile);

// Returns, for each collective and reach that was measured, the best bus bandwidth over all shapes
// of groups, each at its largest message, by reach and then by collective. Pairs that were not
// measured are left out.
std::vector<MeasuredBandwidth> BandwidthsOf(const ProfileSnapshot& snapshot, int devices_per_node);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SNAPSHOT_REPORT_H_
