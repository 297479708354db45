// Checks of profiles. The server and planctl check what they are given, and the agent what it
// sends.

#ifndef PARPLAN_PROTO_WIRE_PROFILE_WIRE_H_
#define PARPLAN_PROTO_WIRE_PROFILE_WIRE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// Checks every rule of profile.proto, ignoring fields marked "Output only", and that `runtime_id`
// has at most 63 bytes (profile_rules.cc). INVALID_ARGUMENT (PROFILE_INVALID) if any is broken. The
// metadata names the first: its field's path in `field`, such as
// `layer_timings[3].forward_duration`, and the text of the rule in `rule`. The message lists the
// first ten, one per line, and the number of others. If `field` is not empty, every path begins
// with it and a dot. Safe to call from any thread.
absl::Status ValidateProfile(const v1::Profile& profile, absl::string_view field = "");

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROFILE_WIRE_H_
