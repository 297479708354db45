#include "executor/device/cuda/nccl_channel.h"

#include <chrono>
#include <utility>

#include "executor/device/comm/steady_clock.h"
#include "executor/device/cuda/cuda_status.h"

namespace parplan::cuda {
namespace {

// Interval at which the thread polls the operations under way. Not measured on a GPU.
constexpr std::chrono::microseconds kLook(200);

ncclDataType_t DataType(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return ncclFloat32;
    case ElementType::kFloat64:
      return ncclFloat64;
    case ElementType::kBfloat16:
      return ncclBfloat16;
    case ElementType::kByte:
      break;
  }
  return ncclUint8;
}

// Waits until all calls on the communicator are complete, so that its resources can be freed; at
// most as long as other ranks that end too may take. Returns whether they are.
bool Finalize(ncclComm_t communicator) {
  constexpr absl::Duration kPatience = absl::Seconds(10);
  const absl::Duration deadline = SteadyNow() + kPatience;
  ncclResult_t state = ::ncclCommFinalize(communicator);
  while (state == ncclInProgress && SteadyNow() < deadline) {
    std::this_thread::sleep_for(kLook);
    if (::ncclCommGetAsyncError(communicator, &state) != ncclSuccess) return false;
  }
  return state == ncclSuccess;
}

}  // namespace

absl::Status NcclStatus(ncclResult_t result, ncclComm_t communicator, absl::string_view what) {
  if (result == ncclSuccess) return absl::OkStatus();
  const char* const detail = ::ncclGetLastError(communicator);
  const absl::StatusCode code =
      result == ncclRemoteError ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat(what, ": ", ::ncclGetErrorString(result),
                                         detail == nullptr || *detail == '\0' ? "" : "; ",
                                         detail == nullptr ? "" : detail));
}

CudaEvent::CudaEvent() {
  // Without an event every use of it fails.
  if (::cudaEventCreate(&event_) != cudaSuccess) event_ = nullptr;
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) static_cast<void>(::cudaEventDestroy(event_));
}

NcclChannel::NcclChannel(NcclChannelSetting setting) : setting_(std::move(setting)) {
  thread_ = std::thread([this] { Work(); });
}

NcclChannel::~NcclChannel() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

absl::Status NcclChannel::failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.ok() && is_ending_) return absl::AbortedError("the communicator is gone");
  return failure_;
}

absl::Status NcclChannel::AwaitReady() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return is_ready_ || !failure_.ok(); });
  return failure_;
}

absl::Status NcclChannel::Start(std::shared_ptr<NcclTask> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return failure_;
    waiting_.push_back(std::move(task));
  }
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status NcclChannel::AwaitStarted(NcclTask& task) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return task.is_started || !task.failure.ok(); });
  return task.failure;
}

absl::Status NcclChannel::AwaitDone(NcclTask& task) {
  std::unique_lock<std::mutex> lock(mutex_);
  // Does not wait for the task's event, which is also reached when the task is aborted.
  changed_.wait(lock, [&] { return task.is_over || !task.failure.ok(); });
  return task.failure;
}

bool NcclChannel::IsDone(NcclTask& task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!task.failure.ok()) return true;
  if (!task.is_started) return false;
  if (::cudaEventQuery(task.done.get()) == cudaSuccess) return true;
  // cudaErrorNotReady is no failure, but CUDA keeps it as the last error.
  static_cast<void>(::cudaGetLastError());
  return false;
}

void NcclChannel::Fail(const absl::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }
  changed_.notify_all();
}

absl::Status NcclChannel::Call(const std::function<absl::Status(ncclComm_t)>& work) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  call_ = &work;
  changed_.notify_all();
  changed_.wait(lock, [this] { return call_ == nullptr; });
  return call_result_;
}

absl::Status NcclChannel::Settle(ncclComm_t communicator, absl::string_view what) {
  const absl::Duration deadline = SteadyNow() + setting_.job->operation_timeout();
  while (true) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ::ncclCommGetAsyncError(communicator, &state);
    if (asked != ncclSuccess) return NcclStatus(asked, communicator, what);
    if (state != ncclInProgress) return NcclStatus(state, communicator, what);
    PARPLAN_RETURN_IF_ERROR(failure());
    PARPLAN_RETURN_IF_ERROR(setting_.job->Health());
    if (SteadyNow() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(what, " of ", setting_.name, " took longer than ",
                       absl::FormatDuration(setting_.job->operation_timeout())));
    }
    std::this_thread::sleep_for(kLook);
  }
}

void NcclChannel::Make() {
  absl::Status status = CudaStatus(::cudaSetDevice(setting_.queue->device()), "cudaSetDevice");
  if (status.ok()) {
    status = CudaStatus(::cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                        "cudaStreamCreateWithFlags");
  }
  if (status.ok()) {
    absl::StatusOr<ncclComm_t> communicator = setting_.make();
    status = communicator.status();
    if (status.ok()) {
      communicator_ = *communicator;
      status = Settle(communicator_, "the making");
    }
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = status;
    is_ready_ = failure_.ok();
  }
  changed_.notify_all();
}

void NcclChannel::Work() {
  Make();
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const auto has_work = [this] {
      return !failure_.ok() || is_ending_ || !waiting_.empty() || call_ != nullptr;
    };
    if (running_.empty()) {
      changed_.wait(lock, has_work);
    } else {
      changed_.wait_for(lock, kLook, has_work);
    }
    if (!failure_.ok() || is_ending_) break;
    absl::Status status;
    if (!waiting_.empty()) {
      const std::shared_ptr<NcclTask> task = waiting_.front();
      waiting_.pop_front();
      // The task counts as running from here on, even if its start fails.
      running_.push_back(task);
      lock.unlock();
      status = Launch(*task);
      lock.lock();
      task->is_started = status.ok();
    } else if (call_ != nullptr) {
      const std::function<absl::Status(ncclComm_t)>* const call = call_;
      lock.unlock();
      const absl::Status result = (*call)(communicator_);
      lock.lock();
      call_result_ = result;
      call_ = nullptr;
    }
    lock.unlock();
    changed_.notify_all();
    if (status.ok()) status = Watch();
    lock.lock();
    if (!status.ok() && failure_.ok()) failure_ = status;
  }
  absl::Status status = failure_;
  lock.unlock();
  // Operations on the GPU may end by themselves, within their deadline.
  while (status.ok() && !running_.empty()) {
    status = Watch();
    if (status.ok() && !running_.empty()) std::this_thread::sleep_for(kLook);
  }
  End(status);
}

ncclResult_t NcclChannel::LaunchCall(const CollectiveCall& call) {
  const auto count = static_cast<size_t>(call.count);
  const ncclDataType_t type = DataType(call.type);
  const ncclRedOp_t reduction = call.reduction == Reduction::kSum ? ncclSum : ncclMax;
  switch (call.operation) {
    case Operation::kAllReduce:
      return ::ncclAllReduce(call.send, call.receive, count, type, reduction, communicator_,
                             stream_);
    case Operation::kAllGather:
      return ::ncclAllGather(call.send, call.receive, count, type, communicator_, stream_);
    case Operation::kReduceScatter:
      return ::ncclReduceScatter(call.send, call.receive, count, type, reduction, communicator_,
                                 stream_);
    case Operation::kBroadcast:
      return ::ncclBroadcast(call.send == nullptr ? call.receive : call.send, call.receive, count,
                             type, call.peer, communicator_, stream_);
    case Operation::kSend:
      return ::ncclSend(call.send, count, type, call.peer, communicator_, stream_);
    case Operation::kReceive:
      return ::ncclRecv(call.receive, count, type, call.peer, communicator_, stream_);
    case Operation::kAllToAll: {
      const auto share = static_cast<size_t>(call.count * ElementSize(call.type));
      for (int other = 0; other < setting_.size; ++other) {
        const ncclResult_t sent = ::ncclSend(static_cast<const char*>(call.send) + other * share,
                                             count, type, other, communicator_, stream_);
        if (sent != ncclSuccess && sent != ncclInProgress) return sent;
        const ncclResult_t received = ::ncclRecv(static_cast<char*>(call.receive) + other * share,
                                                 count, type, other, communicator_, stream_);
        if (received != ncclSuccess && received != ncclInProgress) return received;
      }
      return ncclSuccess;
    }
    case Operation::kBarrier:
      break;
  }
  // NCCL has no barrier; the communicator all-reduces a number instead.
  return ncclInvalidArgument;
}

absl::Status NcclChannel::Launch(NcclTask& task) {
  const char* const what = OperationName(task.calls.front().operation);
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaStreamWaitEvent(stream_, task.ready.get(), 0));
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaEventRecord(task.begun.get(), stream_));
  ncclResult_t result = ::ncclGroupStart();
  for (const CollectiveCall& call : task.calls) {
    if (result != ncclSuccess && result != ncclInProgress) break;
    result = LaunchCall(call);
  }
  const ncclResult_t ended = ::ncclGroupEnd();
  if (result == ncclSuccess || result == ncclInProgress) result = ended;
  if (result != ncclSuccess && result != ncclInProgress) {
    return NcclStatus(result, communicator_, absl::StrCat(what, " of ", setting_.name));
  }
  PARPLAN_RETURN_IF_ERROR(Settle(communicator_, what));
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaEventRecord(task.done.get(), stream_));
  return absl::OkStatus();
}

absl::Status NcclChannel::Watch() {
  while (!running_.empty()) {
    NcclTask& task = *running_.front();
    const cudaError_t state = ::cudaEventQuery(task.done.get());
    if (state != cudaSuccess && state != cudaErrorNotReady) {
      return CudaStatus(state, absl::StrCat("operations of ", setting_.name));
    }
    if (state == cudaErrorNotReady) {
      // cudaErrorNotReady is no failure, but CUDA keeps it as the last error.
      static_cast<void>(::cudaGetLastError());
      break;
    }
    float milliseconds = 0.0f;
    PARPLAN_RETURN_IF_CUDA_ERROR(
        ::cudaEventElapsedTime(&milliseconds, task.begun.get(), task.done.get()));
    for (const CollectiveCall& call : task.calls) {
      setting_.on_done(call, absl::Milliseconds(static_cast<double>(milliseconds)));
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      task.is_over = true;
    }
    changed_.notify_all();
    running_.pop_front();
  }
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ::ncclCommGetAsyncError(communicator_, &state);
  if (asked != ncclSuccess || (state != ncclSuccess && state != ncclInProgress)) {
    return NcclStatus(asked != ncclSuccess ? asked : state, communicator_,
                      absl::StrCat("operations of ", setting_.name));
  }
  PARPLAN_RETURN_IF_ERROR(setting_.job->Health());
  if (running_.empty()) return absl::OkStatus();
  const NcclTask& oldest = *running_.front();
  if (SteadyNow() - oldest.start <= setting_.job->operation_timeout()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(OperationName(oldest.calls.front().operation), " of ", setting_.name,
                   " took longer than ", absl::FormatDuration(setting_.job->operation_timeout())));
}

// The only place where the communicator is destroyed.
void NcclChannel::End(const absl::Status& failure) {
  const absl::Status status =
      failure.ok() ? absl::AbortedError("the communicator is gone") : failure;
  // Operations left on the GPU wait for ranks that may never come: only an abort ends them.
  const bool is_idle = running_.empty();
  // The error is kept before the GPU continues, since aborted operations leave undefined results.
  if (!is_idle) setting_.queue->Fail(status);
  if (communicator_ != nullptr) {
    if (is_idle && failure.ok() && Finalize(communicator_)) {
      static_cast<void>(::ncclCommDestroy(communicator_));
    } else {
      static_cast<void>(::ncclCommAbort(communicator_));
    }
    communicator_ = nullptr;
  }
  if (stream_ != nullptr) {
    static_cast<void>(::cudaStreamSynchronize(stream_));
    static_cast<void>(::cudaStreamDestroy(stream_));
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (failure_.ok()) failure_ = status;
  for (const std::shared_ptr<NcclTask>& task : running_) task->failure = status;
  for (const std::shared_ptr<NcclTask>& task : waiting_) task->failure = status;
  running_.clear();
  waiting_.clear();
  if (call_ != nullptr) {
    call_result_ = status;
    call_ = nullptr;
  }
  changed_.notify_all();
}

}  // namespace parplan::cuda
