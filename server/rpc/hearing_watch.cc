#include "server/rpc/hearing_watch.h"

#include <utility>

#include "base/system/clock.h"

namespace parplan {

HearingWatch::HearingWatch(std::function<absl::Status()> probe, const Options& options,
                           std::function<void(const absl::Status&)> on_change,
                           std::function<void()> on_deaf)
    : probe_(std::move(probe)),
      options_(options),
      on_change_(std::move(on_change)),
      on_deaf_(std::move(on_deaf)),
      thread_([this] { Loop(); }) {}

HearingWatch::~HearingWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HearingWatch::Loop() {
  bool hears = true;
  absl::Duration last_success = Clock::Real().Steady();
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_for(lock, absl::ToChronoNanoseconds(options_.interval),
                        [this] { return is_ending_; });
      if (is_ending_) return;
    }
    const absl::Status status = probe_();
    const absl::Duration now = Clock::Real().Steady();
    if (status.ok()) last_success = now;
    if (status.ok() != hears) {
      hears = status.ok();
      on_change_(status);
    }
    if (!hears && now - last_success >= options_.max_deafness) on_deaf_();
  }
}

}  // namespace parplan
