// The work of one GPU in order: a stream, memory that its kernels share, and the first error.
// `CudaDevice` has one, and the groups of NCCL work with it.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_QUEUE_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_QUEUE_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/backend/load_backend.h"
#include "executor/device/cuda/kernel_queue.h"
#include "executor/device/cuda/matrix_products.h"

namespace parplan::cuda {

// Used by the thread that made it, except for `Fail`. The destructor waits for the work of the
// stream.
class CudaQueue : public KernelQueue {
 public:
  // Makes a queue and sets `device` as the calling thread's device. Returns the errors of
  // CudaStatus (cuda_status.h) and of MatrixProducts::Create; `device` stays set then.
  static absl::StatusOr<std::unique_ptr<CudaQueue>> Create(
      int device, AttentionChoice attention = AttentionChoice::kAutomatic);
  ~CudaQueue() override;

  // Return the number of the GPU as CUDA counts, and the stream of kernels and copies.
  int device() const { return device_; }
  cudaStream_t compute_stream() const { return stream_; }
  // Returns the lines of Device::Notes: those of `Note`, and of attention after the first of bf16.
  std::vector<std::string> Notes() const;

  void* stream() override { return stream_; }
  void* Scratch(int64_t byte_count) override;
  const int32_t* Upload(const int32_t* tokens, int64_t count) override;
  void Multiply(ElementType type, const MatrixProduct& product) override;
  AttentionLibrary* attention_library() override;
  absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) override;
  absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) override;
  absl::Status Synchronize() override;
  void CheckLaunch(const char* kernel) override;
  void Note(const char* line) override { notes_.emplace_back(line); }
  void Fail(const absl::Status& status) override;

 private:
  // Memory that grows; its content is lost when it does.
  struct Growing {
    void* data = nullptr;
    int64_t byte_count = 0;
  };
  // Tokens that are being uploaded: the host's copy, which the GPU reads later, and the event after
  // that.
  struct Slot {
    Growing host;
    cudaEvent_t copied = nullptr;
  };

  CudaQueue(int device, AttentionChoice attention) : device_(device), attention_(attention) {}
  // Keeps an error of `what`. Returns false if there was one.
  bool Check(cudaError_t error, const char* what);
  bool Grow(Growing& memory, int64_t byte_count, bool is_host);
  absl::Status status();

  const int device_;
  const AttentionChoice attention_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<MatrixProducts> products_;
  // Made at the first attention of bf16; then null with the reason if there is none.
  bool asked_for_library_ = false;
  std::unique_ptr<AttentionLibrary> library_;
  std::string no_library_;
  std::vector<std::string> notes_;
  Growing scratch_;
  Growing tokens_;
  std::array<Slot, 4> slots_;
  size_t next_slot_ = 0;
  // Memory that has been replaced by larger, and whether it is the host's.
  std::vector<std::pair<void*, bool>> outgrown_;
  std::mutex mutex_;
  absl::Status status_;  // Guarded by mutex_.
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_QUEUE_H_
