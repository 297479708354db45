// Sums and maxima over the threads of a warp or a block, in a fixed order. Used by the kernels of
// attention and of rows.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_BLOCK_SUMS_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_BLOCK_SUMS_H_

#include "executor/device/cuda/language.h"

namespace parplan::cuda {

// Threads of a block that works on one row.
inline constexpr int kRowThreads = 256;

// Return the sum or the maximum over a warp; all lanes call it and get the result.
__device__ __forceinline__ float WarpSum(float value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
__device__ __forceinline__ float WarpMax(float value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// Returns the sum or maximum over a block of kRowThreads; all threads call it and get the result.
template <bool kIsMax>
__device__ __forceinline__ float BlockReduce(float value) {
  __shared__ float parts[kRowThreads / kWarpSize];
  value = kIsMax ? WarpMax(value) : WarpSum(value);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread % kWarpSize == 0) parts[thread / kWarpSize] = value;
  __syncthreads();
  float result = parts[0];
  for (int warp = 1; warp < kRowThreads / kWarpSize; ++warp) {
    result = kIsMax ? fmaxf(result, parts[warp]) : result + parts[warp];
  }
  // The next call must not write before all threads have read.
  __syncthreads();
  return result;
}
__device__ __forceinline__ float BlockSum(float value) { return BlockReduce<false>(value); }
__device__ __forceinline__ float BlockMax(float value) { return BlockReduce<true>(value); }

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_BLOCK_SUMS_H_
