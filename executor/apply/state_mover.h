// Moves parameters and optimizer states from one plan to another, through host memory.
// `PlanApplier::Swap` calls `ReadStates`, `MoveStates` and, once the new trainer is made,
// `WriteStates`.

#ifndef PARPLAN_EXECUTOR_APPLY_STATE_MOVER_H_
#define PARPLAN_EXECUTOR_APPLY_STATE_MOVER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/apply/checked_plan.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/communicator.h"
#include "executor/trainer/rank_trainer.h"

namespace parplan {

// The state of one kind that a rank holds.
struct HostState {
  // Bytes of one element.
  int64_t element_size = 0;
  // [index of the layer on the rank, as HeldRun::layer_slot] bytes of this rank's part. Layers
  // without elements may be missing at the end.
  std::vector<std::vector<char>> parts;
};
using HostStates = std::map<StateKind, HostState>;

// Copies the state of `trainer` from `device`. Returns the first error of a copy
// (Device::CopyToHost). The trainer makes no step meanwhile.
absl::StatusOr<HostStates> ReadStates(RankTrainer& trainer, Device& device);

// Overwrites the state of `trainer` with `states`. Returns INTERNAL if they do not have its shape,
// or the first error of a copy to `device` (Device::CopyFromHost). After an error the state is
// undefined.
absl::Status WriteStates(const HostStates& states, RankTrainer& trainer, Device& device);

// Returns the state this rank has under `to`, from the state all ranks have under `from`.
// Collective: all ranks of the job call it. `everyone` has the ranks of the job in order, with
// buffers in host memory. REQUIRES, unchecked: both plans have the same model and number of ranks,
// and `states` has the shape of this rank's state under `from`. Each element is sent only to ranks
// that need it and do not have it. Needs host memory for the state of this rank under both plans
// and for its messages. Returns the errors of `everyone` (Communicator::Start, PendingWork::Wait).
absl::StatusOr<HostStates> MoveStates(const HostStates& states, const CheckedPlan& from,
                                      const CheckedPlan& to, Communicator& everyone);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_STATE_MOVER_H_
