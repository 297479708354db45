// Kernels on rows: norms, logits, embeddings, and sums of columns. A block of kRowThreads works on
// one row unless the comment says otherwise. All sums have a fixed order. Arguments are those of
// the operation of LayerKernels (layer_kernels.h) that a kernel implements, but tokens and targets
// are copies of them in device memory. T is float or Bfloat16. Kernels with a parameter N read rows
// in packs of N elements. REQUIRES for these, unchecked: `row_size` is a multiple of N, and all
// arrays of T but `bias` are aligned to a pack. Launched by DeviceKernels alone.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_ROW_KERNELS_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_ROW_KERNELS_H_

#include "executor/device/cuda/block_sums.h"
#include "executor/device/cuda/element_kernels.h"
#include "executor/device/cuda/language.h"

namespace parplan::cuda {

// Added to variances; equal to that of the processor's kernels.
inline constexpr float kNormEpsilon = 1e-5f;

// Returns the sum of f(element, column) over a row of `size` elements, a multiple of N, N elements
// at a time. All threads of a block of kRowThreads call it and get the result.
template <int N, typename T, typename F>
__device__ __forceinline__ float RowSum(const T* row, int64_t size, F f) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < size / N; i += kRowThreads) {
    const Pack<T, N> pack = LoadPack<N>(row, i);
    for (int k = 0; k < N; ++k) sum += f(ToFloat(pack.elements[k]), i * N + k);
  }
  return BlockSum(sum);
}

// Normalizes the block's row `in` into `out`, by `gain` and, if `has_mean`, `bias`; kept: the two
// numbers of the row. Each thread reads the packs threadIdx.x + n kRowThreads of it and no others.
template <typename T, int N>
__device__ __forceinline__ void NormRow(bool has_mean, const T* in, const T* gain, const T* bias,
                                        T* out, float* kept, int64_t row_size) {
  float mean = 0.0f;
  if (has_mean) {
    mean = RowSum<N>(in, row_size, [](float value, int64_t) { return value; }) /
           static_cast<float>(row_size);
  }
  const float squares = RowSum<N>(
      in, row_size, [=](float value, int64_t) { return (value - mean) * (value - mean); });
  const float reciprocal = 1.0f / sqrtf(squares / static_cast<float>(row_size) + kNormEpsilon);
  for (int64_t i = threadIdx.x; i < row_size / N; i += kRowThreads) {
    Pack<T, N> pack = LoadPack<N>(in, i);
    const Pack<T, N> g = LoadPack<N>(gain, i);
    for (int k = 0; k < N; ++k) {
      float value = (ToFloat(pack.elements[k]) - mean) * reciprocal * ToFloat(g.elements[k]);
      if (has_mean) value += ToFloat(bias[i * N + k]);
      pack.elements[k] = FromFloat<T>(value);
    }
    StorePack<N>(out, i, pack);
  }
  if (threadIdx.x == 0) {
    kept[0] = mean;
    kept[1] = reciprocal;
  }
}

// `Norm`; `has_mean` for a LayerNorm.
template <typename T, int N>
__global__ void NormRows(bool has_mean, const T* x, const T* gain, const T* bias, T* y, float* kept,
                         int64_t row_size) {
  const int64_t row = blockIdx.x;
  NormRow<T, N>(has_mean, x + row * row_size, gain, bias, y + row * row_size, kept + 2 * row,
                row_size);
}

// `AddResidualAndNorm`; `bias` may be null. Threads read what they wrote themselves.
template <typename T, int N>
__global__ void AddAndNormRows(bool has_mean, const T* bias, const T* residual, T* sum,
                               const T* gain, const T* norm_bias, T* y, float* kept,
                               int64_t row_size) {
  const int64_t row = blockIdx.x;
  T* const own = sum + row * row_size;
  for (int64_t i = threadIdx.x; i < row_size / N; i += kRowThreads) {
    Pack<T, N> pack = LoadPack<N>(static_cast<const T*>(own), i);
    if (bias != nullptr) pack = AddRounded(pack, LoadPack<N>(bias, i));
    StorePack<N>(own, i, AddRounded(pack, LoadPack<N>(residual + row * row_size, i)));
  }
  NormRow<T, N>(has_mean, static_cast<const T*>(own), gain, norm_bias, y + row * row_size,
                kept + 2 * row, row_size);
}

// The part of `NormBackward` for x: computes dx += r (d - mean(d) - n mean(d n)) with d = dy gain
// and n = (x - mean) r. Without `has_mean` the term mean(d) is left out.
template <typename T, int N>
__global__ void NormRowsBackward(bool has_mean, const T* dy, const T* x, const T* gain,
                                 const float* kept, T* dx, int64_t row_size) {
  const int64_t row = blockIdx.x;
  const T* const in = x + row * row_size;
  const T* const d = dy + row * row_size;
  const float mean = kept[2 * row];
  const float reciprocal = kept[2 * row + 1];
  const float share = 1.0f / static_cast<float>(row_size);
  const float scaled = share * RowSum<N>(d, row_size, [=](float value, int64_t i) {
                         return value * ToFloat(gain[i]) * (ToFloat(in[i]) - mean) * reciprocal;
                       });
  float plain = 0.0f;
  if (has_mean) {
    plain = share * RowSum<N>(d, row_size,
                              [=](float value, int64_t i) { return value * ToFloat(gain[i]); });
  }
  for (int64_t i = threadIdx.x; i < row_size / N; i += kRowThreads) {
    const Pack<T, N> values = LoadPack<N>(in, i);
    const Pack<T, N> slopes = LoadPack<N>(d, i);
    const Pack<T, N> gains = LoadPack<N>(gain, i);
    Pack<T, N> out = LoadPack<N>(static_cast<const T*>(dx + row * row_size), i);
    for (int k = 0; k < N; ++k) {
      const float normal = (ToFloat(values.elements[k]) - mean) * reciprocal;
      const float slope = ToFloat(slopes.elements[k]) * ToFloat(gains.elements[k]);
      out.elements[k] =
          FromFloat<T>(ToFloat(out.elements[k]) + reciprocal * (slope - plain - normal * scaled));
    }
    StorePack<N>(dx + row * row_size, i, out);
  }
}

// The values that are summed down a column: an element, or one times the normalized input of a
// norm.
template <typename T>
struct ColumnElement {
  const T* data;
  int64_t row_stride;
  __device__ float operator()(int64_t row, int64_t column) const {
    return ToFloat(data[row * row_stride + column]);
  }
};
template <typename T>
struct ColumnNormal {
  const T* dy;
  const T* x;
  const float* kept;
  int64_t row_stride;
  __device__ float operator()(int64_t row, int64_t column) const {
    const int64_t at = row * row_stride + column;
    return ToFloat(dy[at]) * (ToFloat(x[at]) - kept[2 * row]) * kept[2 * row + 1];
  }
};

// Columns and rows of a block of SumColumnChunks: a warp reads adjacent columns.
inline constexpr int kColumnThreads = 32;
inline constexpr int kColumnRows = 8;

// Sums the `chunk_rows` rows of chunk blockIdx.y, for kColumnThreads columns per block, into
// parts[chunk][column]. Blocks of kColumnThreads x kColumnRows.
template <typename Value>
__global__ void SumColumnChunks(Value value, int64_t row_count, int64_t column_count,
                                int64_t chunk_rows, float* parts) {
  __shared__ float sums[kColumnRows][kColumnThreads];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * chunk_rows;
  const int64_t last = first + chunk_rows < row_count ? first + chunk_rows : row_count;
  float sum = 0.0f;
  if (column < column_count) {
    for (int64_t row = first + threadIdx.y; row < last; row += kColumnRows) {
      sum += value(row, column);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= column_count) return;
  for (int k = 1; k < kColumnRows; ++k) sum += sums[k][threadIdx.x];
  parts[static_cast<int64_t>(blockIdx.y) * column_count + column] = sum;
}

// Adds the sums of all chunks to y[column].
struct AddChunksWork {
  const float* parts;
  int64_t chunk_count;
  int64_t column_count;
  float* y;
  __device__ void operator()(int64_t column) const {
    float sum = 0.0f;
    for (int64_t chunk = 0; chunk < chunk_count; ++chunk) {
      sum += parts[chunk * column_count + column];
    }
    y[column] += sum;
  }
};

// `LargestLogits`.
template <typename T>
__global__ void LargestOfRows(const T* logits, float* largest, int64_t row_size) {
  const T* const row = logits + static_cast<int64_t>(blockIdx.x) * row_size;
  float row_max = -INFINITY;
  for (int64_t i = threadIdx.x; i < row_size; i += kRowThreads)
    row_max = fmaxf(row_max, ToFloat(row[i]));
  row_max = BlockMax(row_max);
  if (threadIdx.x == 0) largest[blockIdx.x] = row_max;
}

// `SumLogits`.
template <typename T>
__global__ void SumRowExponentials(const T* logits, const int32_t* targets, const float* largest,
                                   int64_t row_size, int64_t first_column, float* sums) {
  const int64_t row = blockIdx.x;
  const T* const in = logits + row * row_size;
  const float row_max = largest[row];
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < row_size; i += kRowThreads)
    sum += expf(ToFloat(in[i]) - row_max);
  sum = BlockSum(sum);
  if (threadIdx.x != 0) return;
  const int64_t column = targets[row] - first_column;
  sums[2 * row] = sum;
  sums[2 * row + 1] = column < 0 || column >= row_size ? 0.0f : ToFloat(in[column]) - row_max;
}

// Adds `factor` times the losses of all rows to `*loss`, in a fixed order. One block: the rows of a
// micro-batch are few numbers beside their logits.
__global__ void AddRowLosses(const float* sums, double factor, int64_t row_count, double* loss) {
  __shared__ double parts[kRowThreads];
  double losses = 0.0;
  for (int64_t row = threadIdx.x; row < row_count; row += kRowThreads) {
    losses += static_cast<double>(logf(sums[2 * row]) - sums[2 * row + 1]);
  }
  parts[threadIdx.x] = losses;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int thread = 1; thread < kRowThreads; ++thread) losses += parts[thread];
  *loss += factor * losses;
}

// `LogitGradients`; `factor` is that of the operation.
template <typename T>
__global__ void LogitGradientRows(T* logits, const int32_t* targets, const float* largest,
                                  const float* sums, float factor, int64_t row_size,
                                  int64_t first_column) {
  const int64_t row = blockIdx.x;
  T* const out = logits + row * row_size;
  const float row_max = largest[row];
  const float share = factor / sums[2 * row];
  const int64_t target = targets[row] - first_column;
  for (int64_t i = threadIdx.x; i < row_size; i += kRowThreads) {
    out[i] = FromFloat<T>(expf(ToFloat(out[i]) - row_max) * share - (i == target ? factor : 0.0f));
  }
}

// `Embed`; a block for each token.
template <typename T>
__global__ void EmbedRows(const int32_t* tokens, const T* table, int64_t first_token,
                          int64_t row_count, int64_t row_size, T* y) {
  const int64_t row = tokens[blockIdx.x] - first_token;
  const bool is_here = row >= 0 && row < row_count;
  T* const out = y + static_cast<int64_t>(blockIdx.x) * row_size;
  for (int64_t i = threadIdx.x; i < row_size; i += kRowThreads) {
    out[i] = is_here ? table[row * row_size + i] : FromFloat<T>(0.0f);
  }
}

// Adds rows of dy to the gradient of a table; one block per row that has tokens (blockIdx.x) and
// kRowThreads columns (blockIdx.y), so that each element has one writer, which adds in the order of
// positions. Row k of those that have tokens is rows[k], counted from the first row of the table
// here, and its positions, rows of dy, are positions[starts[k]] up to positions[starts[k + 1] - 1].
// A row of the table occurs once in `rows`.
template <typename T>
__global__ void EmbedRowsBackward(const int32_t* starts, const int32_t* rows,
                                  const int32_t* positions, const T* dy, int64_t row_size,
                                  float* table_gradient) {
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kRowThreads + threadIdx.x;
  if (column >= row_size) return;
  const int32_t end = starts[blockIdx.x + 1];
  float sum = 0.0f;
  // Loads do not wait for each other where the loop is unrolled; a frequent token has thousands.
#pragma unroll 8
  for (int32_t i = starts[blockIdx.x]; i < end; ++i) {
    sum += ToFloat(dy[positions[i] * row_size + column]);
  }
  table_gradient[rows[blockIdx.x] * row_size + column] += sum;
}

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_ROW_KERNELS_H_
