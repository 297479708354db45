#include "profiler-agent/passive/passive_recorder.h"

#include <algorithm>
#include <utility>

namespace parplan {
namespace {

// Interval at which the queue is drained; it holds the samples of at least a second.
constexpr std::chrono::milliseconds kDrainInterval = std::chrono::seconds(1);

}  // namespace

PassiveSampling SamplingAt(std::chrono::milliseconds elapsed, std::chrono::milliseconds recorded,
                           std::chrono::milliseconds period) {
  const std::chrono::milliseconds place = elapsed % period;
  if (recorded >= period) return {.is_on = true, .remaining = period - place};
  if (place < recorded) return {.is_on = true, .remaining = recorded - place};
  return {.is_on = false, .remaining = period - place};
}

PassiveRecorder::PassiveRecorder(PassiveOptions options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

PassiveRecorder::~PassiveRecorder() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void PassiveRecorder::ChannelDone(uint64_t operation) {
  if (const auto sample = operations_.ChannelDone(operation)) samples_.Put(*sample);
}

void PassiveRecorder::Run() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Clock::time_point next = begin + options_.window;
  bool is_on = true;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_ending_) {
    const PassiveSampling sampling =
        SamplingAt(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin),
                   options_.recorded, options_.period);
    if (sampling.is_on != is_on && options_.switch_recording) {
      options_.switch_recording(sampling.is_on);
    }
    is_on = sampling.is_on;
    changed_.wait_for(lock, std::min({kDrainInterval, options_.window, sampling.remaining}));
    lock.unlock();
    const bool is_over = Clock::now() >= next;
    Collect(is_over);
    if (is_over) next = Clock::now() + options_.window;
    lock.lock();
  }
  lock.unlock();
  Collect(true);
}

void PassiveRecorder::Collect(bool leaves) noexcept {
  try {
    Drain();
    if (leaves) Leave();
  } catch (...) {
    // Out of memory: recording must not end the job.
    window_ = PassiveWindow();
  }
}

void PassiveRecorder::Drain() {
  while (const auto sample = samples_.Take()) window_.Add(*sample);
}

void PassiveRecorder::Leave() {
  if (window_.is_empty()) return;
  const int64_t number = window_count_++;
  // A full or missing folder loses the window: recording must not fail the job.
  LeaveFile(options_.folder, options_.prefix + "-" + std::to_string(number),
            window_.ToJson(options_.rank, number), options_.max_files);
  window_ = PassiveWindow();
}

}  // namespace parplan
