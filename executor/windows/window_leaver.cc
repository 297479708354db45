#include "executor/windows/window_leaver.h"

#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/system/posix_file.h"
#include "executor/windows/step_aside.h"
#include "proto/wire/json_file.h"

namespace parplan {
namespace {

constexpr char kEnding[] = ".window.json";

int WaitingFiles(const std::string& folder) {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (absl::EndsWith(entry->path().native(), kEnding)) ++count;
  }
  return count;
}

// Returns a name that no other job uses; process ids do not do, since those of several containers
// may be equal.
std::string Unlike(const std::string& name) {
  std::random_device random;
  return absl::StrCat(name, "-", absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

}  // namespace

WindowLeaver::WindowLeaver(std::string folder, const std::string& name)
    : folder_(std::move(folder)), name_(Unlike(name)), thread_([this] { Work(); }) {}

WindowLeaver::~WindowLeaver() {
  if (thread_.joinable()) Finish();
}

void WindowLeaver::Add(const v1::MeasuredWindow& window) {
  if (window.collective_timings().empty()) return;
  v1::MeasuredWindow collectives = window;
  collectives.clear_phase_durations();
  collectives.clear_memory_items();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (queue_.size() == kMaxQueueLength) {
      ++lost_count_;
      return;
    }
    queue_.push_back(std::move(collectives));
  }
  changed_.notify_one();
}

int64_t WindowLeaver::Finish() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_finishing_ = true;
  }
  changed_.notify_one();
  thread_.join();
  const std::lock_guard<std::mutex> lock(mutex_);
  return lost_count_;
}

void WindowLeaver::Work() {
  StepAside();
  std::unique_lock<std::mutex> lock(mutex_);
  for (int64_t number = 0;; ++number) {
    changed_.wait(lock, [this] { return is_finishing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const v1::MeasuredWindow window = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const bool is_left =
        LeaveWindow(folder_, absl::StrCat(name_, "-", number), window, kMaxFileCount);
    lock.lock();
    if (!is_left) ++lost_count_;
  }
}

bool LeaveWindow(const std::string& folder, const std::string& name,
                 const v1::MeasuredWindow& window, int max_file_count) {
  if (WaitingFiles(folder) >= max_file_count) return false;
  return AtomicWrite(absl::StrCat(folder, "/", name, kEnding), ToReadableJson(window)).ok();
}

}  // namespace parplan
