#include "executor/device/cuda/cuda_stopwatch.h"

#include "executor/device/cuda/cuda_status.h"

namespace parplan::cuda {

CudaStopwatch::CudaStopwatch(cudaStream_t stream) : stream_(stream) {
  Note(::cudaEventCreate(&start_), "cudaEventCreate");
  Note(::cudaEventCreate(&stop_), "cudaEventCreate");
}

CudaStopwatch::~CudaStopwatch() {
  if (start_ != nullptr) static_cast<void>(::cudaEventDestroy(start_));
  if (stop_ != nullptr) static_cast<void>(::cudaEventDestroy(stop_));
}

void CudaStopwatch::Note(cudaError_t error, const char* what) {
  status_.Update(CudaStatus(error, what));
}

void CudaStopwatch::Start() {
  if (status_.ok()) Note(::cudaEventRecord(start_, stream_), "start of the stopwatch");
}

void CudaStopwatch::Stop() {
  if (status_.ok()) Note(::cudaEventRecord(stop_, stream_), "stop of the stopwatch");
}

absl::StatusOr<absl::Duration> CudaStopwatch::Elapsed() {
  PARPLAN_RETURN_IF_ERROR(status_);
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaEventSynchronize(stop_));
  float milliseconds = 0.0f;
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaEventElapsedTime(&milliseconds, start_, stop_));
  return absl::Milliseconds(static_cast<double>(milliseconds));
}

}  // namespace parplan::cuda
