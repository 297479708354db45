// Seconds of the durations in plans and answers, for JSON and tables. The views of plans and
// `planctl shape` call it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_DURATION_SECONDS_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_DURATION_SECONDS_H_

#include <google/protobuf/duration.pb.h>

namespace parplan::planctl {

// Returns the seconds of any duration; unlike `SecondsFromProto`, checks nothing.
inline double SecondsOf(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_DURATION_SECONDS_H_
