// The threads that search, and the queue in front of them. `ServerCore` owns one, on which
// `PlanCore` and `ShapeCore` search.

#ifndef PARPLAN_SERVER_CORE_SEARCH_POOL_H_
#define PARPLAN_SERVER_CORE_SEARCH_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/worker_threads.h"
#include "server/core/fair_queue.h"
#include "server/core/limits.h"
#include "server/core/observer.h"

namespace parplan {

// A queue of searches that is fair between those who ask (`FairQueue`), and the threads that run
// them. Safe to use from any thread.
class SearchPool {
 public:
  using TaskId = FairQueue::Id;

  // One search. REQUIRES: `run` and `drop` are not empty; not checked.
  struct Task {
    // Does the work, on a worker's thread, which counts for the `MemoryAccount` of the task; its
    // budget is the task's part of `search_memory_bytes`. `stopping` returns true once the pool
    // ends; a search asks it now and then. No function may throw.
    std::function<void(const std::function<bool()>& stopping)> run;
    // Called instead of `run` if the pool ends before the task's turn, with `DrainingError`, on the
    // thread of `Drain`.
    std::function<void(const absl::Status& status)> drop;
    // Called instead of `run`, with RESOURCE_EXHAUSTED (QUEUE_FULL) and the holder that lost the
    // place (empty for tasks without a holder), if the task of a holder with fewer of them takes
    // its place in a full queue; on the thread that submits that one. May submit. Empty: `drop` is
    // called.
    std::function<void(const absl::Status& status, const std::string& holder)> displace = nullptr;
    // On whose behalf it runs.
    SearchPlace place = {};
  };

  // Memory that a search gets at least, if there is a limit: the settings of the server refuse a
  // limit below it. The value was chosen; a model of 30 kinds of layers on 512 devices uses it up
  // (`hard_question` of tests/integration/abuse_long_test.py).
  static constexpr int64_t kMinSearchBytes = int64_t{128} << 20;

  // Returns how many searches run at a time with these limits: one for each worker, or fewer, so
  // that each gets `kMinSearchBytes`, but at least one. REQUIRES, unchecked: `worker_count` is
  // above 0.
  static int RunningCount(const Limits& limits);

  // Throws std::system_error if the system has no thread for one of them; none is left then.
  // `observer` outlives the pool. The limits are `worker_count`, `search_memory_bytes`,
  // `max_queue_length` and the numbers of searches of the two quotas. REQUIRES: `worker_count` and
  // `max_queue_length` are above 0; aborts otherwise.
  SearchPool(const Limits& limits, Observer& observer);

  // Calls `Drain(0)`.
  ~SearchPool();

  SearchPool(const SearchPool&) = delete;
  SearchPool& operator=(const SearchPool&) = delete;

  // Returns UNAVAILABLE (DRAINING).
  static absl::Status DrainingError();

  // Queues a task. After OK exactly one of `run`, `drop` and `displace` is called, perhaps before
  // it returns; after an error none. The errors of `FairQueue::Add`; UNAVAILABLE (DRAINING).
  absl::StatusOr<TaskId> Submit(Task task);

  // Another holder waits for the task too: see `FairQueue::Share`. Does nothing for a task that
  // does not wait any more.
  void Share(TaskId id, const std::string& holder);

  // Refuses new tasks from now on; those that wait and run go on.
  void StopTaking();

  // Refuses new tasks, waits up to `grace` until all are done, then lets `stopping` return true,
  // drops the tasks that wait, and joins the threads. Must not be called on a worker's thread. A
  // later call returns once the first has ended.
  void Drain(absl::Duration grace);

  // Returns the threads that help searches, one fewer than `Limits::worker_count`: a search that
  // runs alone has `worker_count` threads with its own, and several searches share the helpers.
  WorkerThreads& helpers() { return helpers_; }

 private:
  void Work();
  // Runs a task with an account for its memory.
  void Run(Task task, const std::function<bool()>& stopping) const;
  void Report() { observer_.QueueChanged(queue_.waiting(), queue_.running()); }

  Observer& observer_;
  // Bytes that one search may have.
  const int64_t search_bytes_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  FairQueue queue_;               // Guarded by mutex_.
  std::map<TaskId, Task> tasks_;  // Those that wait. Guarded by mutex_.
  bool taking_ = true;            // Guarded by mutex_.
  bool stopping_ = false;         // Guarded by mutex_.

  WorkerThreads helpers_;

  std::mutex drain_mutex_;            // One `Drain` at a time.
  std::vector<std::thread> workers_;  // Guarded by drain_mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SEARCH_POOL_H_
