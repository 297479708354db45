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

// An object that the thread watches. `Look` finds out whether operations have failed or take too
// long, and ends them then. Called on the watching thread, which holds no lock meanwhile; other
// objects are looked at when it returns, so it must not wait for one of them. It must not call
// `Forget`.
class NcclWatched {
 public:
  virtual ~NcclWatched() = default;
  // Looks once, as described above; returns soon.
  virtual void Look() = 0;
};

// Made by `CudaDevice`, whose thread takes streams and events and calls `Watch` and `Forget`. It
// outlives its groups. The destructor waits for the work of all streams. All errors are those of
// CudaStatus (cuda_status.h).
class NcclDevice {
 public:
  explicit NcclDevice(CudaQueue& queue) : queue_(queue) {}
  ~NcclDevice();

  CudaQueue& queue() { return queue_; }
  // Returns the stream of the groups of one purpose, whose operations run in the order in which
  // they are started. Messages of different directions have purposes of their own, so that none
  // waits for another.
  absl::StatusOr<cudaStream_t> StreamOf(const std::string& name);
  // Returns a number in the memory of the GPU, which barriers all-reduce.
  absl::StatusOr<void*> BarrierNumber();

  // Returns the memory of the GPU that is in use, by whomever.
  absl::StatusOr<Bytes> UsedMemory() const;
  // Notes what the making of a group's communicator took of the GPU.
  void NoteCommunicator(const std::string& group, Bytes memory);
  // Returns how many communicators were noted.
  int communicator_count() const { return communicator_count_; }
  // Returns lines of Device::Notes: how many communicators there were, and their memory; none if
  // there was none.
  std::vector<std::string> Notes() const;

  // An event that goes back to the pool. It outlives the work that waits for it. Any thread may
  // destroy it.
  class Event {
   public:
    Event(NcclDevice& device, cudaEvent_t event, bool is_timed)
        : device_(device), event_(event), is_timed_(is_timed) {}
    ~Event() { device_.Return(event_, is_timed_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    // Returns the event of CUDA, which stays this object's.
    cudaEvent_t get() const { return event_; }
    // Puts the event behind the present work of `stream`.
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
  // Only timed events measure times; they cost more.
  absl::StatusOr<std::unique_ptr<Event>> TakeEvent(bool is_timed = false);

  // The end of an operation in a stream. Its event is recorded when a caller waits for it or when
  // the next operation of the stream starts, not at once: an event that is not reached yet holds up
  // what shares a hardware queue with it, and a message may only be received after that.
  class End {
   public:
    explicit End(std::unique_ptr<Event> done) : done_(std::move(done)) {}
    // Puts the event behind the present work of `stream`, unless it is recorded. Called by the
    // thread that starts operations.
    absl::Status Record(cudaStream_t stream);
    bool is_recorded() const { return is_recorded_; }
    // REQUIRES, unchecked, for its state to say something: `is_recorded`.
    const Event& done() const { return *done_; }

   private:
    const std::unique_ptr<Event> done_;
    std::atomic<bool> is_recorded_ = false;
  };
  // Makes `end` the end of the stream's latest operation, and returns that of the one before it,
  // recorded, or null. Called by the thread that starts operations, before it starts this one.
  absl::StatusOr<std::shared_ptr<End>> ExchangeLast(cudaStream_t stream, std::shared_ptr<End> end);
  // Returns whether nothing is left to do in the stream, or the GPU's error. Any thread may call
  // it.
  absl::StatusOr<bool> IsIdle(cudaStream_t stream) const;

  // Has `watched` looked at every 100 ms from now on, until `Forget` returns, which waits for a
  // look at it under way and does nothing for one that is not watched. A look at another object
  // delays neither. REQUIRES, unchecked: `Forget` comes before `watched` is destroyed.
  void Watch(NcclWatched* watched);
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
