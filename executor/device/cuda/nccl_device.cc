#include "executor/device/cuda/nccl_device.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "executor/device/cuda/cuda_status.h"

namespace parplan::cuda {
namespace {

// Interval of the looks: failures are found this much later, and a look at one group costs a few
// microseconds of the processor. Not measured on a GPU.
constexpr std::chrono::milliseconds kLook(100);

// Returns whether `state` says that work of the GPU has ended.
absl::StatusOr<bool> IsEnd(cudaError_t state) {
  if (state == cudaSuccess) return true;
  if (state != cudaErrorNotReady) return CudaStatus(state, "operations of NCCL");
  // It is no failure, but CUDA keeps it as the thread's last error.
  if (::cudaPeekAtLastError() == cudaErrorNotReady) static_cast<void>(::cudaGetLastError());
  return false;
}

}  // namespace

NcclDevice::~NcclDevice() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  last_.clear();
  for (const auto& [unused, stream] : streams_) {
    static_cast<void>(::cudaStreamSynchronize(stream));
    static_cast<void>(::cudaStreamDestroy(stream));
  }
  for (const std::vector<cudaEvent_t>& events : events_) {
    for (cudaEvent_t event : events) static_cast<void>(::cudaEventDestroy(event));
  }
  if (number_ != nullptr) static_cast<void>(::cudaFree(number_));
}

absl::StatusOr<cudaStream_t> NcclDevice::StreamOf(const std::string& name) {
  const auto found = streams_.find(name);
  if (found != streams_.end()) return found->second;
  cudaStream_t stream = nullptr;
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  streams_.emplace(name, stream);
  return stream;
}

absl::StatusOr<void*> NcclDevice::BarrierNumber() {
  if (number_ == nullptr) PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMalloc(&number_, sizeof(float)));
  return number_;
}

absl::StatusOr<Bytes> NcclDevice::UsedMemory() const {
  size_t free = 0;
  size_t total = 0;
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMemGetInfo(&free, &total));
  return Bytes::Of(static_cast<int64_t>(total - free));
}

void NcclDevice::NoteCommunicator(const std::string& group, Bytes memory) {
  ++communicator_count_;
  communicator_memory_ += memory;
  if (communicator_count_ > 1 && memory <= largest_memory_) return;
  largest_memory_ = memory;
  largest_group_ = group;
}

std::vector<std::string> NcclDevice::Notes() const {
  if (communicator_count_ == 0) return {};
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  return {absl::StrCat("communicators of NCCL: ", communicator_count_, " took ",
                       communicator_memory_.count() / kMebibyte,
                       " MiB of the GPU when they were made, ", largest_memory_.count() / kMebibyte,
                       " MiB of it that of ", largest_group_)};
}

absl::Status NcclDevice::Event::Record(cudaStream_t stream) const {
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaEventRecord(event_, stream));
  return absl::OkStatus();
}

absl::Status NcclDevice::Event::Delay(cudaStream_t stream) const {
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaStreamWaitEvent(stream, event_, 0));
  return absl::OkStatus();
}

absl::StatusOr<bool> NcclDevice::Event::IsReached() const {
  return IsEnd(::cudaEventQuery(event_));
}

absl::Status NcclDevice::End::Record(cudaStream_t stream) {
  if (is_recorded_) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(done_->Record(stream));
  is_recorded_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<NcclDevice::End>> NcclDevice::ExchangeLast(
    cudaStream_t stream, std::shared_ptr<End> end) {
  std::shared_ptr<End> before = std::exchange(last_[stream], std::move(end));
  if (before != nullptr) PARPLAN_RETURN_IF_ERROR(before->Record(stream));
  return before;
}

absl::StatusOr<bool> NcclDevice::IsIdle(cudaStream_t stream) const {
  return IsEnd(::cudaStreamQuery(stream));
}

absl::StatusOr<std::unique_ptr<NcclDevice::Event>> NcclDevice::TakeEvent(bool is_timed) {
  cudaEvent_t event = nullptr;
  {
    const std::lock_guard<std::mutex> lock(events_mutex_);
    std::vector<cudaEvent_t>& free = events_[is_timed ? 1 : 0];
    if (!free.empty()) {
      event = free.back();
      free.pop_back();
    }
  }
  if (event == nullptr) {
    PARPLAN_RETURN_IF_CUDA_ERROR(
        ::cudaEventCreateWithFlags(&event, is_timed ? cudaEventDefault : cudaEventDisableTiming));
  }
  return std::make_unique<Event>(*this, event, is_timed);
}

void NcclDevice::Return(cudaEvent_t event, bool is_timed) {
  const std::lock_guard<std::mutex> lock(events_mutex_);
  events_[is_timed ? 1 : 0].push_back(event);
}

void NcclDevice::Watch(NcclWatched* watched) {
  const std::lock_guard<std::mutex> lock(mutex_);
  watched_.insert(watched);
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
}

void NcclDevice::Forget(NcclWatched* watched) {
  std::unique_lock<std::mutex> lock(mutex_);
  watched_.erase(watched);
  changed_.wait(lock, [&] { return looked_at_ != watched; });
}

void NcclDevice::Work() {
  const absl::Status status = CudaStatus(::cudaSetDevice(queue_.device()), "cudaSetDevice");
  if (!status.ok()) queue_.Fail(status);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return is_ending_; })) {
    const std::vector<NcclWatched*> all(watched_.begin(), watched_.end());
    for (NcclWatched* const watched : all) {
      if (!watched_.contains(watched)) continue;
      looked_at_ = watched;
      lock.unlock();
      watched->Look();
      lock.lock();
      looked_at_ = nullptr;
      changed_.notify_all();
    }
  }
}

}  // namespace parplan::cuda
