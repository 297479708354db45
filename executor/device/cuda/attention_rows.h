// The rows and heads that blocks, warps and lanes of attention work on, and their copies between
// global memory and tiles in shared memory. Used by attention_kernels.h.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_ROWS_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_ROWS_H_

#include "executor/device/cuda/attention_strip.h"
#include "executor/device/cuda/block_sums.h"
#include "executor/device/cuda/language.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// Tile sizes of a block of attention, larger for elements of 16 bits. Each warp has 16 rows. Not
// measured against other sizes.
template <typename T>
struct AttentionTiles {
  static constexpr bool kIsShort = sizeof(T) == 2;
  static constexpr int kWarps = kIsShort ? 4 : 2;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kRows = kWarps * kStripRows;
  // Numbers of tiles of 8 columns of scores: of keys in passes over keys, of queries in passes over
  // queries.
  static constexpr int kKeyTiles = kIsShort ? 8 : 4;
  static constexpr int kKeys = 8 * kKeyTiles;
  static constexpr int kQueryTiles = 4;
  static constexpr int kQueries = 8 * kQueryTiles;

  // Return bytes of shared memory: `Bytes` those of `rows` rows of a tile for heads of up to kSize,
  // the others those of a block of the forward pass and of the backward passes to queries and to
  // keys.
  template <int kSize>
  static constexpr int Bytes(int rows) {
    return rows * TileStride<T, kSize> * static_cast<int>(sizeof(T));
  }
  template <int kSize>
  static constexpr int ForwardBytes() {
    return Bytes<kSize>(kRows + 2 * kKeys);
  }
  template <int kSize>
  static constexpr int QueryBytes() {
    return Bytes<kSize>(2 * kRows + 2 * kKeys);
  }
  template <int kSize>
  static constexpr int KeyBytes() {
    return Bytes<kSize>(2 * kRows + 2 * kQueries) + 2 * kQueries * static_cast<int>(sizeof(float));
  }
};

// Returns the number of keys that query `index` of a sample sees.
__device__ __forceinline__ int64_t SeenKeys(const AttentionShape& shape, int64_t index) {
  if (!shape.is_causal) return shape.key_count;
  const int64_t seen = index + shape.first_query + 1;
  return seen < 0 ? 0 : seen < shape.key_count ? seen : shape.key_count;
}

// Return the offset in elements of the first element of a head of a sample.
__device__ __forceinline__ int64_t QueryOffset(const AttentionShape& shape, int64_t sample,
                                               int head) {
  return sample * shape.query_sample_stride + static_cast<int64_t>(head) * shape.head_size;
}
__device__ __forceinline__ int64_t KeyValueOffset(const AttentionShape& shape, int64_t sample,
                                                  int key_value_head) {
  return sample * shape.key_value_sample_stride +
         static_cast<int64_t>(key_value_head) * shape.head_size;
}
__device__ __forceinline__ int64_t OutputOffset(const AttentionShape& shape, int64_t sample,
                                                int head) {
  return sample * shape.output_sample_stride + static_cast<int64_t>(head) * shape.head_size;
}
__device__ __forceinline__ int64_t KeptOffset(const AttentionShape& shape, int64_t sample,
                                              int head) {
  return (sample * shape.head_count + head) * shape.query_count;
}

// Rows of one head in global memory: queries, keys, values, or gradients of outputs.
template <typename T>
struct HeadRows {
  const T* first;
  // Elements from one row to the next.
  int64_t stride;
  int64_t count;
};
template <typename T>
__device__ __forceinline__ HeadRows<T> QueriesOf(const AttentionShape& shape, const T* q,
                                                 int64_t sample, int head) {
  return {q + QueryOffset(shape, sample, head), shape.query_stride, shape.query_count};
}
// Returns the rows of keys, or of values, of one head.
template <typename T>
__device__ __forceinline__ HeadRows<T> KeysOf(const AttentionShape& shape, const T* k,
                                              int64_t sample, int key_value_head) {
  return {k + KeyValueOffset(shape, sample, key_value_head), shape.key_value_stride,
          shape.key_count};
}
template <typename T>
__device__ __forceinline__ HeadRows<T> OutputsOf(const AttentionShape& shape, const T* output,
                                                 int64_t sample, int head) {
  return {output + OutputOffset(shape, sample, head), shape.output_stride, shape.query_count};
}

// Loads the rows from `begin` on as a tile of kRows, with zeros after the last one and beyond
// `head_size`. All threads of the block call it; the tile is complete after the next
// __syncthreads(). `is_wide` as for LoadTile.
template <int kSize, int kRows, typename T>
__device__ __forceinline__ void LoadRows(const HeadRows<T>& rows, int64_t begin, int head_size,
                                         bool is_wide, T* tile) {
  LoadTile<T, kSize, kRows>(rows.first + begin * rows.stride, rows.stride, rows.count - begin,
                            head_size, is_wide, AttentionTiles<T>::kThreads, tile);
}

// Loads the next two tiles of a loop with LoadRows, after all threads have read the old ones and
// before any reads the new ones.
template <int kSize, int kRows, typename T>
__device__ __forceinline__ void NextTiles(const HeadRows<T>& one, const HeadRows<T>& other,
                                          int64_t begin, int head_size, bool is_wide, T* tile,
                                          T* other_tile) {
  __syncthreads();
  LoadRows<kSize, kRows>(one, begin, head_size, is_wide, tile);
  LoadRows<kSize, kRows>(other, begin, head_size, is_wide, other_tile);
  __syncthreads();
}

// The elements of a lane: rows `row` and `row + 8` of the sequence, in the strip of its warp, which
// begins at row `strip` of the block's tile; and columns 2t and 2t + 1 of tiles of 8.
struct LanePlace {
  int64_t first;  // Row of the sequence that the block begins with.
  int strip;
  int64_t row;
  int t;
};
template <typename T>
__device__ __forceinline__ LanePlace PlaceOfLane() {
  LanePlace place;
  place.first = static_cast<int64_t>(blockIdx.x) * AttentionTiles<T>::kRows;
  place.strip = static_cast<int>(threadIdx.x) / kWarpSize * kStripRows;
  place.row = place.first + place.strip + LaneOfWarp() / 4;
  place.t = LaneOfWarp() % 4;
  return place;
}

// Return the index [sample][head][query] of a warp in kernels with a warp for each, which may be
// beyond the last one, and the offset in elements of the first element of output `index`.
__device__ __forceinline__ int64_t OutputOfWarp() {
  return static_cast<int64_t>(blockIdx.x) * (kRowThreads / kWarpSize) +
         static_cast<int>(threadIdx.x) / kWarpSize;
}
__device__ __forceinline__ int64_t OutputOffset(const AttentionShape& shape, int64_t index) {
  const int64_t query = index % shape.query_count;
  const int head = static_cast<int>(index / shape.query_count % shape.head_count);
  const int64_t sample = index / shape.query_count / shape.head_count;
  return OutputOffset(shape, sample, head) + query * shape.output_stride;
}

// Stores a lane's part of rows `row` and `row + 8` of a strip, times `factors`, to rows of `to`
// that are `stride` elements apart; adds it to what is there if `adds`. Skips rows from `row_count`
// on and columns from `size` on.
template <typename T, int kSize>
__device__ __forceinline__ void StoreStrip(const float (&values)[kSize / 8][4],
                                           const float (&factors)[2], int64_t row,
                                           int64_t row_count, int size, bool adds, T* to,
                                           int64_t stride) {
  const int t = LaneOfWarp() % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half >= row_count) continue;
    T* const out = to + (row + 8 * half) * stride;
#pragma unroll
    for (int tile = 0; tile < kSize / 8; ++tile) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int column = 8 * tile + 2 * t + k;
        if (column >= size) continue;
        const float value = values[tile][2 * half + k] * factors[half];
        out[column] = FromFloat<T>(adds ? ToFloat(out[column]) + value : value);
      }
    }
  }
}

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_ROWS_H_
