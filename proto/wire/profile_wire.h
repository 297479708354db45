// Stored profiles and the snapshot the planner reads.

#ifndef PARPLAN_PROTO_WIRE_PROFILE_WIRE_H_
#define PARPLAN_PROTO_WIRE_PROFILE_WIRE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Checks every rule of profile.proto; fields marked "Output only" are not
// looked at. INVALID_ARGUMENT (PROFILE_INVALID) naming the first broken field
// in `field` and `rule` of its metadata, with a path such as
// `layer_timings[3].forward_duration` below `field`; the message lists the
// first ten, one a line, and says how many more there are.
//
// `field` is put in front of every path; empty for paths from the profile on.
absl::Status ValidateProfile(const v1::Profile& profile, absl::string_view field = "");

// One snapshot from all profiles of nodes with `device_kind` and
// `devices_per_node`; the others are left out.
//
//   newest_first   profiles that passed `ValidateProfile`, newest first
//
// For every measured key the newest value is kept: layers are matched by
// `SameLayer` and precision, whatever their local ids; their timings by
// (tensor_parallel_degree, sequence_length, micro_batch_size), their memories
// by (tensor_parallel_degree, sequence_parallel, sequence_length), collectives
// by (collective, participant_count, rank_stride, message_size_bytes), and
// `overlap_slowdown` and `context_memory_bytes` each by itself. So one profile
// uploaded in two halves gives the snapshot of the whole, and its digest
// (digest.h) depends neither on the order of points nor on local ids.
//
// FAILED_PRECONDITION (PROFILE_MISSING) when no profile is left, saying which
// kinds of node have been measured. INVALID_ARGUMENT (PROFILE_INVALID) for a
// profile that never passed `ValidateProfile`.
absl::StatusOr<ProfileSnapshot> MergeProfiles(absl::Span<const v1::Profile* const> newest_first,
                                              absl::string_view device_kind, int devices_per_node);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROFILE_WIRE_H_
