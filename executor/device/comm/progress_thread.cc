#include "executor/device/comm/progress_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

namespace parplan {
namespace {

// Pauses between two polls of all communicators, each of which has a bell of its own: the shortest
// while bytes move, up to the longest while messages wait for a rank that computes, since every
// poll takes the core from its owner.
constexpr auto kShortestPause = std::chrono::microseconds(50);
constexpr auto kLongestPause = std::chrono::microseconds(400);

// Raises the priority of this thread above its owner's. A rank in the real-time class keeps its
// core until it waits, so without this its messages would only move then; that is also the case
// where the system does not permit it.
void ComeBeforeOwner() {
  int policy = SCHED_OTHER;
  sched_param priority = {};
  if (::pthread_getschedparam(::pthread_self(), &policy, &priority) != 0) return;
  if (policy != SCHED_FIFO && policy != SCHED_RR) return;
  priority.sched_priority = std::min(priority.sched_priority + 1, ::sched_get_priority_max(policy));
  ::pthread_setschedparam(::pthread_self(), policy, &priority);
}

}  // namespace

ProgressThread::ProgressThread() : thread_([this] { Work(); }) {}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void ProgressThread::Add(CpuCommunicator* communicator) {
  const std::lock_guard<std::mutex> lock(list_mutex_);
  communicators_.push_back(communicator);
}

void ProgressThread::Remove(CpuCommunicator* communicator) {
  const std::lock_guard<std::mutex> lock(list_mutex_);
  std::erase(communicators_, communicator);
}

void ProgressThread::Wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (has_work_) return;
  has_work_ = true;
  changed_.notify_all();
}

bool ProgressThread::MoveAll(bool& is_busy) {
  const std::lock_guard<std::mutex> lock(list_mutex_);
  bool has_moved = false;
  is_busy = false;
  for (CpuCommunicator* const communicator : communicators_) {
    if (!communicator->IsBusy()) continue;
    has_moved |= communicator->Progress();
    is_busy |= communicator->IsBusy();
  }
  return has_moved;
}

void ProgressThread::Work() {
  ComeBeforeOwner();
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return has_work_ || is_ending_; });
    if (is_ending_) return;
    has_work_ = false;
    lock.unlock();
    bool is_busy = true;
    auto pause = kShortestPause;
    while (is_busy) {
      const bool has_moved = MoveAll(is_busy);
      if (has_moved) {
        pause = kShortestPause;
      } else if (is_busy) {
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, kLongestPause);
      }
      if (!has_moved) {
        const std::lock_guard<std::mutex> again(mutex_);
        if (is_ending_) return;
      }
    }
    lock.lock();
  }
}

}  // namespace parplan
