// Merges profiles one by one, so that those of many nodes need not be in memory together.
// `SnapshotOfNodes` and the server's `ProfileKeeper` use it.
//
//   SnapshotBuilder builder("NVIDIA A100", 8, "parplan");
//   for (const v1::Profile& profile : newest_first) {
//     PARPLAN_RETURN_IF_ERROR(builder.Add(profile).status());
//   }
//   PARPLAN_ASSIGN_OR_RETURN(const ProfileSnapshot snapshot, builder.Finish());

#ifndef PARPLAN_PROTO_WIRE_SNAPSHOT_BUILDER_H_
#define PARPLAN_PROTO_WIRE_SNAPSHOT_BUILDER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// The snapshot that `SnapshotOfNodes` (part_of_node.h) makes of the profiles that were added. Used
// by one thread.
//
// The newest value of every measured key is kept. Layers are matched by `SameLayer` and precision,
// whatever their local ids; their timings by (tensor_parallel_degree, sequence_length,
// micro_batch_size), their memories by (tensor_parallel_degree, sequence_parallel,
// sequence_length), collectives by (collective, participant_count, rank_stride,
// message_size_bytes), optimizer steps by (optimizer, precision, parameter_count), and
// `overlap_slowdown` and `context_memory_bytes` each by itself, the latter with
// `communicator_memory_bytes` of the same profile. So a profile that is uploaded in two halves
// gives the snapshot of the whole, and its digest (digest.h) depends neither on the order of points
// nor on local ids.
class SnapshotBuilder {
 public:
  // The arguments are those of the question: the kind of device, the devices that its job gets of
  // each node, and its runtime (`RuntimeTraits`).
  SnapshotBuilder(absl::string_view device_kind, int devices_per_node,
                  absl::string_view runtime_id);
  ~SnapshotBuilder();

  // Adds the next older profile, of any kind of node, which is used only during the call. Returns
  // whether it or a part of it holds for the runtime; false for another kind of device. REQUIRES:
  // it passed `ValidateProfile`. INVALID_ARGUMENT (PROFILE_INVALID) for some that did not, after
  // which the builder must be destroyed; others are taken, since parts that do not hold and values
  // whose key is known are not looked at.
  absl::StatusOr<bool> Add(const v1::Profile& profile);

  // Returns the size of the nodes whose measurements the snapshot has, by the profiles added so
  // far: the smallest one of which `devices_per_node` is a part, else `devices_per_node` itself.
  int measured_size() const;

  // Returns the snapshot, or the errors of `SnapshotOfNodes`: PROFILE_MISSING also if no profile
  // was added. To be called once.
  absl::StatusOr<ProfileSnapshot> Finish();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_SNAPSHOT_BUILDER_H_
