// Finds profiles that measure the same things, so that older ones need not be read. The server
// stores the coverage of each profile (`ProfileRecord::coverage`).

#ifndef PARPLAN_PROTO_WIRE_PROFILE_COVERAGE_H_
#define PARPLAN_PROTO_WIRE_PROFILE_COVERAGE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// Returns a digest of what a profile measures and under which runtime and libraries, without the
// values: 64 hexadecimal digits.
//
// A snapshot keeps the newest value of each key, and a profile holds for a runtime or not by its
// libraries. Of profiles with equal coverages the newest therefore decides alone: a snapshot
// (`SnapshotBuilder`) of all profiles equals one of the newest profile of each coverage. Profiles
// with different coverages may measure the same, which costs time and changes nothing.
//
// The argument is taken apart, so that a large profile is not in memory twice.
std::string ProfileCoverage(v1::Profile profile);

// Returns a digest of the same for a serialized profile without parsing it, which is much faster:
// 64 hexadecimal digits. Profiles with equal shapes have equal coverages; the opposite does not
// hold, because the order of points, the release of the kernel and unknown fields count here.
// Absent if `bytes` do not follow the wire format of Protobuf. The values that are left out are not
// looked at, so they may be damaged.
std::optional<std::string> StoredProfileShape(absl::string_view bytes);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROFILE_COVERAGE_H_
