// Measures the steps of a trainer, window by window. `PlanApplier` makes one for each trainer.

#ifndef PARPLAN_EXECUTOR_APPLY_STEP_METER_H_
#define PARPLAN_EXECUTOR_APPLY_STEP_METER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/system/steady_clock.h"
#include "executor/apply/step_window.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/layer_kernels.h"
#include "executor/trainer/trainer_observer.h"

namespace parplan {

// The observer of one trainer, used by its thread. Costs up to three readings of a clock for each
// change of phase and each call of a communicator. A window keeps the first 256 kinds of
// collectives, and the first 256 times of each; these limits were not measured. It keeps no sends,
// receives and barriers, and of the other operations only those that are called by `Run` in groups
// whose ranks ascend by one stride, and none on an asynchronous device.
class StepMeter : public TrainerObserver {
 public:
  // The quantities to measure, and the clock.
  struct Options {
    // This rank's number in the job, which windows state.
    int rank = 0;
    // Steps of a window, at least 1, which is not checked.
    int window_step_count = 10;
    // Kernels of a device whose calls return before they are executed; null for any other. The
    // meter then waits for the device wherever a phase ends, and before and after each wait for a
    // communicator, so that layers are timed without their collectives; but only in the first step
    // of each window, which is left out of the step time.
    LayerKernels* kernels = nullptr;
    // StepWindow::context_memory of the windows.
    Bytes context_memory;
    // The clock; not empty.
    std::function<absl::Duration()> now = SteadyNow;
  };
  // `pool`, whose peak the windows state, outlives the meter.
  StepMeter(const Options& options, ArrayPool& pool);

  // Returns a communicator over `inner` whose waits are measured. Within a pass over a layer a wait
  // counts by the purpose of the group (GroupSpec::purpose), and as idle time if that is the loss
  // or unknown; elsewhere it counts for the phase that the trainer is in. `ranks` are the ranks of
  // the job that the group has, in its order; their distance is the stride of its collectives. The
  // meter outlives the communicator and its pending work.
  std::unique_ptr<Communicator> Meter(const std::string& purpose, const std::vector<int>& ranks,
                                      std::unique_ptr<Communicator> inner);

  void Enter(TrainerPhase phase, int layer_index) override;

  // Sets StepWindow::context_memory of the windows that end from now on.
  void SetContextMemory(Bytes memory) { options_.context_memory = memory; }

  // Begins step `step` of the trainer, counted from 0. Within a window the numbers follow each
  // other, which is not checked.
  void BeginStep(int64_t step);
  // Ends the step that `BeginStep` began. Returns the window if this step completes it.
  std::optional<StepWindow> EndStep();
  // Returns the window so far and begins a new one; nothing if no step has ended in it. Called
  // between two steps.
  std::optional<StepWindow> Flush();

 private:
  class Metered;
  // Operation, participants, stride, bytes.
  using CollectiveKey = std::tuple<Operation, int, int, int64_t>;
  using PhaseTimes = std::array<absl::Duration, kStepPhaseCount>;

  absl::Duration Now() const { return options_.now(); }
  // Waits for the device where phases are taken and calls return before they are executed.
  void Settle();
  // Adds the time from `begin` to now, which was spent in a communicator.
  void AddWait(StepPhase wait, absl::Duration begin);
  void AddCollective(const CollectiveKey& key, absl::Duration time);

  Options options_;
  ArrayPool& pool_;
  // State of this step.
  TrainerPhase phase_ = TrainerPhase::kOutside;
  PhaseTimes times_ = {};
  absl::Duration since_;
  absl::Duration waited_;
  absl::Duration waited_before_;
  absl::Duration begin_;
  bool takes_phases_ = true;
  // State of this window.
  int64_t first_step_ = 0;
  int step_count_ = 0;
  std::vector<absl::Duration> steps_;
  std::vector<PhaseTimes> phases_;
  std::map<CollectiveKey, std::vector<absl::Duration>> collectives_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_STEP_METER_H_
