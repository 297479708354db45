#include "base/system/worker_threads.h"

#include <time.h>

#include <atomic>
#include <exception>

#include "base/check.h"
#include "base/system/memory_account.h"

namespace parplan {

absl::Duration ThreadCpuTime() {
  timespec time = {};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return absl::ZeroDuration();
  return absl::DurationFromTimespec(time);
}

// One call of `Run`, on the stack of its thread.
struct WorkerThreads::Job {
  Job(int64_t job_count, const std::function<void(int64_t)>& job_work)
      : count(job_count), work(job_work) {}

  void WorkThrough() {
    const MemoryAccount::Scope scope(account);
    try {
      for (int64_t index = next.fetch_add(1); index < count; index = next.fetch_add(1)) work(index);
    } catch (...) {
      next = count;  // The others begin no further piece.
      if (!has_failed.exchange(true)) error = std::current_exception();
    }
  }

  const int64_t count;
  const std::function<void(int64_t)>& work;
  MemoryAccount* const account = MemoryAccount::OfThread();
  std::atomic<int64_t> next{0};
  std::atomic<bool> has_failed = false;
  std::exception_ptr error;  // Of the first piece that failed; read when all threads are done.
  int helper_count = 0;      // Guarded by mutex_.
  absl::Duration helpers_cpu_time;  // Guarded by mutex_.
};

WorkerThreads::WorkerThreads(int helper_count) {
  PARPLAN_CHECK(helper_count >= 0);
  helpers_.reserve(helper_count);
  try {
    for (int i = 0; i < helper_count; ++i) helpers_.emplace_back([this] { Help(); });
  } catch (...) {
    // The destructor of a thread that runs would end the program.
    EndHelpers();
    throw;
  }
}

WorkerThreads::~WorkerThreads() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    PARPLAN_CHECK(jobs_.empty());
  }
  EndHelpers();
}

void WorkerThreads::EndHelpers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

absl::Duration WorkerThreads::Run(int64_t count, const std::function<void(int64_t)>& work) {
  Job job(count, work);
  if (helpers_.empty() || count <= 1) {
    job.WorkThrough();
    if (job.error != nullptr) std::rethrow_exception(job.error);
    return absl::ZeroDuration();
  }
  std::list<Job*>::iterator place;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    place = jobs_.insert(jobs_.end(), &job);
  }
  changed_.notify_all();
  job.WorkThrough();
  std::unique_lock<std::mutex> lock(mutex_);
  jobs_.erase(place);
  changed_.wait(lock, [&job] { return job.helper_count == 0; });
  if (job.error != nullptr) std::rethrow_exception(job.error);
  return job.helpers_cpu_time;
}

void WorkerThreads::Help() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    Job* job = nullptr;
    // Helpers do not join a job without pieces left.
    changed_.wait(lock, [this, &job] {
      for (Job* candidate : jobs_) {
        if (candidate->next.load() < candidate->count) {
          job = candidate;
          return true;
        }
      }
      return ending_;
    });
    if (job == nullptr) return;
    ++job->helper_count;
    lock.unlock();
    const absl::Duration start = ThreadCpuTime();
    job->WorkThrough();
    const absl::Duration spent = ThreadCpuTime() - start;
    lock.lock();
    job->helpers_cpu_time += spent;
    --job->helper_count;
    changed_.notify_all();
  }
}

}  // namespace parplan
