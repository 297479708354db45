#include "server/rpc/alarm_thread.h"

#include <chrono>

#include "base/system/clock.h"

namespace parplan {

AlarmThread::AlarmThread() : thread_([this] { Loop(); }) {}

AlarmThread::~AlarmThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

AlarmThread::Alarm AlarmThread::Set(absl::Duration wait, std::function<void()> ring) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Alarm alarm{Clock::Real().Steady() + wait, next_number_++};
  const auto added = alarms_.emplace(alarm, std::move(ring)).first;
  if (added == alarms_.begin()) changed_.notify_one();
  return alarm;
}

void AlarmThread::Remove(const Alarm& alarm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  alarms_.erase(alarm);
}

void AlarmThread::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_ending_) {
    if (alarms_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const absl::Duration left = alarms_.begin()->first.first - Clock::Real().Steady();
    if (left > absl::ZeroDuration()) {
      changed_.wait_for(lock, absl::ToChronoMicroseconds(left) + std::chrono::microseconds(1));
      continue;
    }
    const std::function<void()> ring = std::move(alarms_.begin()->second);
    alarms_.erase(alarms_.begin());
    lock.unlock();
    ring();
    lock.lock();
  }
}

}  // namespace parplan
