#include "executor/device/cuda/cuda_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "executor/device/cuda/cuda_status.h"
#include "executor/device/cuda/cudnn_attention.h"

namespace parplan::cuda {

absl::StatusOr<std::unique_ptr<CudaQueue>> CudaQueue::Create(int device,
                                                             AttentionChoice attention) {
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaSetDevice(device));
  std::unique_ptr<CudaQueue> queue(new CudaQueue(device, attention));
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaStreamCreateWithFlags(&queue->stream_, cudaStreamNonBlocking));
  for (Slot& slot : queue->slots_) {
    PARPLAN_RETURN_IF_CUDA_ERROR(::cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming));
  }
  PARPLAN_ASSIGN_OR_RETURN(queue->products_, MatrixProducts::Create());
  return queue;
}

CudaQueue::~CudaQueue() {
  if (stream_ != nullptr) static_cast<void>(::cudaStreamSynchronize(stream_));
  library_.reset();
  products_.reset();
  for (Slot& slot : slots_) {
    if (slot.copied != nullptr) static_cast<void>(::cudaEventDestroy(slot.copied));
    if (slot.host.data != nullptr) static_cast<void>(::cudaFreeHost(slot.host.data));
  }
  for (const Growing& memory : {scratch_, tokens_}) {
    if (memory.data != nullptr) static_cast<void>(::cudaFree(memory.data));
  }
  for (const auto& [data, is_host] : outgrown_) {
    static_cast<void>(is_host ? ::cudaFreeHost(data) : ::cudaFree(data));
  }
  if (stream_ != nullptr) static_cast<void>(::cudaStreamDestroy(stream_));
}

void CudaQueue::Fail(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  status_.Update(status);
}

absl::Status CudaQueue::status() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

bool CudaQueue::Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return true;
  Fail(CudaStatus(error, what));
  return false;
}

void CudaQueue::CheckLaunch(const char* kernel) {
  const cudaError_t error = ::cudaGetLastError();
  if (error != cudaSuccess) Fail(CudaStatus(error, absl::StrCat("kernel ", kernel)));
}

bool CudaQueue::Grow(Growing& memory, int64_t byte_count, bool is_host) {
  if (memory.byte_count >= byte_count) return true;
  // The GPU may still use the old memory, and to free it would wait for the whole device, for
  // operations of NCCL too. It is freed with the queue. Sizes at least double, so what waits for
  // that is no more than what is in use.
  const int64_t new_count = std::max(byte_count, 2 * memory.byte_count);
  const auto size = static_cast<size_t>(new_count);
  void* data = nullptr;
  if (!Check(is_host ? ::cudaMallocHost(&data, size) : ::cudaMalloc(&data, size),
             "memory for a kernel's intermediate results")) {
    static_cast<void>(::cudaGetLastError());
    return false;
  }
  if (memory.data != nullptr) outgrown_.push_back({memory.data, is_host});
  memory = {.data = data, .byte_count = new_count};
  return true;
}

void* CudaQueue::Scratch(int64_t byte_count) {
  return Grow(scratch_, std::max<int64_t>(byte_count, 1), /*is_host=*/false) ? scratch_.data
                                                                             : nullptr;
}

const int32_t* CudaQueue::Upload(const int32_t* tokens, int64_t count) {
  const int64_t byte_count = count * static_cast<int64_t>(sizeof(int32_t));
  Slot& slot = slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % slots_.size();
  // Returns at once if the event was never recorded.
  if (!Check(::cudaEventSynchronize(slot.copied), "cudaEventSynchronize") ||
      !Grow(tokens_, byte_count, /*is_host=*/false)) {
    return nullptr;
  }
  // All at once: to get such memory may wait for the whole device, so that later uploads get none.
  for (Slot& each : slots_) {
    if (!Grow(each.host, byte_count, /*is_host=*/true)) return nullptr;
  }
  std::memcpy(slot.host.data, tokens, static_cast<size_t>(byte_count));
  if (!Check(::cudaMemcpyAsync(tokens_.data, slot.host.data, static_cast<size_t>(byte_count),
                               cudaMemcpyHostToDevice, stream_),
             "copy of tokens to the GPU") ||
      !Check(::cudaEventRecord(slot.copied, stream_), "cudaEventRecord")) {
    return nullptr;
  }
  return static_cast<const int32_t*>(tokens_.data);
}

void CudaQueue::Multiply(ElementType type, const MatrixProduct& product) {
  if (product.k == 0) {
    if (product.adds) return;
    const ElementType result = product.widens ? ElementType::kFloat32 : type;
    const int64_t byte_count = product.m * product.n * ElementSize(result);
    Check(::cudaMemsetAsync(product.c, 0, static_cast<size_t>(byte_count), stream_),
          "cudaMemsetAsync");
    return;
  }
  const absl::Status status = products_->Multiply(type, product, stream_);
  if (status.code() == absl::StatusCode::kUnimplemented) {
    LaunchSimpleProduct(type, product, *this);
  } else if (!status.ok()) {
    Fail(status);
  }
}

AttentionLibrary* CudaQueue::attention_library() {
  if (!asked_for_library_) {
    asked_for_library_ = true;
    library_ = MakeCudnnAttention(attention_, stream_, no_library_);
  }
  return library_.get();
}

std::vector<std::string> CudaQueue::Notes() const {
  std::vector<std::string> notes = notes_;
  if (!asked_for_library_) return notes;
  if (library_ == nullptr) {
    notes.push_back(absl::StrCat("attention: own kernels, ", no_library_));
    return notes;
  }
  for (std::string& note : library_->Notes()) notes.push_back(std::move(note));
  return notes;
}

absl::Status CudaQueue::CopyFromHost(const void* host, void* device, int64_t byte_count) {
  Check(::cudaMemcpyAsync(device, host, static_cast<size_t>(byte_count), cudaMemcpyHostToDevice,
                          stream_),
        "copy to the GPU");
  return Synchronize();
}

absl::Status CudaQueue::CopyToHost(const void* device, void* host, int64_t byte_count) {
  Check(::cudaMemcpyAsync(host, device, static_cast<size_t>(byte_count), cudaMemcpyDeviceToHost,
                          stream_),
        "copy from the GPU");
  return Synchronize();
}

absl::Status CudaQueue::Synchronize() {
  Check(::cudaStreamSynchronize(stream_), "work of the GPU");
  return status();
}

}  // namespace parplan::cuda
