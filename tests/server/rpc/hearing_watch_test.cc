#include "server/rpc/hearing_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace parplan {
namespace {

// What a watch reported, which other threads can wait for.
class Reports {
 public:
  void Add(bool hears) {
    const std::lock_guard<std::mutex> lock(mutex_);
    changes_.push_back(hears);
    changed_.notify_all();
  }
  void AddDeaf() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++deaf_count_;
    changed_.notify_all();
  }
  void AwaitChanges(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return changes_.size() >= count; });
  }
  void AwaitDeaf() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return deaf_count_ > 0; });
  }
  std::vector<bool> changes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return changes_;
  }
  int deaf_count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return deaf_count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> changes_;
  int deaf_count_ = 0;
};

TEST(HearingWatch, ReportsEachChangeOnce) {
  Reports reports;
  std::atomic<bool> answers = true;
  const HearingWatch watch(
      [&] { return answers ? absl::OkStatus() : absl::UnavailableError("deaf"); },
      {.interval = absl::Milliseconds(1), .max_deafness = absl::InfiniteDuration()},
      [&](const absl::Status& status) { reports.Add(status.ok()); }, [&] { reports.AddDeaf(); });
  answers = false;
  reports.AwaitChanges(1);
  answers = true;
  reports.AwaitChanges(2);
  EXPECT_EQ(reports.changes(), std::vector<bool>({false, true}));
  EXPECT_EQ(reports.deaf_count(), 0);
}

TEST(HearingWatch, SaysWhenDeafnessLasts) {
  Reports reports;
  const HearingWatch watch(
      [] { return absl::UnavailableError("deaf"); },
      {.interval = absl::Milliseconds(1), .max_deafness = absl::Milliseconds(20)},
      [&](const absl::Status& status) { reports.Add(status.ok()); }, [&] { reports.AddDeaf(); });
  reports.AwaitDeaf();
  EXPECT_EQ(reports.changes(), std::vector<bool>({false}));
}

}  // namespace
}  // namespace parplan
