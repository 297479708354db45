#include "server/main/upkeep.h"
#include "base/system/steady_clock.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace parplan {
Upkeep::Upkeep(Work work) : work_(std::move(work)), thread_([this] { Run(); }) {}

Upkeep::~Upkeep() {
  Stop();
  thread_.join();
}

void Upkeep::MaintainNow() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_asked_ = true;
  }
  changed_.notify_all();
}

void Upkeep::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
}

void Upkeep::Run() {
  absl::Duration next_maintenance;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_stopped_) {
    if (std::exchange(is_asked_, false) || SteadyNow() >= next_maintenance) {
      lock.unlock();
      const bool has_more = work_.maintain();
      next_maintenance = SteadyNow() + (has_more ? absl::ZeroDuration() : work_.maintain_interval);
      lock.lock();
      if (is_stopped_) return;
    }
    lock.unlock();
    work_.look();
    lock.lock();
    const absl::Duration pause = std::min(work_.look_interval, next_maintenance - SteadyNow());
    changed_.wait_for(lock, absl::ToChronoNanoseconds(pause),
                      [this] { return is_asked_ || is_stopped_; });
  }
}

}  // namespace parplan
