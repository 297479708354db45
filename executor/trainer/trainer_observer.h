// The interface through which a trainer reports the phases of its step, so that others can time
// them. `StepMeter` and `PhaseRecorder` implement it.

#ifndef PARPLAN_EXECUTOR_TRAINER_TRAINER_OBSERVER_H_
#define PARPLAN_EXECUTOR_TRAINER_TRAINER_OBSERVER_H_

#include <cstdint>

namespace parplan {

// Phase of a rank's step; each lasts until the next begins. Collectives that a phase waits for are
// part of it; communicators can measure them separately (StepMeter).
enum class TrainerPhase {
  // Between two steps.
  kOutside,
  // Work on one layer and micro-batch.
  kForward,
  kRecompute,
  kBackward,
  // Moving activations or gradients from one layout to another within a stage.
  kReshard,
  // Receiving from another stage, with the wait for it, and sending to another.
  kReceive,
  kSend,
  // Work of the whole step, after its last backward pass.
  kGradientSync,
  kOptimizer,
  kLoss,
};
inline constexpr int kTrainerPhaseCount = 10;

class TrainerObserver {
 public:
  virtual ~TrainerObserver() = default;
  // Called by the trainer's thread when a phase begins. `layer_index` is -1 if the phase belongs to
  // no single layer. An asynchronous device may still execute the phase before.
  virtual void Enter(TrainerPhase phase, int layer_index) = 0;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TRAINER_OBSERVER_H_
