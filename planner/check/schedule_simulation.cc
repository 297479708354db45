#include "planner/check/schedule_simulation.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "planner/check/device_program.h"

namespace parplan {
namespace {

using simulation::Direction;
using simulation::Instruction;
using simulation::Pass;
using simulation::Program;

// The end of a pass, or the arrival of a message, which is named by the pass that waits for it.
struct Event {
  Seconds time;
  bool is_message = false;
  Pass pass;
};

struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return std::tie(a.time, a.is_message, a.pass.stage, a.pass.direction) >
           std::tie(b.time, b.is_message, b.pass.stage, b.pass.direction);
  }
};

class Simulation {
 public:
  Simulation(const SimulatedPipeline& pipeline, int64_t micro_batch_count)
      : pipeline_(pipeline),
        device_count_(static_cast<int>(pipeline.stages.size()) / pipeline.virtual_stage_count),
        micro_batch_count_(micro_batch_count),
        devices_(device_count_),
        link_free_(device_count_),
        stages_(pipeline.stages.size()) {
    for (int device = 0; device < device_count_; ++device) {
      programs_.emplace_back(pipeline, device_count_, device, micro_batch_count);
    }
  }

  Seconds Run() {
    for (int device = 0; device < device_count_; ++device) MoveOn(device, Seconds());
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.is_message) {
        Deliver(event);
      } else {
        FinishPass(event);
      }
    }
    Seconds end;
    for (int device = 0; device < device_count_; ++device) {
      end = std::max(end, EndOfSynchronisation(device));
    }
    return end;
  }

 private:
  struct DeviceState {
    bool busy = false;       // in a pass
    int messages_left = -1;  // in an exchange; -1 outside
    Seconds last_end;        // of a pass or exchange
  };
  struct StageState {
    int64_t done[3] = {0, 0, 0};
    int64_t arrived[2] = {0, 0};
    // The micro-batch of the message to this stage for which sender and receiver have reached the
    // exchange; -1 for none.
    int64_t offered[2] = {-1, -1};
    int64_t awaited[2] = {-1, -1};
    Seconds last_backward_end;
  };

  int DeviceOf(int stage) const { return stage % device_count_; }
  bool Blocking() const { return pipeline_.blocking_messages && device_count_ > 1; }

  // Returns the pass that waits for the result of `pass`.
  static Pass Successor(const Pass& pass) {
    Pass next = pass;
    next.stage += pass.direction == Direction::kForward ? 1 : -1;
    return next;
  }
  bool IsStage(int stage) const { return stage >= 0 && stage < static_cast<int>(stages_.size()); }
  // Returns the time of the message that `pass` waits for.
  Seconds MessageTime(const Pass& pass) const {
    if (device_count_ == 1) return Seconds();
    return pipeline_.stages[pass.direction == Direction::kForward ? pass.stage - 1 : pass.stage]
        .send;
  }
  bool HasInput(const Pass& pass) const {
    const StageState& stage = stages_[pass.stage];
    if (pass.direction == Direction::kWeights) return stage.done[1] > pass.micro_batch;
    if (pass.direction == Direction::kForward) {
      return pass.stage == 0 || stage.arrived[0] > pass.micro_batch;
    }
    return stage.done[0] > pass.micro_batch &&
           (!IsStage(pass.stage + 1) || stage.arrived[1] > pass.micro_batch);
  }

  // Starts what the device can do next at `now`.
  void MoveOn(int device, Seconds now) {
    DeviceState& state = devices_[device];
    if (state.busy || state.messages_left >= 0) return;
    const Instruction* const next = programs_[device].Current();
    if (next == nullptr) return;
    if (next->is_exchange) {
      state.messages_left = static_cast<int>(next->sent.size() + next->received.size());
      for (const Pass& pass : next->sent) {
        const Pass receiver = Successor(pass);
        Post(receiver, stages_[receiver.stage].offered, now);
      }
      for (const Pass& pass : next->received) Post(pass, stages_[pass.stage].awaited, now);
      return;
    }
    if (!HasInput(next->pass)) {
      // A blocking message arrives with an exchange.
      PARPLAN_CHECK(!Blocking());
      return;
    }
    state.busy = true;
    events_.push({now + TimeOf(next->pass), false, next->pass});
  }

  Seconds TimeOf(const Pass& pass) const {
    const SimulatedStage& stage = pipeline_.stages[pass.stage];
    if (pass.direction == Direction::kForward) return stage.forward;
    if (pass.direction == Direction::kWeights) return stage.backward_weights;
    const bool is_part = pipeline_.schedule == Schedule::kZeroBubble;
    return is_part ? stage.backward - stage.backward_weights : stage.backward;
  }

  void Post(const Pass& receiver, int64_t (&side)[2], Seconds now) {
    StageState& stage = stages_[receiver.stage];
    const int direction = static_cast<int>(receiver.direction);
    PARPLAN_CHECK(side[direction] == -1);
    side[direction] = receiver.micro_batch;
    if (stage.offered[direction] == -1 || stage.awaited[direction] == -1) return;
    PARPLAN_CHECK(stage.offered[direction] == stage.awaited[direction]);
    Seconds begin = now;
    if (pipeline_.serial_messages && pipeline_.virtual_stage_count == 1) {
      // The link from a device to the next takes one message at a time, in either direction.
      Seconds& free = link_free_[receiver.direction == Direction::kForward ? receiver.stage - 1
                                                                           : receiver.stage];
      begin = std::max(begin, free);
      free = begin + MessageTime(receiver);
    }
    events_.push({begin + MessageTime(receiver), true, receiver});
  }

  void FinishPass(const Event& event) {
    const Pass& pass = event.pass;
    const int device = DeviceOf(pass.stage);
    StageState& stage = stages_[pass.stage];
    PARPLAN_CHECK(stage.done[static_cast<int>(pass.direction)]++ == pass.micro_batch);
    if (pass.direction != Direction::kForward) stage.last_backward_end = event.time;
    const Pass receiver = Successor(pass);
    if (!Blocking() && pass.direction != Direction::kWeights && IsStage(receiver.stage)) {
      events_.push({event.time + MessageTime(receiver), true, receiver});
    }
    programs_[device].Finish();
    devices_[device].busy = false;
    devices_[device].last_end = event.time;
    MoveOn(device, event.time);
  }

  void Deliver(const Event& event) {
    const Pass& pass = event.pass;
    const int direction = static_cast<int>(pass.direction);
    StageState& stage = stages_[pass.stage];
    ++stage.arrived[direction];
    const int receiver = DeviceOf(pass.stage);
    if (Blocking()) {
      stage.offered[direction] = stage.awaited[direction] = -1;
      LeaveMessage(DeviceOf(pass.stage + (direction == 0 ? -1 : 1)), event.time);
      LeaveMessage(receiver, event.time);
    } else {
      MoveOn(receiver, event.time);
    }
  }

  void LeaveMessage(int device, Seconds now) {
    DeviceState& state = devices_[device];
    if (--state.messages_left > 0) return;
    state.messages_left = -1;
    state.last_end = now;
    programs_[device].Finish();
    MoveOn(device, now);
  }

  Seconds EndOfSynchronisation(int device) {
    PARPLAN_CHECK(programs_[device].Current() == nullptr);
    const Seconds free = devices_[device].last_end;
    const bool early = pipeline_.early_gradient_sync && pipeline_.virtual_stage_count > 1;
    Seconds end;
    for (int stage = static_cast<int>(stages_.size()) - device_count_ + device; stage >= 0;
         stage -= device_count_) {
      PARPLAN_CHECK(stages_[stage].done[1] == micro_batch_count_);
      end = std::max(end, early ? stages_[stage].last_backward_end : free);
      end += pipeline_.stages[stage].gradient_sync;
    }
    return std::max(end, free);
  }

  const SimulatedPipeline& pipeline_;
  const int device_count_;
  const int64_t micro_batch_count_;
  std::vector<DeviceState> devices_;
  // [device], the end of the last message between the device and the next one.
  std::vector<Seconds> link_free_;
  std::vector<StageState> stages_;
  std::vector<Program> programs_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
};

}  // namespace

Seconds SimulateStep(const SimulatedPipeline& pipeline, int64_t micro_batch_count) {
  PARPLAN_CHECK(!pipeline.stages.empty() && micro_batch_count > 0);
  PARPLAN_CHECK(pipeline.stages.size() % pipeline.virtual_stage_count == 0);
  PARPLAN_CHECK(pipeline.schedule != Schedule::kZeroBubble || !pipeline.blocking_messages);
  return Simulation(pipeline, micro_batch_count).Run();
}

}  // namespace parplan
