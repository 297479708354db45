// The parts that the NCCL groups of one GPU share: streams, events, and the thread that watches
// them.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_DEVICE_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_DEVICE_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "executor/device/cuda/cuda_queue.h"

namespace parplan::cuda {

// An object that the watching thread looks at. `Look` finds out whether operations have failed or
// take too long, and ends them then. It is called on the watching thread, without a lock. That
// thread looks at one object after the other, so `Look` must not wait for another object, nor call
// `Forget`.
class NcclWatched {
 public:
  virtual ~NcclWatched() = default;
  // Looks once, as described above; returns soon.
  virtual void Look() = 0;
};

// The shared parts of one GPU. Made by `CudaDevice`, and outlives the groups and their events. The
// thread that uses the `CudaDevice` and starts its operations calls the methods; any thread may
// also call `queue`, `IsIdle`, `Event::get`, `Event::IsReached`, `End::is_recorded` and
// `End::done`. The destructor waits for the work of all streams. All errors are those of CudaStatus
// (cuda_status.h).
class NcclDevice {
 public:
  // `queue` outlives this object.
  explicit NcclDevice(CudaQueue& queue) : queue_(queue) {}
  ~NcclDevice();

  CudaQueue& queue() { return queue_; }
  // Returns the stream that all groups of the purpose `name` share; the first call for a purpose
  // makes it. It stays this object's. Its operations run in the order in which they are started.
  // Messages of different directions have different purposes, so that none waits for another.
  absl::StatusOr<cudaStream_t> StreamOf(const std::string& name);
  // Returns the address of one float in the memory of the GPU. NCCL has no barrier, so a barrier
  // all-reduces this float instead; its value means nothing. All groups have the same one, which
  // stays this object's.
  absl::StatusOr<void*> BarrierNumber();

  // Returns the memory of the GPU that is in use, by whomever.
  absl::StatusOr<Bytes> UsedMemory() const;
  // Counts a communicator that was made for `group`, and the memory of the GPU that making it took.
  void NoteCommunicator(const std::string& group, Bytes memory);
  // Returns how many communicators were noted.
  int communicator_count() const { return communicator_count_; }
  // Returns lines of Device::Notes: how many communicators there were, and their memory; none if
  // there was none.
  std::vector<std::string> Notes() const;

  // An event of CUDA, which the destructor gives back to the pool. It may then be recorded for
  // something else, so whoever waits for the event keeps this object until it is reached. Any
  // thread may destroy it.
  class Event {
   public:
    Event(NcclDevice& device, cudaEvent_t event, bool is_timed)
        : device_(device), event_(event), is_timed_(is_timed) {}
    ~Event() { device_.Return(event_, is_timed_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    // Returns the event of CUDA, which stays this object's.
    cudaEvent_t get() const { return event_; }
    // Puts the event behind the work that `stream` has now.
    absl::Status Record(cudaStream_t stream) const;
    // Makes later work of `stream` wait until the event is reached.
    absl::Status Delay(cudaStream_t stream) const;
    // Returns whether the event is reached, or the GPU's error. REQUIRES, unchecked: it was
    // recorded after `TakeEvent`.
    absl::StatusOr<bool> IsReached() const;

   private:
    NcclDevice& device_;
    const cudaEvent_t event_;
    const bool is_timed_;
  };
  // Returns an event from the pool, or a new one if the pool is empty. CUDA measures times only
  // between timed events, which cost more.
  absl::StatusOr<std::unique_ptr<Event>> TakeEvent(bool is_timed = false);

  // The end of an operation in a stream. Its event is not recorded at once, but when a caller waits
  // for it or when the next operation of the stream starts. An event that is not reached yet holds
  // up all streams that share its hardware queue of the GPU. Recorded at once, the end of a send
  // would hold the queue up until the message is received, and the receiver may first need other
  // work in that queue, so the ranks would hang (docs/adr/0025-nccl-in-program-order.md).
  class End {
   public:
    explicit End(std::unique_ptr<Event> done) : done_(std::move(done)) {}
    // Puts the event behind the work that `stream` has now, unless it has been recorded before.
    absl::Status Record(cudaStream_t stream);
    // Returns whether the event has been recorded.
    bool is_recorded() const { return is_recorded_; }
    // Returns the event, for as long as this object lives. REQUIRES, unchecked: `is_recorded`, or
    // its state means nothing.
    const Event& done() const { return *done_; }

   private:
    const std::unique_ptr<Event> done_;
    std::atomic<bool> is_recorded_ = false;
  };
  // Makes `end` the end of the stream's latest operation, which the caller starts next. Records the
  // end of the operation before it in the stream, of whichever group, and returns it; null for the
  // first operation of the stream.
  absl::StatusOr<std::shared_ptr<End>> ExchangeLast(cudaStream_t stream, std::shared_ptr<End> end);
  // Returns whether nothing is left to do in the stream, or the GPU's error. Any thread may call
  // it.
  absl::StatusOr<bool> IsIdle(cudaStream_t stream) const;

  // Has `watched` looked at every 100 ms from now on. The first call starts the watching thread.
  // REQUIRES, unchecked: `Forget` is called before `watched` is destroyed.
  void Watch(NcclWatched* watched);
  // Ends the looks at `watched`, and waits for one that is under way. Does nothing for an object
  // that is not watched. Neither this nor `Watch` waits for a look at another object.
  void Forget(NcclWatched* watched);

 private:
  void Return(cudaEvent_t event, bool is_timed);
  void Work();

  CudaQueue& queue_;
  std::map<std::string, cudaStream_t> streams_;
  // The ends of their latest operations.
  std::map<cudaStream_t, std::shared_ptr<End>> last_;
  void* number_ = nullptr;
  // The communicators made so far, the memory that they took, and the one that took the most.
  int communicator_count_ = 0;
  Bytes communicator_memory_;
  Bytes largest_memory_;
  std::string largest_group_;

  std::mutex events_mutex_;
  // Guarded by events_mutex_: [is timed] those that are not in use.
  std::vector<cudaEvent_t> events_[2];

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::set<NcclWatched*> watched_;
  // The one that is being looked at; null between looks.
  NcclWatched* looked_at_ = nullptr;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_DEVICE_H_
