// Decides what nodes measure together, the links between them, and what one node may ask of
// another. The daemon makes the plan for the nodes that it borrows (link_probe.h), and each of them
// checks it.

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
// each, in groups that span nodes; the models are ignored. INVALID_ARGUMENT (SPEC_INVALID) as
// WholeProbe, for fewer than two nodes, and if `torch` is present.
absl::StatusOr<agent::v1::ProbePlan> LinkProbePlan(const ProbeRequest& request, int node_count);

// The limits of a plan for links that another node sent. `LinkProbePlan` stays far within the
// defaults.
struct LinkProbeBounds {
  // Back end and number of devices of this node, and number of nodes that take part.
  std::string backend = "cpu";
  int devices_per_node = 1;
  int node_count = 2;
  // Largest message, in bytes; a rank holds a few buffers of it. 16 times the largest that agents
  // measure unless their options say otherwise.
  int64_t max_message_bytes = int64_t{1} << 30;
  absl::Duration max_time_budget = absl::Hours(1);
};

// Returns OK if the plan is one that an honest agent could have sent for these nodes: collectives
// alone, in groups that the ranks can form, of messages and with a time limit within the bounds.
// INVALID_ARGUMENT (SPEC_INVALID) naming the first field that is not. Sizes other than those of
// WholeMessageBytes, and a send with other than two participants, pass; `RunProbe` refuses them.
absl::Status CheckLinkProbe(const agent::v1::ProbePlan& plan, const LinkProbeBounds& bounds);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_LINK_PROBE_PLAN_H_
