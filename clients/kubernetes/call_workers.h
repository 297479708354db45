// Threads for calls that wait for the disk or for their client. `ReportService` has them.

#ifndef PARPLAN_CLIENTS_KUBERNETES_CALL_WORKERS_H_
#define PARPLAN_CLIENTS_KUBERNETES_CALL_WORKERS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace parplan::sidecar {

// Runs at most as many tasks at a time as it has threads. Safe to use from any thread.
class CallWorkers {
 public:
  // REQUIRES, unchecked: `thread_count` is above 0.
  explicit CallWorkers(int thread_count);
  // Waits for the tasks that run.
  ~CallWorkers();

  CallWorkers(const CallWorkers&) = delete;
  CallWorkers& operator=(const CallWorkers&) = delete;

  // Runs the task soon on one of the threads. Returns false, and does not run it, if all are busy.
  // A task must not throw: an exception that leaves it ends the program.
  bool Run(std::function<void()> task);

  // Returns whether no task runs or waits.
  bool is_idle() const;

 private:
  void Loop();

  const int thread_count_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // At most as many as there are idle threads.
  std::deque<std::function<void()>> tasks_;
  int free_count_;
  bool is_ending_ = false;
  // Start after the others.
  std::vector<std::thread> threads_;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_CALL_WORKERS_H_
