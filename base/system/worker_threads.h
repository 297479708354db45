// A parallel loop: threads that help a caller with many pieces of the same work. The server's
// `SearchPool` has one for all searches, and `planctl` makes one for a search without a server
// (solve/run_search.h).

#ifndef PARPLAN_BASE_SYSTEM_WORKER_THREADS_H_
#define PARPLAN_BASE_SYSTEM_WORKER_THREADS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace parplan {

// A pool of helper threads. Safe to use from any thread. `Run` fits `SearchControl::parallel_for`.
class WorkerThreads {
 public:
  // Starts the helpers. With 0 of them everything runs on the caller's thread. Throws
  // std::system_error if the system has no thread for one of them; none is left then. REQUIRES:
  // `helper_count` is at least 0; aborts otherwise.
  explicit WorkerThreads(int helper_count);

  // Ends the helpers. REQUIRES: no call of `Run` is in progress; aborts otherwise.
  ~WorkerThreads();

  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  // Calls `work(index)` once for every index from 0 to below `count`, in any order, and returns
  // when all calls have returned. The calling thread makes the calls together with idle helpers,
  // also those that become idle later, so several threads are in `work` at once. The caller never
  // waits for a busy helper to begin, so several threads may call `Run` at once, and `work` may
  // too. What helpers allocate counts for the caller's `MemoryAccount` (memory_account.h). Returns
  // the processor time that helpers spent in this call; 0 if there are no helpers or `count` is at
  // most 1, since the caller then works alone. Does nothing if `count` is 0 or below. If `work`
  // throws, throws the first exception once all calls that had begun have returned; calls that had
  // not begun are left out.
  absl::Duration Run(int64_t count, const std::function<void(int64_t)>& work);

  // Number of helpers; threads that call `Run` are not among them.
  int helper_count() const { return static_cast<int>(helpers_.size()); }

 private:
  struct Job;

  void Help();
  // Ends the helpers and waits for them.
  void EndHelpers();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Jobs that helpers may join, oldest first. Guarded by mutex_.
  std::list<Job*> jobs_;
  bool ending_ = false;  // Guarded by mutex_.
  std::vector<std::thread> helpers_;
};

// Returns the processor time of the calling thread; 0 if the system does not count it.
absl::Duration ThreadCpuTime();

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_WORKER_THREADS_H_
