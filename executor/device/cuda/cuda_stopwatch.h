// A stopwatch that records two events in a GPU's stream. `CudaDevice` makes them.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_STOPWATCH_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_STOPWATCH_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "executor/device/backend/stopwatch.h"

namespace parplan::cuda {

// Measures the time between two events of one stream. `Start` and `Stop` only enqueue an event;
// `Elapsed` blocks until the GPU has reached the second one. After an error of the constructor,
// `Start` or `Stop`, these two do nothing and every `Elapsed` returns that error. An error of
// `Elapsed` itself is not kept.
class CudaStopwatch : public Stopwatch {
 public:
  // `stream` must outlive the stopwatch.
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
  // The first error of the constructor, `Start` or `Stop`; every later `Elapsed` returns it.
  absl::Status status_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_STOPWATCH_H_
