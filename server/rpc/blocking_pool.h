// Threads for work that waits for a disk, so that gRPC's own threads never wait. `RpcServer` owns
// two (`RpcContext::pool` and `question_pool`).

#ifndef PARPLAN_SERVER_RPC_BLOCKING_POOL_H_
#define PARPLAN_SERVER_RPC_BLOCKING_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace parplan {

// A first-in, first-out queue and its threads. The queue holds at most one piece of work for each
// call in progress, so the limits of the transport bound it. Safe to use from any thread.
class BlockingPool {
 public:
  // Throws std::system_error if the system has no thread for one of them; none is left then.
  // REQUIRES: `thread_count` is above 0, which is not checked; without threads no work would run.
  explicit BlockingPool(int thread_count);

  // Finishes the queued work, then joins the threads.
  ~BlockingPool();

  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Queues `work`, which must not throw, for one of the threads, and returns at once. The queue has
  // no limit of its own. Work begins in the order of the calls. REQUIRES: the destructor has not
  // begun; not checked.
  void Run(std::function<void()> work);

 private:
  void Loop();
  // Finishes the queued work and joins the threads.
  void EndThreads();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;  // Guarded by mutex_.
  bool ending_ = false;                      // Guarded by mutex_.
  std::vector<std::thread> threads_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_BLOCKING_POOL_H_
