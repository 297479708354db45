#include "server/rpc/blocking_pool.h"

#include <utility>

namespace parplan {

BlockingPool::BlockingPool(int thread_count) {
  threads_.reserve(thread_count);
  try {
    for (int i = 0; i < thread_count; ++i) threads_.emplace_back([this] { Loop(); });
  } catch (...) {
    // The destructor of a thread that runs would end the program.
    EndThreads();
    throw;
  }
}

BlockingPool::~BlockingPool() { EndThreads(); }

void BlockingPool::EndThreads() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockingPool::Run(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void BlockingPool::Loop() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace parplan
