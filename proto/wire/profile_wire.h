// Checks of profiles, and their merge into the snapshot that the planner reads. The server and
// planctl check what they are given, and the agent what it sends.

#ifndef PARPLAN_PROTO_WIRE_PROFILE_WIRE_H_
#define PARPLAN_PROTO_WIRE_PROFILE_WIRE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Checks every rule of profile.proto, ignoring fields marked "Output only". INVALID_ARGUMENT
// (PROFILE_INVALID) with the first broken field in `field` and `rule` of the metadata, with a path
// such as `layer_timings[3].forward_duration`. The message lists the first ten, one per line, and
// the number of others. `field`, if not empty, is the prefix of every path.
absl::Status ValidateProfile(const v1::Profile& profile, absl::string_view field = "");

// Merges all profiles of nodes with `device_kind` and `devices_per_node` into one snapshot,
// whatever their runtimes, and ignores the others. Tests and benchmarks call it; programs merge
// with `SnapshotOfNodes` or `SnapshotBuilder`, which choose by runtime first. Profiles are not null
// and used only during the call.
//
//   newest_first   profiles that passed `ValidateProfile`, newest first
//
// The newest value of every measured key is kept. Layers are matched by `SameLayer` and precision,
// whatever their local ids; their timings by (tensor_parallel_degree, sequence_length,
// micro_batch_size), their memories by (tensor_parallel_degree, sequence_parallel,
// sequence_length), collectives by (collective, participant_count, rank_stride,
// message_size_bytes), and `overlap_slowdown` and `context_memory_bytes` each by itself. So a
// profile that is uploaded in two halves gives the snapshot of the whole, and its digest (digest.h)
// depends neither on the order of points nor on local ids.
//
// FAILED_PRECONDITION (PROFILE_MISSING), listing the kinds of nodes that were measured, if no
// profile is left. INVALID_ARGUMENT (PROFILE_INVALID) for a profile that did not pass
// `ValidateProfile`.
absl::StatusOr<ProfileSnapshot> MergeProfiles(absl::Span<const v1::Profile* const> newest_first,
                                              absl::string_view device_kind, int devices_per_node);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROFILE_WIRE_H_
