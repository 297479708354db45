#include "server/rpc/unread_answers.h"

#include <memory>
#include <utility>

namespace parplan {

UnreadAnswers::UnreadAnswers(AlarmThread& alarms, absl::Duration max_wait, int64_t max_bytes)
    : alarms_(alarms), max_wait_(max_wait), max_bytes_(max_bytes) {}

int64_t UnreadAnswers::Add(grpc::CallbackServerContext& context, int64_t bytes) {
  const auto break_off = [state = std::weak_ptr(state_)](int64_t number) {
    return [state, number] {
      if (const auto held = state.lock()) BreakOff(*held, number);
    };
  };
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const int64_t number = ++state_->last_number;
  state_->bytes += bytes;
  // The oldest give way, on the thread of the alarms: gRPC may have called this one.
  for (auto oldest = state_->answers.begin();
       state_->bytes > max_bytes_ && oldest != state_->answers.end(); ++oldest) {
    Answer& answer = oldest->second;
    if (answer.is_broken_off) continue;
    answer.is_broken_off = true;
    state_->bytes -= answer.bytes;
    alarms_.Remove(answer.alarm);
    answer.alarm = alarms_.Set(absl::ZeroDuration(), break_off(oldest->first));
  }
  state_->answers.emplace(number, Answer{&context, bytes, /*is_broken_off=*/false,
                                         alarms_.Set(max_wait_, break_off(number))});
  return number;
}

void UnreadAnswers::Remove(int64_t number) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const auto found = state_->answers.find(number);
  if (found == state_->answers.end()) return;
  alarms_.Remove(found->second.alarm);
  if (!found->second.is_broken_off) state_->bytes -= found->second.bytes;
  state_->answers.erase(found);
}

int64_t UnreadAnswers::bytes() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->bytes;
}

void UnreadAnswers::BreakOff(State& state, int64_t number) {
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto found = state.answers.find(number);
  if (found == state.answers.end()) return;
  if (!found->second.is_broken_off) state.bytes -= found->second.bytes;
  found->second.is_broken_off = true;
  found->second.context->TryCancel();
}

}  // namespace parplan
