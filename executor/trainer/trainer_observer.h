// The interface through which a trainer reports the phases of its step, so that others can time
// them. `StepMeter`, `PhaseRecorder` and a recorder inside `ProbeMemory` implement it.

#ifndef PARPLAN_EXECUTOR_TRAINER_TRAINER_OBSERVER_H_
#define PARPLAN_EXECUTOR_TRAINER_TRAINER_OBSERVER_H_

#include <cstdint>

namespace parplan {

// A phase of a rank's step. Each lasts until the next begins, so phases never overlap and their
// times add up to the step. Collectives that a phase waits for are part of it; communicators can
// measure them separately (StepMeter).
enum class TrainerPhase {
  // Between two steps.
  kOutside,
  // The three passes of one layer over one micro-batch, with the gathering of its sharded
  // parameters and the reduction of its sharded gradients. A layer that recomputes reports
  // kBackward, in which it gathers parameters, then kRecompute, and kBackward again.
  kForward,
  kRecompute,
  kBackward,
  // Moving activations or gradients from one layout to another within a stage; reported for the
  // later of the two layers.
  kReshard,
  // Receiving from another stage, with the wait for it.
  kReceive,
  // Sending to another stage; also the wait for messages to leave, at the end of the passes.
  kSend,
  // Summing up gradients over replicas: reported for a layer when the sum starts, behind its last
  // backward pass, and again, after all passes, for the wait for it.
  kGradientSync,
  // The optimizer's step of a layer.
  kOptimizer,
  // Summing up the loss over ranks, with the wait for the device's results.
  kLoss,
};
inline constexpr int kTrainerPhaseCount = 10;

// Receives the phases of `RankTrainer::Step`, and of no other method of the trainer, so nothing
// before the first step. kOutside comes at the end of each step that succeeds. REQUIRES, unchecked:
// it outlives the trainer that reports to it.
class TrainerObserver {
 public:
  virtual ~TrainerObserver() = default;
  // Called by the trainer's thread when a phase begins, many times a step, so it should take little
  // time. `layer_index` is the layer's index in the model; -1 if the phase belongs to no single
  // layer: kReceive, kSend, kLoss and kOutside. The same phase of the same layer may be reported
  // twice in a row. An asynchronous device may still execute the phase before. If a step fails, the
  // phase that failed is the last one reported.
  virtual void Enter(TrainerPhase phase, int layer_index) = 0;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TRAINER_OBSERVER_H_
