#include "server/core/search_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace parplan {

SearchPool::SearchPool(int worker_count, int max_queue_length, Observer& observer)
    : max_queue_length_(max_queue_length),
      observer_(observer),
      helpers_(std::max(worker_count, 1) - 1) {
  PARPLAN_CHECK(worker_count >= 1);
  PARPLAN_CHECK(max_queue_length >= 1);
  workers_.reserve(worker_count);
  for (int i = 0; i < worker_count; ++i) workers_.emplace_back([this] { Work(); });
}

SearchPool::~SearchPool() { Drain(absl::ZeroDuration()); }

absl::Status SearchPool::DrainingError() {
  return MakeError(absl::StatusCode::kUnavailable, Reason::kDraining,
                   "the server is shutting down; ask again, or ask another replica");
}

absl::Status SearchPool::Submit(Task task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!taking_) return DrainingError();
    const int waiting = static_cast<int>(queue_.size());
    if (waiting >= max_queue_length_) {
      return MakeError(absl::StatusCode::kResourceExhausted, Reason::kQueueFull,
                       absl::StrCat(waiting, " searches wait already; ask again in a few seconds"),
                       {{"queueLength", absl::StrCat(waiting)}});
    }
    queue_.push_back(std::move(task));
    observer_.QueueChanged(waiting + 1, running_);
  }
  changed_.notify_all();
  return absl::OkStatus();
}

void SearchPool::StopTaking() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    taking_ = false;
  }
  changed_.notify_all();
}

void SearchPool::Drain(absl::Duration grace) {
  const std::lock_guard<std::mutex> drain_lock(drain_mutex_);
  StopTaking();
  std::deque<Task> dropped;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_done = [this] { return queue_.empty() && running_ == 0; };
    // A year at most: longer times overflow the clock.
    changed_.wait_for(lock, absl::ToChronoMicroseconds(std::min(grace, absl::Hours(24 * 365))),
                      is_done);
    stopping_ = true;
    dropped.swap(queue_);
    observer_.QueueChanged(0, running_);
  }
  changed_.notify_all();
  for (const Task& task : dropped) task.drop(DrainingError());
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void SearchPool::Work() {
  const std::function<bool()> stopping = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stopping_;
  };
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    observer_.QueueChanged(static_cast<int>(queue_.size()), running_);
    lock.unlock();
    task.run(stopping);
    task = Task();  // Destroys what the task holds before it counts as done.
    lock.lock();
    --running_;
    observer_.QueueChanged(static_cast<int>(queue_.size()), running_);
    changed_.notify_all();
  }
}

}  // namespace parplan
