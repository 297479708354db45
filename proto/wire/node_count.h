// Topologies of another number of nodes than a file names. `planctl --nodes` and the sidecar of a
// job whose number of nodes was recommended call it.

#ifndef PARPLAN_PROTO_WIRE_NODE_COUNT_H_
#define PARPLAN_PROTO_WIRE_NODE_COUNT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/topology.pb.h"

namespace parplan {

// Gives the only node group of `topology` that many nodes. The last link tier then reaches every
// device; a tier `fabric` is added to a topology that has none between nodes. Returns
// INVALID_ARGUMENT (SPEC_INVALID) naming `field`, for example `--nodes`, for a topology of several
// groups or of named nodes, and for too many devices. REQUIRES: `node_count` is at least 1.
absl::Status SetNodeCount(int node_count, absl::string_view field, v1::ClusterTopology* topology);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_NODE_COUNT_H_
