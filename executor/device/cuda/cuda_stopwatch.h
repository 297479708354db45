// A stopwatch of events in a GPU's stream.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_STOPWATCH_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_STOPWATCH_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "executor/device/backend/stopwatch.h"

namespace parplan::cuda {

class CudaStopwatch : public Stopwatch {
 public:
  // `stream` outlives it.
  explicit CudaStopwatch(cudaStream_t stream);
  ~CudaStopwatch() override;
  void Start() override;
  void Stop() override;
  absl::StatusOr<absl::Duration> Elapsed() override;

 private:
  void Note(cudaError_t error, const char* what);

  const cudaStream_t stream_;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  // The first error; `Elapsed` returns it.
  absl::Status status_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_STOPWATCH_H_
