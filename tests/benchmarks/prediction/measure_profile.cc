#include "tests/benchmarks/prediction/measure_profile.h"

#include <memory>

#include "base/status_macros.h"
#include "executor/device/backend/device_backend.h"
#include "profiler-agent/probe/probe_plan.h"
#include "profiler-agent/probe/probe_rank.h"
#include "proto/wire/profile_wire.h"
#include "tests/benchmarks/prediction/paced_device.h"

namespace parplan {

absl::StatusOr<v1::Profile> MeasureProfile(const PlanSet& set, absl::Duration time_budget,
                                           RankContext& job) {
  ProbeRequest request;
  request.rank_count = set.device_count;
  request.models = {set.model};
  request.largest_message_bytes = int64_t{16} << 20;
  request.micro_batch_sizes = {1, 2, 4};
  if (set.device_count == 2) request.micro_batch_sizes.push_back(8);
  request.time_budget = time_budget;
  PARPLAN_ASSIGN_OR_RETURN(const agent::v1::ProbePlan plan, WholeProbe(request));
  const std::unique_ptr<DeviceBackend> backend = MakeCpuBackend();
  PARPLAN_ASSIGN_OR_RETURN(const DeviceFacts facts, backend->Describe(0));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, backend->Open(0));
  const std::unique_ptr<Device> paced = PaceDevice(*device, set.pace);
  PARPLAN_ASSIGN_OR_RETURN(v1::Profile profile, RunProbe(plan, job, facts, *paced));
  profile.mutable_provenance()->set_agent("prediction");
  profile.set_devices_per_node(set.devices_per_node);
  PARPLAN_RETURN_IF_ERROR(ValidateProfile(profile));
  return profile;
}

}  // namespace parplan
