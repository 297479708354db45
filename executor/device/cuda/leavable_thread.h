// A thread for one call that has no deadline of its own.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_LEAVABLE_THREAD_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_LEAVABLE_THREAD_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace parplan::cuda {

// Runs `work` on a thread of its own. The destructor joins the thread if `work` has returned, and
// otherwise leaves it behind: `work` must not use what its maker may destroy.
class LeavableThread {
 public:
  explicit LeavableThread(std::function<void()> work) : state_(std::make_shared<State>()) {
    thread_ = std::thread([state = state_, work = std::move(work)] {
      work();
      const std::lock_guard<std::mutex> lock(state->mutex);
      state->is_over = true;
      state->changed.notify_all();
    });
  }
  ~LeavableThread() {
    if (IsOverWithin(std::chrono::milliseconds(0))) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }
  LeavableThread(const LeavableThread&) = delete;
  LeavableThread& operator=(const LeavableThread&) = delete;

  // Waits until `work` has returned, no longer than `time`. Returns whether it has; this thread
  // then sees everything that it wrote.
  bool IsOverWithin(std::chrono::milliseconds time) {
    std::unique_lock<std::mutex> lock(state_->mutex);
    return state_->changed.wait_for(lock, time, [&] { return state_->is_over; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    // Guarded by mutex.
    bool is_over = false;
  };

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_LEAVABLE_THREAD_H_
