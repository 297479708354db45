#include "server/core/search_pool.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/system/memory_account.h"

namespace parplan {
namespace {

// A search that had so much gives what it freed back to the system at its end. Not measured for
// other values: smaller ones make small searches longer.
constexpr int64_t kLargeSearchBytes = int64_t{64} << 20;

int64_t SearchBytesOf(const Limits& limits) {
  if (limits.search_memory_bytes == 0) return std::numeric_limits<int64_t>::max();
  return limits.search_memory_bytes / SearchPool::RunningCount(limits);
}

FairQueue::Bounds BoundsOf(const Limits& limits) {
  return {.max_length = limits.max_queue_length,
          .worker_count = SearchPool::RunningCount(limits),
          .max_running_of_holder = limits.identity_quota.running_search_count,
          .max_waiting_of_holder = limits.identity_quota.queued_search_count,
          .max_running_of_cluster = limits.cluster_quota.running_search_count,
          .max_waiting_of_cluster = limits.cluster_quota.queued_search_count};
}

}  // namespace

int SearchPool::RunningCount(const Limits& limits) {
  if (limits.search_memory_bytes == 0) return limits.worker_count;
  const int64_t count = limits.search_memory_bytes / kMinSearchBytes;
  return static_cast<int>(std::clamp<int64_t>(count, 1, limits.worker_count));
}

SearchPool::SearchPool(const Limits& limits, Observer& observer)
    : observer_(observer),
      search_bytes_(SearchBytesOf(limits)),
      queue_(BoundsOf(limits)),
      helpers_(std::max(limits.worker_count, 1) - 1) {
  const int running_count = RunningCount(limits);
  workers_.reserve(running_count);
  try {
    for (int i = 0; i < running_count; ++i) workers_.emplace_back([this] { Work(); });
  } catch (...) {
    // The destructor of a thread that runs would end the program.
    Drain(absl::ZeroDuration());
    throw;
  }
}

SearchPool::~SearchPool() { Drain(absl::ZeroDuration()); }

absl::Status SearchPool::DrainingError() {
  return MakeError(absl::StatusCode::kUnavailable, Reason::kDraining,
                   "the server is shutting down; ask again, or ask another replica");
}

absl::StatusOr<SearchPool::TaskId> SearchPool::Submit(Task task) {
  std::optional<FairQueue::Displaced> displaced;
  Task loser;
  absl::Status loss;
  TaskId id = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!taking_) return DrainingError();
    absl::StatusOr<FairQueue::Added> added = queue_.Add(task.place);
    if (!added.ok()) return added.status();
    id = added->id;
    displaced = added->displaced;
    if (displaced.has_value()) {
      loser = std::move(tasks_.extract(displaced->id).mapped());
      loss = queue_.DisplacedError();
    }
    tasks_[id] = std::move(task);
    Report();
  }
  changed_.notify_all();
  if (displaced.has_value()) {
    if (loser.displace) {
      loser.displace(loss, displaced->holder);
    } else {
      loser.drop(loss);
    }
  }
  return id;
}

void SearchPool::Share(TaskId id, const std::string& holder) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.Share(id, holder);
  }
  // The other holder may be allowed to run it at once.
  changed_.notify_all();
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
  std::map<TaskId, Task> dropped;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_done = [this] { return queue_.waiting() == 0 && queue_.running() == 0; };
    // A year at most: longer times overflow the clock.
    changed_.wait_for(lock, absl::ToChronoMicroseconds(std::min(grace, absl::Hours(24 * 365))),
                      is_done);
    stopping_ = true;
    queue_.Clear();
    dropped.swap(tasks_);
    Report();
  }
  changed_.notify_all();
  for (const auto& [id, task] : dropped) task.drop(DrainingError());
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void SearchPool::Run(Task task, const std::function<bool()>& stopping) const {
  MemoryAccount account(search_bytes_);
  {
    const MemoryAccount::Scope scope(&account);
    task.run(stopping);
    task = Task();  // Destroys what the task holds before it counts as done.
  }
  if (account.peak_bytes() > kLargeSearchBytes) ReturnFreedMemory();
}

void SearchPool::Work() {
  const std::function<bool()> stopping = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stopping_;
  };
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    std::optional<TaskId> next;
    changed_.wait(lock, [&] { return stopping_ || (next = queue_.Take()).has_value(); });
    if (stopping_) return;
    Task task = std::move(tasks_.extract(*next).mapped());
    Report();
    lock.unlock();
    Run(std::move(task), stopping);
    lock.lock();
    queue_.End(*next);
    Report();
    changed_.notify_all();
  }
}

}  // namespace parplan
