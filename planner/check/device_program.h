// The program of one device in the simulation of a step: its passes and its exchanges of messages,
// in the order of Megatron-LM's schedules.py. `SimulateStep` (schedule_simulation.h) plays the
// programs of all devices. Like it, this shares no code with the planner's order of passes.

#ifndef PARPLAN_PLANNER_CHECK_DEVICE_PROGRAM_H_
#define PARPLAN_PLANNER_CHECK_DEVICE_PROGRAM_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "planner/check/schedule_simulation.h"

namespace parplan::simulation {

// `kWeights` is the second part of a split backward pass, which sends and receives nothing.
enum class Direction { kForward = 0, kBackward = 1, kWeights = 2 };

// One pass of a stage over a micro-batch.
struct Pass {
  Direction direction = Direction::kForward;
  int stage = 0;
  int64_t micro_batch = 0;
};

// One instruction of a device: a pass, or an exchange of messages. A sent message is named by the
// pass that made it, a received one by the pass that waits for it.
struct Instruction {
  bool is_exchange = false;
  Pass pass = {};
  std::vector<Pass> sent = {};
  std::vector<Pass> received = {};
};

// The program of one device, written like the loops of schedules.py, one iteration at a time.
class Program {
 public:
  // REQUIRES, unchecked: what `SimulateStep` requires; `device` is below `device_count`.
  Program(const SimulatedPipeline& pipeline, int device_count, int device,
          int64_t micro_batch_count);

  // Returns the next instruction, or null at the end.
  const Instruction* Current();
  void Finish() { instructions_.pop_front(); }

 private:
  // One pass or none.
  using Passes = std::vector<Pass>;

  // Appends the instructions of iteration `i`: first `warm_up_` of warm-up, then the steady ones,
  // then `warm_up_` of cool-down.
  void Iterate(int64_t i);

  // Appends the weight passes that come after backward pass `number`. Those of the last devices
  // start late, and what is late at the end has nothing more to wait for.
  void FollowWithWeights(int64_t number);

  Passes Forward(int64_t number) const { return Number(Direction::kForward, number); }
  Passes Backward(int64_t number) const { return Number(Direction::kBackward, number); }

  // Returns the forward pass whose input the interleaved device receives after iteration `i`, or
  // none. That is its next pass, except on the first device. This one takes what the last device
  // has just made, P - 1 passes behind it, and keeps it until it is needed
  // (`recv_tensor_from_previous_stage`).
  Passes NextForward(int64_t i) const;
  // The same for backward passes, with first and last device exchanged.
  Passes NextBackward(int64_t i) const;
  // Returns the pass `turns` virtual stages of this device later, or none.
  Passes After(Passes passes, int turns) const;

  // Returns the pass with this number in the device's order of that direction.
  Passes Number(Direction direction, int64_t number) const;

  void Do(const Passes& passes);

  bool Sends(const Pass& pass) const;
  bool Receives(const Pass& pass) const;

  void Exchange(const Passes& sent_forward, const Passes& sent_backward,
                const Passes& received_forward, const Passes& received_backward);

  const int64_t devices_;
  const int64_t chunks_;
  const int device_;
  const int64_t micro_batches_;
  const bool blocking_;
  const bool interleaved_;
  const bool splits_;
  const int64_t group_;
  int64_t passes_ = 0;
  int64_t warm_up_ = 0;
  bool first_gradient_with_last_forward_ = false;
  int64_t iteration_ = 0;
  int64_t weights_done_ = 0;
  std::deque<Instruction> instructions_;
};

}  // namespace parplan::simulation

#endif  // PARPLAN_PLANNER_CHECK_DEVICE_PROGRAM_H_
