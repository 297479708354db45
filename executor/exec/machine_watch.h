// Watches the machine over exactly the steps whose times a plan's record is made of. Each rank of
// `parplan-exec` (rank_run.h) has one under each plan.

#ifndef PARPLAN_EXECUTOR_EXEC_MACHINE_WATCH_H_
#define PARPLAN_EXECUTOR_EXEC_MACHINE_WATCH_H_

#include <optional>

#include "absl/status/statusor.h"
#include "executor/device/backend/machine_use.h"
#include "executor/device/comm/communicator.h"

namespace parplan {

// One rank's watch over the steps under one plan; used by the thread that trains. Without
// counters (MachineReader::Read fails) it measures nothing and training goes on.
class MachineWatch {
 public:
  // Begins a step; call it before every step. The first call starts the watch.
  void BeginStep();
  // Ends a window; call it after every one. The first window has the cold start: it counts only if
  // it stays the only one, as in PlanRecord::MeasuredStep.
  void EndWindow();
  // Combines what all ranks saw. Collective: every rank of `everyone`, whose buffers are the
  // host's, calls it at the same place. Returns nothing if some rank has nothing to say or too
  // little time passed (CombineUses). Returns the errors of `everyone` (PendingWork::Wait), and
  // INVALID_ARGUMENT if a rank of another release sent a text that RankMachineUse does not read.
  absl::StatusOr<std::optional<MachineUse>> Combine(Communicator& everyone) const;

 private:
  std::optional<MachineCounters> Read() const;

  const MachineReader reader_;
  bool has_begun_ = false;
  int window_count_ = 0;
  // Readings before the first step or after the first window, and after the last window.
  std::optional<MachineCounters> begin_;
  std::optional<MachineCounters> after_first_;
  std::optional<MachineCounters> end_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_MACHINE_WATCH_H_
