// The threads that search, and the queue in front of them. `ServerCore` owns one, on which
// `PlanCore` and `ShapeCore` search.

#ifndef PARPLAN_SERVER_CORE_SEARCH_POOL_H_
#define PARPLAN_SERVER_CORE_SEARCH_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/system/worker_threads.h"
#include "server/core/observer.h"

namespace parplan {

// A first-in, first-out queue of searches and the threads that run them. Safe to use from any
// thread.
class SearchPool {
 public:
  struct Task {
    // Does the work, on a worker's thread. `stopping` returns true once the pool ends; a search
    // asks it now and then. Neither function may throw.
    std::function<void(const std::function<bool()>& stopping)> run;
    // Called instead of `run` if the pool ends before the task's turn, with `DrainingError`, on the
    // thread of `Drain`.
    std::function<void(const absl::Status& status)> drop;
  };

  // `observer` outlives the pool. REQUIRES: both counts are above 0.
  SearchPool(int worker_count, int max_queue_length, Observer& observer);

  // Calls `Drain(0)`.
  ~SearchPool();

  SearchPool(const SearchPool&) = delete;
  SearchPool& operator=(const SearchPool&) = delete;

  // Returns UNAVAILABLE (DRAINING).
  static absl::Status DrainingError();

  // Queues a task. After OK exactly one of `run` and `drop` is called; after an error neither.
  // RESOURCE_EXHAUSTED (QUEUE_FULL) with the `queueLength`; UNAVAILABLE (DRAINING).
  absl::Status Submit(Task task);

  // Refuses new tasks from now on.
  void StopTaking();

  // Refuses new tasks, waits up to `grace` until all are done, then lets `stopping` return true,
  // drops the tasks that wait, and joins the threads. Must not be called on a worker's thread. A
  // later call returns once the first has ended.
  void Drain(absl::Duration grace);

  // Returns the threads that help searches, one fewer than there are workers: a search that runs
  // alone has as many threads as there are workers, and several searches share them.
  WorkerThreads& helpers() { return helpers_; }

 private:
  void Work();

  const int max_queue_length_;
  Observer& observer_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;  // Guarded by mutex_.
  int running_ = 0;         // Guarded by mutex_.
  bool taking_ = true;      // Guarded by mutex_.
  bool stopping_ = false;   // Guarded by mutex_.

  WorkerThreads helpers_;

  std::mutex drain_mutex_;            // One `Drain` at a time.
  std::vector<std::thread> workers_;  // Guarded by drain_mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SEARCH_POOL_H_
