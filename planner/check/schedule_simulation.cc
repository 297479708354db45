#include "planner/check/schedule_simulation.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <tuple>

#include "base/check.h"

namespace parplan {
namespace {

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
  Program(const SimulatedPipeline& pipeline, int device_count, int device,
          int64_t micro_batch_count)
      : devices_(device_count),
        chunks_(pipeline.virtual_stage_count),
        device_(device),
        micro_batches_(micro_batch_count),
        blocking_(pipeline.blocking_messages && device_count > 1),
        interleaved_(chunks_ > 1),
        splits_(pipeline.schedule == Schedule::kZeroBubble),
        group_(pipeline.micro_batch_group_size == 0 ? device_count
                                                    : pipeline.micro_batch_group_size) {
    // Passes of a last group with fewer than P micro-batches are counted and left out.
    const int64_t rest = micro_batches_ % group_;
    const int64_t padded =
        rest > 0 && rest < devices_ ? micro_batches_ - rest + devices_ : micro_batches_;
    passes_ = interleaved_ ? padded * chunks_ : micro_batches_;
    switch (pipeline.schedule) {
      case Schedule::kGpipe:
        warm_up_ = passes_;
        break;
      case Schedule::kOneForwardOneBackward:
      case Schedule::kInterleaved:
      case Schedule::kZeroBubble:
        warm_up_ = interleaved_ ? (devices_ - device_ - 1) * 2 + (chunks_ - 1) * group_
                                : devices_ - device_ - 1;
        break;
    }
    first_gradient_with_last_forward_ = warm_up_ <= passes_;
    warm_up_ = std::min(warm_up_, passes_);
    if (interleaved_ && blocking_) Exchange({}, {}, Forward(0), {});
  }

  // Returns the next instruction, or null at the end.
  const Instruction* Current() {
    while (instructions_.empty() && iteration_ < warm_up_ + passes_) Iterate(iteration_++);
    return instructions_.empty() ? nullptr : &instructions_.front();
  }
  void Finish() { instructions_.pop_front(); }

 private:
  // One pass or none.
  using Passes = std::vector<Pass>;

  // Appends the instructions of iteration `i`: first `warm_up_` of warm-up, then the steady ones,
  // then `warm_up_` of cool-down.
  void Iterate(int64_t i) {
    const bool warms_up = i < warm_up_;
    const bool cools_down = i >= passes_;
    const Passes forward = cools_down ? Passes() : Forward(i);
    const Passes backward = warms_up ? Passes() : Backward(i - warm_up_);
    if (!blocking_) {
      Do(forward);
      Do(backward);
      if (splits_ && !warms_up) FollowWithWeights(i - warm_up_);
    } else if (interleaved_) {
      Do(forward);
      Do(backward);
      const bool ends_warm_up = i + 1 == warm_up_;
      const Passes gradient = warms_up && !(ends_warm_up && first_gradient_with_last_forward_)
                                  ? Passes()
                                  : NextBackward(i);
      Exchange(forward, backward, cools_down ? Passes() : NextForward(i), gradient);
      if (ends_warm_up && !first_gradient_with_last_forward_) Exchange({}, {}, {}, NextBackward(i));
    } else if (warms_up || cools_down) {
      Exchange({}, {}, forward, backward);
      Do(forward);
      Do(backward);
      Exchange(forward, backward, {}, {});
    } else {
      if (i == warm_up_) Exchange({}, {}, forward, {});
      Do(forward);
      Exchange(forward, {}, {}, backward);
      Do(backward);
      Exchange({}, backward, Forward(i + 1), {});
    }
  }

  // Appends the weight passes that come after backward pass `number`. Those of the last devices
  // start late, and what is late at the end has nothing more to wait for.
  void FollowWithWeights(int64_t number) {
    const int64_t due = number + 1 == passes_ ? passes_ : number + 1 - device_;
    while (weights_done_ < due) Do({{Direction::kWeights, device_, weights_done_++}});
  }

  Passes Forward(int64_t number) const { return Number(Direction::kForward, number); }
  Passes Backward(int64_t number) const { return Number(Direction::kBackward, number); }

  // Returns the forward pass whose input the interleaved device receives after iteration `i`, or
  // none. That is its next pass, except on the first device. This one takes what the last device
  // has just made, P - 1 passes behind it, and keeps it until it is needed
  // (`recv_tensor_from_previous_stage`).
  Passes NextForward(int64_t i) const {
    if (device_ > 0) return Forward(i + 1);
    return After(Number(Direction::kForward, i - (devices_ - 1)), 1);
  }
  // The same for backward passes, with first and last device exchanged.
  Passes NextBackward(int64_t i) const {
    if (device_ + 1 < devices_) return Backward(i + 1 - warm_up_);
    return After(Number(Direction::kBackward, i - warm_up_ - (devices_ - 1)), -1);
  }
  // Returns the pass `turns` virtual stages of this device later, or none.
  Passes After(Passes passes, int turns) const {
    for (Pass& pass : passes) {
      pass.stage += turns * static_cast<int>(devices_);
      if (pass.stage < 0 || pass.stage >= devices_ * chunks_) return {};
    }
    return passes;
  }

  // Returns the pass with this number in the device's order of that direction.
  Passes Number(Direction direction, int64_t number) const {
    if (number < 0 || number >= passes_) return {};
    if (!interleaved_) return {{direction, device_, number}};
    // The order of `get_schedule_table`: each group goes through one chunk after the other.
    const int64_t groups_before = number / (group_ * chunks_);
    const int64_t first = groups_before * group_;
    const int64_t size = std::max(devices_, std::min(group_, micro_batches_ - first));
    const int64_t in_group = number % (group_ * chunks_);
    int64_t chunk = in_group / size;
    if (direction == Direction::kBackward) chunk = chunks_ - chunk - 1;
    const int64_t micro_batch = first + in_group % size;
    if (micro_batch >= micro_batches_) return {};
    return {{direction, static_cast<int>(chunk * devices_ + device_), micro_batch}};
  }

  void Do(const Passes& passes) {
    for (const Pass& pass : passes) instructions_.push_back({.pass = pass});
  }

  bool Sends(const Pass& pass) const {
    return pass.direction == Direction::kForward ? pass.stage + 1 < devices_ * chunks_
                                                 : pass.stage > 0;
  }
  bool Receives(const Pass& pass) const {
    return pass.direction == Direction::kForward ? pass.stage > 0
                                                 : pass.stage + 1 < devices_ * chunks_;
  }

  void Exchange(const Passes& sent_forward, const Passes& sent_backward,
                const Passes& received_forward, const Passes& received_backward) {
    Instruction exchange{.is_exchange = true};
    for (const Passes& passes : {sent_forward, sent_backward}) {
      for (const Pass& pass : passes) {
        if (Sends(pass)) exchange.sent.push_back(pass);
      }
    }
    for (const Passes& passes : {received_forward, received_backward}) {
      for (const Pass& pass : passes) {
        if (Receives(pass)) exchange.received.push_back(pass);
      }
    }
    if (exchange.sent.empty() && exchange.received.empty()) return;
    instructions_.push_back(std::move(exchange));
  }

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
