#include "executor/layer_probe/phase_recorder.h"

#include <algorithm>
#include <utility>

namespace parplan {

PhaseRecorder::PhaseRecorder(LayerKernels* kernels, const WaitMeter* meter,
                             std::vector<int> kind_of_layer, std::function<absl::Duration()> now)
    : kernels_(kernels),
      meter_(meter),
      kind_of_layer_(std::move(kind_of_layer)),
      now_(std::move(now)) {
  for (const int kind : kind_of_layer_) {
    kind_count_ = std::max(kind_count_, static_cast<size_t>(kind) + 1);
  }
  times_.resize(kTrainerPhaseCount * (kind_count_ + 1));
  slot_ = SlotOf(TrainerPhase::kOutside, -1);
}

void PhaseRecorder::Enter(TrainerPhase phase, int layer_index) {
  const size_t slot = SlotOf(phase, layer_index < 0 ? -1 : kind_of_layer_[layer_index]);
  if (slot == slot_) return;
  // The trainer synchronizes too and gets the errors of the device.
  if (kernels_ != nullptr) kernels_->Synchronize().IgnoreError();
  const absl::Duration now = now_();
  times_[slot_] += (now - since_) - (meter_->waited - waited_before_);
  slot_ = slot;
  since_ = now;
  waited_before_ = meter_->waited;
}

absl::Duration PhaseRecorder::TimeOf(TrainerPhase phase, int kind) const {
  return times_[SlotOf(phase, kind)];
}

void PhaseRecorder::Clear() { std::fill(times_.begin(), times_.end(), absl::ZeroDuration()); }

}  // namespace parplan
