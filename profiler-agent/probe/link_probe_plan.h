// Makes the plan by which several nodes measure the links between them, and checks a plan that
// another node sent. The daemon of one node makes the plan for the nodes whose agents lend it their
// devices (daemon/link_probe.h), and each node checks the plan before it measures. Pure functions.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_LINK_PROBE_PLAN_H_
#define PARPLAN_PROFILER_AGENT_PROBE_LINK_PROBE_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "profiler-agent/probe/probe_plan.h"

namespace parplan {

// Returns the plan for collectives between `node_count` equal nodes of `request.rank_count` devices
// each. It has only groups with ranks on several nodes, and ignores `request.models`.
// INVALID_ARGUMENT (SPEC_INVALID) for fewer than two nodes, if `request.torch` is present, and for
// a request that `WholeProbe` (probe_plan.h) refuses.
absl::StatusOr<agent::v1::ProbePlan> LinkProbePlan(const ProbeRequest& request, int node_count);

// The limits of a plan for links that another node sent and this node is to measure by.
struct LinkProbeBounds {
  // Back end and number of devices of this node, and number of nodes that take part. A plan must
  // have exactly these, so a caller sets all three.
  std::string backend = "cpu";
  int devices_per_node = 1;
  int node_count = 2;
  // Largest message, in bytes; a rank holds a few buffers of it. The default is 16 times that of
  // `ProbeRequest::largest_message_bytes`. An agent whose own request has messages above the bound
  // raises it to those, and agents with the default then refuse its plans.
  int64_t max_message_bytes = int64_t{1} << 30;
  // Largest `time_budget` and `collective_time_limit`. The default is 20 times that of
  // `ProbeRequest::time_budget`.
  absl::Duration max_time_budget = absl::Hours(1);
};

// Returns OK if the plan measures nothing but collectives, for exactly the back end, devices and
// nodes of `bounds`, in groups of equal size that the ranks can be divided into, with messages and
// time limits within `bounds`. Otherwise INVALID_ARGUMENT (SPEC_INVALID) naming the first field
// that breaks a rule; also for a field that this release does not know. Sizes that
// `WholeMessageBytes` (probe_plan.h) would round, and a send with other than two participants,
// pass; `RunProbe` refuses them.
absl::Status CheckLinkProbe(const agent::v1::ProbePlan& plan, const LinkProbeBounds& bounds);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_LINK_PROBE_PLAN_H_
