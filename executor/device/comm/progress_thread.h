// Moves operations of communicators on while their owners compute.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_PROGRESS_THREAD_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_PROGRESS_THREAD_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "executor/device/comm/cpu_communicator.h"

namespace parplan {

// Sleeps while nothing is under way. Safe to use from any thread.
class ProgressThread {
 public:
  ProgressThread();
  ~ProgressThread();

  // REQUIRES: `Remove` before the communicator is gone.
  void Add(CpuCommunicator* communicator);
  // Blocks while the thread is at it.
  void Remove(CpuCommunicator* communicator);
  // Something was started.
  void Wake();

 private:
  void Work();
  // Moves all; whether anything moved, and whether anything is under way.
  bool MoveAll(bool& is_busy);

  // Guards `communicators_`; held while they are moved.
  std::mutex list_mutex_;
  std::vector<CpuCommunicator*> communicators_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_work_ = false;   // Guarded by mutex_.
  bool is_ending_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_PROGRESS_THREAD_H_
