#include "server/rpc/unread_answers.h"

#include <utility>

namespace parplan {

UnreadAnswers::UnreadAnswers(AlarmThread& alarms, absl::Duration max_wait, int64_t max_bytes)
    : alarms_(alarms), max_wait_(max_wait), max_bytes_(max_bytes) {}

int64_t UnreadAnswers::Add(absl::string_view reader, int64_t bytes,
                           std::function<void()> break_off) {
  const auto set_alarm = [this](absl::Duration wait, int64_t number) {
    return alarms_.Set(wait, [state = std::weak_ptr(state_), number] {
      if (const auto held = state.lock()) BreakOff(*held, number);
    });
  };
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const int64_t number = ++state_->last_number;
  state_->answers.emplace(
      number, Answer{std::string(reader), bytes, std::move(break_off), /*is_chosen=*/false,
                     /*is_broken_off=*/false, set_alarm(max_wait_, number)});
  if (bytes == 0) return number;
  Reader& owner = state_->readers[std::string(reader)];
  owner.bytes_of.emplace(number, bytes);
  owner.bytes += bytes;
  state_->bytes += bytes;
  while (state_->bytes > max_bytes_) {
    const int64_t victim = NextVictim(*state_, number);
    if (victim == 0) break;
    Answer& answer = state_->answers.at(victim);
    state_->Uncount(victim, answer);
    answer.is_chosen = true;
    // On the thread of the alarms, because gRPC may have called this one.
    alarms_.Remove(answer.alarm);
    answer.alarm = set_alarm(absl::ZeroDuration(), victim);
  }
  return number;
}

bool UnreadAnswers::Remove(int64_t number) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  const auto found = state_->answers.find(number);
  if (found == state_->answers.end()) return false;
  const Answer answer = std::move(found->second);
  state_->answers.erase(found);
  alarms_.Remove(answer.alarm);
  if (!answer.is_chosen) state_->Uncount(number, answer);
  state_->broken_off.wait(lock, [this, number] {
    return state_->breaking_off != number || state_->breaking_thread == std::this_thread::get_id();
  });
  return answer.is_broken_off;
}

int64_t UnreadAnswers::bytes() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->bytes;
}

void UnreadAnswers::State::Uncount(int64_t number, const Answer& answer) {
  if (answer.bytes == 0) return;
  const auto reader = readers.find(answer.reader);
  reader->second.bytes_of.erase(number);
  reader->second.bytes -= answer.bytes;
  bytes -= answer.bytes;
  if (reader->second.bytes_of.empty()) readers.erase(reader);
}

int64_t UnreadAnswers::NextVictim(const State& state, int64_t newest) {
  int64_t victim = 0;
  int64_t most = 0;
  for (const auto& [name, reader] : state.readers) {
    const int64_t oldest = reader.bytes_of.begin()->first;
    if (oldest == newest || reader.bytes <= most) continue;
    most = reader.bytes;
    victim = oldest;
  }
  return victim;
}

void UnreadAnswers::BreakOff(State& state, int64_t number) {
  std::function<void()> break_off;
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    const auto found = state.answers.find(number);
    if (found == state.answers.end() || found->second.is_broken_off) return;
    Answer& answer = found->second;
    if (!answer.is_chosen) state.Uncount(number, answer);
    answer.is_chosen = true;
    answer.is_broken_off = true;
    break_off = std::move(answer.break_off);
    state.breaking_off = number;
    state.breaking_thread = std::this_thread::get_id();
  }
  // No lock is held while gRPC works: it may call a method's handler on this thread, whose answer
  // is added here.
  break_off();
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    state.breaking_off = 0;
  }
  state.broken_off.notify_all();
}

}  // namespace parplan
