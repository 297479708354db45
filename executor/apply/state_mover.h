// Parameters and optimizer states on their way from one plan to another, in memory of the
// host.

#ifndef PARPLAN_EXECUTOR_APPLY_STATE_MOVER_H_
#define PARPLAN_EXECUTOR_APPLY_STATE_MOVER_H_

#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/apply/checked_plan.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/communicator.h"
#include "executor/trainer/rank_trainer.h"

namespace parplan {

// Of one kind, all layers of a rank in order.
struct HostState {
  int64_t element_size = 0;
  // [layer slot] this rank's part.
  std::vector<std::vector<char>> parts;
};
using HostStates = std::map<StateKind, HostState>;

// What `trainer` has on `device`.
absl::StatusOr<HostStates> ReadStates(RankTrainer& trainer, Device& device);

// Puts `states` in the place of what `trainer` has. INTERNAL where they are not of its shape.
absl::Status WriteStates(const HostStates& states, RankTrainer& trainer, Device& device);

// What this rank has under `to` of what all have under `from`. All ranks of the job call it,
// with `everyone` between buffers of the host, its ranks those of the job in order. Both plans
// are of one model and as many ranks. Each rank sends and gets only what others and it need.
absl::StatusOr<HostStates> MoveStates(const HostStates& states, const CheckedPlan& from,
                                      const CheckedPlan& to, Communicator& everyone);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_STATE_MOVER_H_
