// What one rank of a probe does.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_PROBE_RANK_H_
#define PARPLAN_PROFILER_AGENT_PROBE_PROBE_RANK_H_

#include "absl/status/statusor.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/rank_context.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// Measures what `plan` says on `device`. All ranks of the job call it; each gets the same
// profile, without the parts of its provenance that the agent knows (program, driver).
//
// What the time budget left out, and sizes that the executor cannot run, are in the notes.
// INVALID_ARGUMENT for a plan that breaks its rules; the errors of devices and communicators.
absl::StatusOr<v1::Profile> RunProbe(const agent::v1::ProbePlan& plan, RankContext& job,
                                     const DeviceFacts& description, Device& device);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_PROBE_RANK_H_
