// Decides what to measure on a node: everything a planner may need, or only what is missing. The
// daemon and `parplan-agent --once` make the plans, and `RunProbe` or `parplan-torch profile`
// (torch_job.h) measures them.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_PROBE_PLAN_H_
#define PARPLAN_PROFILER_AGENT_PROBE_PROBE_PLAN_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// The devices, models and sizes to measure, and the time for it.
struct ProbeRequest {
  // `cpu` (cores) or `cuda` (GPUs), which is not checked here, and the number of ranks on the node,
  // one for each device.
  std::string backend = "cpu";
  int rank_count = 1;
  // Models whose layers are measured; may be empty.
  std::vector<ModelSpec> models;
  // Range of message sizes in bytes: the smallest, then each twice the one before, or four times if
  // time is short, up to the last that is not above the largest. Each is rounded by
  // WholeMessageBytes, but not in PyTorch; sizes that round to one are measured once. REQUIRES,
  // unchecked: the smallest is at least 4 bytes for each rank, and the largest far below the end of
  // int64_t.
  int64_t smallest_message_bytes = int64_t{4} << 10;
  int64_t largest_message_bytes = int64_t{64} << 20;
  // Samples, above 0, which is not checked.
  std::vector<int> micro_batch_sizes = {1, 2, 4, 8};
  absl::Duration time_budget = absl::Minutes(3);
  // Time limit for measuring only what is missing or has drifted.
  absl::Duration incremental_time_budget = absl::Seconds(20);
  // Present if modules of PyTorch are measured, by parplan-torch; it has an entry of `models` for
  // each of the models above, and the caller has filled in `version` (TorchVersion).
  std::optional<agent::v1::TorchProbe> torch;
};

// A collective regardless of its size: (collective, participant count, rank stride).
using CollectiveShape = std::tuple<v1::Collective, int, int>;

// Returns the largest size up to `message_bytes` that is a whole number of floats, and if the
// collective splits the message, of floats for each rank; at least one float for each.
int64_t WholeMessageBytes(Collective collective, int participant_count, int64_t message_bytes);

// Returns the plan for everything: each collective in groups of every shape that uses all ranks,
// each model at every tensor-parallel degree that divides its layers and the ranks, context memory,
// copies, and with several ranks overlap. Message sizes are twice, or if collectives would take
// more than half of the time budget four times the one before; where the plan has layers, the probe
// stops collectives at that half. In PyTorch there are no broadcasts and no copies.
// INVALID_ARGUMENT (SPEC_INVALID) if there is no rank, no micro-batch size, an empty range of
// message sizes, models differ in precision, or `torch` comes without models or with another number
// of entries than there are models.
absl::StatusOr<agent::v1::ProbePlan> WholeProbe(const ProbeRequest& request);

// Returns the number of a plan's ranks on each node.
int DevicesPerNode(const agent::v1::ProbePlan& plan);

// Returns the part of `whole` that is missing from `stored` or whose shape is in `drifted`. An
// empty plan has no collectives, no layers and no flags set. Layers of which only the memory is
// missing have `memory_only`. Copies are never part of it. Time limits stay those of `whole`: call
// SetTimeBudget. REQUIRES, unchecked: every layer of `whole` is of one of its models.
agent::v1::ProbePlan IncrementalProbe(const agent::v1::ProbePlan& whole, const v1::Profile& stored,
                                      const std::set<CollectiveShape>& drifted);

// Sets the time limits of `plan`, whole or partial, to fit `budget`: 0.2 s for each collective, the
// rest divided among layers, but 1 to 20 s each, so that many items take longer than `budget`.
void SetTimeBudget(absl::Duration budget, agent::v1::ProbePlan& plan);

// Returns the number of items to measure.
int ProbeSize(const agent::v1::ProbePlan& plan);

// Returns whether there is nothing to measure.
bool IsEmptyProbe(const agent::v1::ProbePlan& plan);

// Returns `stored` with the items that `fresh` measured replaced or added, and the provenance of
// `fresh`. If `fresh` has another precision, the layers and optimizer steps of `stored` are
// dropped. Layers of `stored` whose id means another layer in `fresh` get a new id. REQUIRES,
// unchecked: both are profiles of the same kind of node.
v1::Profile MergedProfile(const v1::Profile& stored, const v1::Profile& fresh);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_PROBE_PLAN_H_
