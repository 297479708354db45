// Matrix products without a library, for shapes without an algorithm in cuBLASLt and for the
// emulation. Included once for each language (language.h).

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_SIMPLE_PRODUCT_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_SIMPLE_PRODUCT_H_

#include "executor/device/cuda/language.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// Rows and columns of a block's tile of c: 256 threads.
inline constexpr int kProductTile = 16;

// Computes a MatrixProduct, summed in fp32; T, the type of a and b, is float or Bfloat16, and so is
// C, that of c. Blocks of kProductTile x
// kProductTile threads, one element of c each; x runs along the columns of c.
template <typename T, typename C = T>
__global__ void MultiplySimply(MatrixProduct p) {
  __shared__ float a_tile[kProductTile][kProductTile + 1];
  __shared__ float b_tile[kProductTile][kProductTile + 1];
  const T* const a = static_cast<const T*>(p.a);
  const T* const b = static_cast<const T*>(p.b);
  C* const c = static_cast<C*>(p.c);
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kProductTile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kProductTile;
  float sum = 0.0f;
  for (int64_t begin = 0; begin < p.k; begin += kProductTile) {
    const int64_t row = first_row + y;
    const int64_t column = first_column + x;
    const int64_t across = begin + x;
    const int64_t down = begin + y;
    a_tile[y][x] = row < p.m && across < p.k
                       ? ToFloat(a[p.transposes_a ? across * p.m + row : row * p.k + across])
                       : 0.0f;
    b_tile[y][x] = column < p.n && down < p.k
                       ? ToFloat(b[p.transposes_b ? column * p.k + down : down * p.n + column])
                       : 0.0f;
    __syncthreads();
    for (int k = 0; k < kProductTile; ++k) sum += a_tile[y][k] * b_tile[k][x];
    __syncthreads();
  }
  const int64_t row = first_row + y;
  const int64_t column = first_column + x;
  if (row >= p.m || column >= p.n) return;
  C& element = c[row * p.n + column];
  element = FromFloat<C>(p.adds ? ToFloat(element) + sum : sum);
}

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_SIMPLE_PRODUCT_H_
