// Topologies of another number of nodes than a file names. `planctl --nodes` and the sidecar of a
// job whose number of nodes was recommended call it.

#ifndef PARPLAN_PROTO_WIRE_NODE_COUNT_H_
#define PARPLAN_PROTO_WIRE_NODE_COUNT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/topology.pb.h"

namespace parplan {

// Gives the only node group of `topology` that many nodes. If the last link tier reaches fewer
// devices than there are then, it is made to reach them all; but if it is the only tier, or one
// inside a node, a tier `fabric` that reaches them all is added behind it (`fabric-2` and so on if
// there is a tier of that name). A tier that reaches more stays as it is, and a topology without
// tiers gets none.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) naming `field`, for example `--nodes`, for a topology of
// several groups or of named nodes, and for more than 2^31 - 1 devices; `topology` is then as it
// was. `TopologyFromProto` checks the limit of the planner.
// REQUIRES: `node_count` is at least 1, which is not checked, and `topology` is not null.
absl::Status SetNodeCount(int node_count, absl::string_view field, v1::ClusterTopology* topology);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_NODE_COUNT_H_
