// Threads that help whoever has many pieces of the same work.

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

// Safe to use from any thread. Fits `SearchControl::parallel_for`.
class WorkerThreads {
 public:
  // Starts the helpers; 0 of them do, and everything runs on the caller's thread then.
  explicit WorkerThreads(int helper_count);

  // REQUIRES: nobody is in `Run`.
  ~WorkerThreads();

  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  // Calls `work` for every index below `count`, on the calling thread and on helpers that
  // have nothing else to do, and returns when all are done. The caller never waits for a
  // helper to be free, so calls may come from several threads at once and from within
  // `work`. Gives the processor time that helpers spent.
  absl::Duration Run(int64_t count, const std::function<void(int64_t)>& work);

  int helper_count() const { return static_cast<int>(helpers_.size()); }

 private:
  struct Job;

  void Help();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Those that helpers may join, the oldest first. Guarded by mutex_.
  std::list<Job*> jobs_;
  bool ending_ = false;  // Guarded by mutex_.
  std::vector<std::thread> helpers_;
};

// Processor time of the calling thread.
absl::Duration ThreadCpuTime();

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_WORKER_THREADS_H_
