#include "planner/check/device_program.h"

#include <algorithm>
#include <utility>

namespace parplan::simulation {

Program::Program(const SimulatedPipeline& pipeline, int device_count, int device,
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

const Instruction* Program::Current() {
  while (instructions_.empty() && iteration_ < warm_up_ + passes_) Iterate(iteration_++);
  return instructions_.empty() ? nullptr : &instructions_.front();
}

void Program::Iterate(int64_t i) {
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

void Program::FollowWithWeights(int64_t number) {
  const int64_t due = number + 1 == passes_ ? passes_ : number + 1 - device_;
  while (weights_done_ < due) Do({{Direction::kWeights, device_, weights_done_++}});
}

Program::Passes Program::NextForward(int64_t i) const {
  if (device_ > 0) return Forward(i + 1);
  return After(Number(Direction::kForward, i - (devices_ - 1)), 1);
}

Program::Passes Program::NextBackward(int64_t i) const {
  if (device_ + 1 < devices_) return Backward(i + 1 - warm_up_);
  return After(Number(Direction::kBackward, i - warm_up_ - (devices_ - 1)), -1);
}

Program::Passes Program::After(Passes passes, int turns) const {
  for (Pass& pass : passes) {
    pass.stage += turns * static_cast<int>(devices_);
    if (pass.stage < 0 || pass.stage >= devices_ * chunks_) return {};
  }
  return passes;
}

Program::Passes Program::Number(Direction direction, int64_t number) const {
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

void Program::Do(const Passes& passes) {
  for (const Pass& pass : passes) instructions_.push_back({.pass = pass});
}

bool Program::Sends(const Pass& pass) const {
  return pass.direction == Direction::kForward ? pass.stage + 1 < devices_ * chunks_
                                               : pass.stage > 0;
}

bool Program::Receives(const Pass& pass) const {
  return pass.direction == Direction::kForward ? pass.stage > 0
                                               : pass.stage + 1 < devices_ * chunks_;
}

void Program::Exchange(const Passes& sent_forward, const Passes& sent_backward,
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

}  // namespace parplan::simulation
