// A thread that moves operations of communicators while their owners compute. `JobFabric` has one.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_PROGRESS_THREAD_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_PROGRESS_THREAD_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "executor/device/comm/cpu_communicator.h"

namespace parplan {

// Sleeps while no operation is under way. All methods may be called from any thread.
class ProgressThread {
 public:
  ProgressThread();
  // Ends the thread, without waiting for operations under way.
  ~ProgressThread();

  // Adds a communicator. REQUIRES, unchecked: `Remove` is called before it is destroyed.
  void Add(CpuCommunicator* communicator);
  // Removes it; blocks while the thread uses it.
  void Remove(CpuCommunicator* communicator);
  // Wakes the thread because an operation was started.
  void Wake();

 private:
  void Work();
  // Moves the operations of all communicators. Returns whether any byte moved; `is_busy` says
  // whether any operation is still under way.
  bool MoveAll(bool& is_busy);

  // Guards `communicators_`; held while the thread uses them.
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
