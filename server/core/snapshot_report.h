// What is told of measurements that plans rest on.

#ifndef PARPLAN_SERVER_CORE_SNAPSHOT_REPORT_H_
#define PARPLAN_SERVER_CORE_SNAPSHOT_REPORT_H_

#include <vector>

#include "absl/time/time.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/profile_snapshot.h"
#include "server/core/observer.h"

namespace parplan {

// When a profile was measured; when it was stored where its agent did not say.
absl::Time MeasureTime(const v1::Profile& profile);

// For each collective and reach that was measured, the best bus bandwidth over all shapes of
// groups at the largest message of each. In the order of their enums.
std::vector<MeasuredBandwidth> BandwidthsOf(const ProfileSnapshot& snapshot, int devices_per_node);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SNAPSHOT_REPORT_H_
