// A cluster of two devices, measured, and a question about it: small enough to
// read, whole enough to be planned for.

#ifndef PARPLAN_TESTS_SERVER_RPC_SMALL_WORLD_H_
#define PARPLAN_TESTS_SERVER_RPC_SMALL_WORLD_H_

#include <string>

#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

inline constexpr char kCluster[] = "clusters/lab";
inline constexpr char kNode[] = "clusters/lab/nodes/node-0";

// Four decoder layers.
v1::ModelSpec SmallModel();

// One node of two devices of 16 GiB.
v1::ClusterTopology SmallTopology();

// Every figure a plan of `SmallModel` on `SmallTopology` needs.
v1::Profile SmallProfile();

// Asks for a plan of batch 8.
v1::CreatePlanRequest SmallQuestion();

// Asks what two such devices could do.
v1::ShapePlanRequest SmallShapeQuestion();

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_RPC_SMALL_WORLD_H_
