// What to measure on a node: everything a planner may ask of it, or what is missing.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_PROBE_PLAN_H_
#define PARPLAN_PROFILER_AGENT_PROBE_PROBE_PLAN_H_

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

struct ProbeRequest {
  std::string backend = "cpu";
  int rank_count = 1;
  // Whose layers are measured; may be none.
  std::vector<ModelSpec> models;
  // Sizes of messages, doubling or, where time is short, four times as large each.
  int64_t smallest_message_bytes = int64_t{4} << 10;
  int64_t largest_message_bytes = int64_t{64} << 20;
  std::vector<int> micro_batch_sizes = {1, 2, 4, 8};
  absl::Duration time_budget = absl::Minutes(3);
  // For what is missing or has drifted, where the rest is known.
  absl::Duration incremental_time_budget = absl::Seconds(20);
};

// A measured collective, whatever its size: collective, participants, stride.
using CollectiveShape = std::tuple<v1::Collective, int, int>;

// Everything: each collective in groups of every shape that uses all ranks, each model at
// every tensor-parallel degree that divides it, overlap, context and copies. In half of the
// budget the collectives at most. INVALID_ARGUMENT where no plan can be made: no rank, models
// of different precision, no micro-batch size.
absl::StatusOr<agent::v1::ProbePlan> WholeProbe(const ProbeRequest& request);

// The collectives between `node_count` equal nodes of `request.rank_count` devices each, in
// groups that lie on more than one. Errors as of WholeProbe; INVALID_ARGUMENT for fewer than two.
absl::StatusOr<agent::v1::ProbePlan> LinkProbePlan(const ProbeRequest& request, int node_count);

// Ranks of a plan that are on one node.
int DevicesPerNode(const agent::v1::ProbePlan& plan);

// Of `whole` what `stored` has not, and what is in `drifted`. Plans of nothing have neither
// collectives nor layers nor flags.
agent::v1::ProbePlan IncrementalProbe(const agent::v1::ProbePlan& whole, const v1::Profile& stored,
                                      const std::set<CollectiveShape>& drifted);

// Gives `plan`, whole or a part, so much time: each collective its own, layers the rest.
void SetTimeBudget(absl::Duration budget, agent::v1::ProbePlan& plan);

// How many things there are to measure.
int ProbeSize(const agent::v1::ProbePlan& plan);

// Whether there is nothing to measure.
bool IsEmptyProbe(const agent::v1::ProbePlan& plan);

// `stored` with what `fresh` measured in the place of what it measured before. Both are
// profiles of the same kind of node.
v1::Profile MergedProfile(const v1::Profile& stored, const v1::Profile& fresh);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_PROBE_PLAN_H_
