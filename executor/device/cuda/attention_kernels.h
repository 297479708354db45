// Softmax attention whose memory grows with the sequence and not with its square (FlashAttention-2;
// Dao 2023): scores are in registers, a tile at a time, with the running maximum and sum of each
// row; the backward pass recomputes them from the logarithms of the sums. Unlike there, gradients
// of queries and of keys are separate passes, so that each element has one writer and its sum a
// fixed order.
//
// Launched by DeviceKernels (device_kernels.h) alone, which computes grids and shared memory
// (AttentionTiles). Kernels with a warp for each output have blocks of kRowThreads, the others of
// AttentionTiles<T>::kThreads. Arguments are those of LayerKernels::Attention and its kin, with T
// float or Bfloat16. `kSize`: 32, 64 or 128, at least the head size. `is_wide`: rows can be read 16
// bytes at a time. `scale`: 1 / sqrt(head_size). `kept` and `common` are [sample][head][query]. A
// query that sees no key has the output 0 and the logarithm 0.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_KERNELS_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_KERNELS_H_

#include "executor/device/cuda/attention_rows.h"
#include "executor/device/cuda/attention_strip.h"
#include "executor/device/cuda/block_sums.h"
#include "executor/device/cuda/language.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// Computes attention. Blocks: tiles of queries x heads x samples.
template <typename T, int kSize>
__global__ void __launch_bounds__(AttentionTiles<T>::kThreads)
    AttendForward(AttentionShape shape, bool is_wide, float scale, const T* q, const T* k,
                  const T* v, T* output, float* kept) {
  using Tiles = AttentionTiles<T>;
  constexpr int kStride = TileStride<T, kSize>;
  constexpr int kKeyTiles = Tiles::kKeyTiles;
  T* const queries = reinterpret_cast<T*>(DynamicShared());
  T* const keys = queries + Tiles::kRows * kStride;
  T* const values = keys + Tiles::kKeys * kStride;
  const int head = static_cast<int>(blockIdx.y);
  const int key_value_head = head / (shape.head_count / shape.key_value_head_count);
  const int64_t sample = blockIdx.z;
  const auto [first, strip, row, t] = PlaceOfLane<T>();
  const HeadRows<T> own_keys = KeysOf(shape, k, sample, key_value_head);
  const HeadRows<T> own_values = KeysOf(shape, v, sample, key_value_head);
  LoadRows<kSize, Tiles::kRows>(QueriesOf(shape, q, sample, head), first, shape.head_size, is_wide,
                                queries);

  const int64_t seen[2] = {SeenKeys(shape, row), SeenKeys(shape, row + 8)};
  float sums[kSize / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY};
  float totals[2] = {};
  const int64_t end = SeenKeys(shape, first + Tiles::kRows - 1);
  for (int64_t begin = 0; begin < end; begin += Tiles::kKeys) {
    NextTiles<kSize, Tiles::kKeys>(own_keys, own_values, begin, shape.head_size, is_wide, keys,
                                   values);
    float scores[kKeyTiles][4] = {};
    AddRowProducts<kSize>(queries + strip * kStride, keys, scores);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float row_max = -INFINITY;
#pragma unroll
      for (int tile = 0; tile < kKeyTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[tile][2 * half + e];
          score = begin + 8 * tile + 2 * t + e < seen[half] ? score * scale : -INFINITY;
          row_max = fmaxf(row_max, score);
        }
      }
      // Four lanes share a row.
      row_max = fmaxf(row_max, __shfl_xor_sync(kAllLanes, row_max, 1));
      row_max = fmaxf(row_max, __shfl_xor_sync(kAllLanes, row_max, 2));
      row_max = fmaxf(row_max, largest[half]);
      // A row that has seen no key yet has all weights 0.
      const float base = row_max == -INFINITY ? 0.0f : row_max;
      const float correction = expf(largest[half] - base);
      largest[half] = row_max;
      float total = 0.0f;
#pragma unroll
      for (int tile = 0; tile < kKeyTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[tile][2 * half + e];
          score = expf(score - base);
          total += score;
        }
      }
      totals[half] = totals[half] * correction + total;
#pragma unroll
      for (int tile = 0; tile < kSize / 8; ++tile) {
        sums[tile][2 * half] *= correction;
        sums[tile][2 * half + 1] *= correction;
      }
    }
    AddWeightedRows<kSize>(scores, values, sums);
  }

  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = totals[half];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    factors[half] = total > 0.0f ? 1.0f / total : 0.0f;
    const int64_t query = row + 8 * half;
    if (t == 0 && query < shape.query_count) {
      kept[KeptOffset(shape, sample, head) + query] =
          total > 0.0f ? largest[half] + logf(total) : 0.0f;
    }
  }
  StoreStrip<T, kSize>(sums, factors, row, shape.query_count, shape.head_size, /*adds=*/false,
                       output + OutputOffset(shape, sample, head), shape.output_stride);
}

// Computes the part of the gradient that all weights of a query share, since they add up to 1: the
// product of the output and its gradient. A warp for each [sample][head][query].
template <typename T>
__global__ void SumOutputGradients(AttentionShape shape, const T* output, const T* output_gradient,
                                   float* common) {
  const int64_t index = OutputOfWarp();
  if (index >= shape.sample_count * shape.head_count * shape.query_count) return;
  const int64_t at = OutputOffset(shape, index);
  float sum = 0.0f;
  for (int i = LaneOfWarp(); i < shape.head_size; i += kWarpSize) {
    sum += ToFloat(output[at + i]) * ToFloat(output_gradient[at + i]);
  }
  sum = WarpSum(sum);
  if (LaneOfWarp() == 0) common[index] = sum;
}

// Computes the gradients of queries. Blocks as for AttendForward.
template <typename T, int kSize>
__global__ void __launch_bounds__(AttentionTiles<T>::kThreads)
    AttendBackwardToQueries(AttentionShape shape, bool is_wide, float scale, const T* q, const T* k,
                            const T* v, const float* kept, const float* common,
                            const T* output_gradient, T* dq) {
  using Tiles = AttentionTiles<T>;
  constexpr int kStride = TileStride<T, kSize>;
  constexpr int kKeyTiles = Tiles::kKeyTiles;
  T* const queries = reinterpret_cast<T*>(DynamicShared());
  T* const slopes = queries + Tiles::kRows * kStride;
  T* const keys = slopes + Tiles::kRows * kStride;
  T* const values = keys + Tiles::kKeys * kStride;
  const int head = static_cast<int>(blockIdx.y);
  const int key_value_head = head / (shape.head_count / shape.key_value_head_count);
  const int64_t sample = blockIdx.z;
  const auto [first, strip, row, t] = PlaceOfLane<T>();
  const HeadRows<T> own_keys = KeysOf(shape, k, sample, key_value_head);
  const HeadRows<T> own_values = KeysOf(shape, v, sample, key_value_head);
  LoadRows<kSize, Tiles::kRows>(QueriesOf(shape, q, sample, head), first, shape.head_size, is_wide,
                                queries);
  LoadRows<kSize, Tiles::kRows>(OutputsOf(shape, output_gradient, sample, head), first,
                                shape.head_size, is_wide, slopes);
  int64_t seen[2];
  float logarithms[2];
  float commons[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t query = row + 8 * half;
    const bool is_query = query < shape.query_count;
    seen[half] = is_query ? SeenKeys(shape, query) : 0;
    const int64_t at = KeptOffset(shape, sample, head) + query;
    logarithms[half] = is_query ? kept[at] : 0.0f;
    commons[half] = is_query ? common[at] : 0.0f;
  }

  float sums[kSize / 8][4] = {};
  const int64_t end = SeenKeys(shape, first + Tiles::kRows - 1);
  for (int64_t begin = 0; begin < end; begin += Tiles::kKeys) {
    NextTiles<kSize, Tiles::kKeys>(own_keys, own_values, begin, shape.head_size, is_wide, keys,
                                   values);
    float scores[kKeyTiles][4] = {};
    AddRowProducts<kSize>(queries + strip * kStride, keys, scores);
    float weights[kKeyTiles][4] = {};
    AddRowProducts<kSize>(slopes + strip * kStride, values, weights);
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool is_seen = begin + 8 * tile + 2 * t + e % 2 < seen[e / 2];
        const float weight = is_seen ? expf(scores[tile][e] * scale - logarithms[e / 2]) : 0.0f;
        scores[tile][e] = weight * (weights[tile][e] - commons[e / 2]) * scale;
      }
    }
    AddWeightedRows<kSize>(scores, keys, sums);
  }
  const float factors[2] = {1.0f, 1.0f};
  StoreStrip<T, kSize>(sums, factors, row, shape.query_count, shape.head_size, shape.adds_gradients,
                       dq + QueryOffset(shape, sample, head), shape.query_stride);
}

// Computes the gradients of keys and values. Blocks: tiles of keys x heads of keys x samples.
template <typename T, int kSize>
__global__ void __launch_bounds__(AttentionTiles<T>::kThreads)
    AttendBackwardToKeys(AttentionShape shape, bool is_wide, float scale, const T* q, const T* k,
                         const T* v, const float* kept, const float* common,
                         const T* output_gradient, T* dk, T* dv) {
  using Tiles = AttentionTiles<T>;
  constexpr int kStride = TileStride<T, kSize>;
  constexpr int kQueryTiles = Tiles::kQueryTiles;
  T* const keys = reinterpret_cast<T*>(DynamicShared());
  T* const values = keys + Tiles::kRows * kStride;
  T* const queries = values + Tiles::kRows * kStride;
  T* const slopes = queries + Tiles::kQueries * kStride;
  float* const logarithms = reinterpret_cast<float*>(slopes + Tiles::kQueries * kStride);
  float* const commons = logarithms + Tiles::kQueries;
  const int key_value_head = static_cast<int>(blockIdx.y);
  const int64_t sample = blockIdx.z;
  const auto [first, strip, row, t] = PlaceOfLane<T>();
  LoadRows<kSize, Tiles::kRows>(KeysOf(shape, k, sample, key_value_head), first, shape.head_size,
                                is_wide, keys);
  LoadRows<kSize, Tiles::kRows>(KeysOf(shape, v, sample, key_value_head), first, shape.head_size,
                                is_wide, values);

  float key_sums[kSize / 8][4] = {};
  float value_sums[kSize / 8][4] = {};
  // First query that sees any of these keys.
  int64_t first_query = shape.is_causal ? first - shape.first_query : 0;
  if (first_query < 0) first_query = 0;
  const int group = shape.head_count / shape.key_value_head_count;
  for (int head = key_value_head * group; head < (key_value_head + 1) * group; ++head) {
    const HeadRows<T> own_queries = QueriesOf(shape, q, sample, head);
    const HeadRows<T> own_slopes = OutputsOf(shape, output_gradient, sample, head);
    for (int64_t begin = first_query / Tiles::kQueries * Tiles::kQueries; begin < shape.query_count;
         begin += Tiles::kQueries) {
      __syncthreads();
      LoadRows<kSize, Tiles::kQueries>(own_queries, begin, shape.head_size, is_wide, queries);
      LoadRows<kSize, Tiles::kQueries>(own_slopes, begin, shape.head_size, is_wide, slopes);
      for (int i = static_cast<int>(threadIdx.x); i < Tiles::kQueries; i += Tiles::kThreads) {
        const bool is_query = begin + i < shape.query_count;
        const int64_t at = KeptOffset(shape, sample, head) + begin + i;
        logarithms[i] = is_query ? kept[at] : 0.0f;
        commons[i] = is_query ? common[at] : 0.0f;
      }
      __syncthreads();
      // Rows are keys and columns are queries here.
      float weights[kQueryTiles][4] = {};
      AddRowProducts<kSize>(keys + strip * kStride, queries, weights);
#pragma unroll
      for (int tile = 0; tile < kQueryTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = 8 * tile + 2 * t + e % 2;
          const int64_t query = begin + column;
          const bool is_seen =
              query < shape.query_count && row + e / 2 * 8 < SeenKeys(shape, query);
          weights[tile][e] = is_seen ? expf(weights[tile][e] * scale - logarithms[column]) : 0.0f;
        }
      }
      AddWeightedRows<kSize>(weights, slopes, value_sums);
      float gradients[kQueryTiles][4] = {};
      AddRowProducts<kSize>(values + strip * kStride, slopes, gradients);
#pragma unroll
      for (int tile = 0; tile < kQueryTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = 8 * tile + 2 * t + e % 2;
          gradients[tile][e] = weights[tile][e] * (gradients[tile][e] - commons[column]) * scale;
        }
      }
      AddWeightedRows<kSize>(gradients, queries, key_sums);
    }
  }
  const float factors[2] = {1.0f, 1.0f};
  StoreStrip<T, kSize>(key_sums, factors, row, shape.key_count, shape.head_size,
                       shape.adds_gradients, dk + KeyValueOffset(shape, sample, key_value_head),
                       shape.key_value_stride);
  StoreStrip<T, kSize>(value_sums, factors, row, shape.key_count, shape.head_size,
                       shape.adds_gradients, dv + KeyValueOffset(shape, sample, key_value_head),
                       shape.key_value_stride);
}

// Combines two outputs, weighted by the sums of their weights. A warp for each
// [sample][head][query].
template <typename T>
__global__ void MergeOutputs(AttentionShape shape, const T* part, const float* part_kept, T* output,
                             float* kept) {
  const int64_t index = OutputOfWarp();
  if (index >= shape.sample_count * shape.head_count * shape.query_count) return;
  const int64_t at = OutputOffset(shape, index);
  const float one = kept[index];
  const float other = part_kept[index];
  const float row_max = fmaxf(one, other);
  const float sum = row_max + logf(expf(one - row_max) + expf(other - row_max));
  for (int i = LaneOfWarp(); i < shape.head_size; i += kWarpSize) {
    output[at + i] = FromFloat<T>(ToFloat(output[at + i]) * expf(one - sum) +
                                  ToFloat(part[at + i]) * expf(other - sum));
  }
  __syncwarp();
  if (LaneOfWarp() == 0) kept[index] = sum;
}

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_KERNELS_H_
