// Runs one rank of a probe. The program parplan-agent-probe calls it, one process for each rank.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_PROBE_RANK_H_
#define PARPLAN_PROFILER_AGENT_PROBE_PROBE_RANK_H_

#include "absl/status/statusor.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/rank_context.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// Measures the items of `plan` on `device`. All ranks of the job must call it; each gets a profile
// with the same measurements (notes about its device and copies are its own), without the parts of
// its provenance that only the agent knows (program, driver).
//
// Begins no item that, by the longest one so far, would end after 95 % of the time budget; where
// the plan has layers, collectives get half of that. Overlap and context memory of a plan that has
// them are measured in any case. The profile's notes list what the time budget left out and sizes
// that the executor cannot run.
//
// INVALID_ARGUMENT (SPEC_INVALID) for an invalid plan, a job of another size, or a first model in
// another precision than fp32 and bf16; otherwise the errors of devices (RESOURCE_EXHAUSTED for
// memory, UNIMPLEMENTED for bf16 on processors) and communicators (UNAVAILABLE or ABORTED after
// another rank failed).
absl::StatusOr<v1::Profile> RunProbe(const agent::v1::ProbePlan& plan, RankContext& job,
                                     const DeviceFacts& description, Device& device);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_PROBE_RANK_H_
