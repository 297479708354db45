// Measures the times of a trainer's phases by kind of layer, without the time it spends in
// communicators. `ProbeRun` has one.

#ifndef PARPLAN_EXECUTOR_LAYER_PROBE_PHASE_RECORDER_H_
#define PARPLAN_EXECUTOR_LAYER_PROBE_PHASE_RECORDER_H_

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "executor/device/comm/timed_communicator.h"
#include "executor/device/kernels/layer_kernels.h"
#include "executor/trainer/trainer_observer.h"

namespace parplan {

// Waits for the device wherever the phase or the kind of layer changes; between consecutive layers
// of one kind it does not wait. Used by the trainer's thread.
class PhaseRecorder : public TrainerObserver {
 public:
  // `kind_of_layer`: [layer] kind to which the layer's time is added, from 0; it has every layer
  // that the trainer reports, which is not checked. `kernels` may be null if calls return only
  // after they are executed. `meter`, which is not null, counts the waits of the trainer's
  // communicators. `now` reads a steady clock. Pointers outlive it.
  PhaseRecorder(LayerKernels* kernels, const WaitMeter* meter, std::vector<int> kind_of_layer,
                std::function<absl::Duration()> now);

  void Enter(TrainerPhase phase, int layer_index) override;

  // Returns the time of a phase since the last `Clear`, without one that has not ended. Kind -1:
  // phases of no single layer. REQUIRES, unchecked: `kind` is -1 or one of `kind_of_layer`. Before
  // the first `Enter` there was no begin, so the time of kOutside has no meaning until a `Clear`
  // after that `Enter`.
  absl::Duration TimeOf(TrainerPhase phase, int kind) const;
  // Forgets all times. The current phase is counted from its begin, even if that was before.
  void Clear();

 private:
  size_t SlotOf(TrainerPhase phase, int kind) const {
    return static_cast<size_t>(phase) * (kind_count_ + 1) + static_cast<size_t>(kind + 1);
  }

  LayerKernels* const kernels_;
  const WaitMeter* const meter_;
  const std::vector<int> kind_of_layer_;
  const std::function<absl::Duration()> now_;
  size_t kind_count_ = 0;
  std::vector<absl::Duration> times_;
  size_t slot_ = 0;
  absl::Duration since_;
  absl::Duration waited_before_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_LAYER_PROBE_PHASE_RECORDER_H_
