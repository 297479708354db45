#include "clients/kubernetes/call_workers.h"

#include <utility>

namespace parplan::sidecar {

CallWorkers::CallWorkers(int thread_count)
    : thread_count_(thread_count), free_count_(thread_count) {
  threads_.reserve(thread_count);
  for (int i = 0; i < thread_count; ++i) threads_.emplace_back([this] { Loop(); });
}

CallWorkers::~CallWorkers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool CallWorkers::Run(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_count_ == 0 || is_ending_) return false;
    --free_count_;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

bool CallWorkers::is_idle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return free_count_ == thread_count_;
}

void CallWorkers::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
    ++free_count_;
  }
}

}  // namespace parplan::sidecar
