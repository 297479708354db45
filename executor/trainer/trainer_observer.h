// Told by a trainer what it is at, so that others can take the time.

#ifndef PARPLAN_EXECUTOR_TRAINER_TRAINER_OBSERVER_H_
#define PARPLAN_EXECUTOR_TRAINER_TRAINER_OBSERVER_H_

#include <cstdint>

namespace parplan {

// What a rank is at within a step; each lasts until the next begins. Collectives that a phase
// waits for are part of it: the communicators tell them apart.
enum class TrainerPhase {
  // The step is over.
  kOutside,
  // Of one layer and micro-batch.
  kForward,
  kRecompute,
  kBackward,
  // Activations or gradients from one layout to another within a stage.
  kReshard,
  // From another stage, with the wait for it, and to another.
  kReceive,
  kSend,
  // Of the whole step, behind its last backward pass.
  kGradientSync,
  kOptimizer,
  kLoss,
};
inline constexpr int kTrainerPhaseCount = 10;

class TrainerObserver {
 public:
  virtual ~TrainerObserver() = default;
  // Called by the trainer's thread. `layer_index` is -1 where a phase is of no single layer.
  // Devices may still be at what was called before.
  virtual void Enter(TrainerPhase phase, int layer_index) = 0;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TRAINER_OBSERVER_H_
