// The two products of attention: 16 rows that a warp holds with tiles in shared memory. Used by
// attention_rows.h and attention_kernels.h.
//
// In each 16 x 8 tile of results a lane has rows g and g + 8, columns 2t and 2t + 1, in this order,
// with g = lane / 4 and t = lane % 4. Rows of tiles in shared memory are TileStride<T, kSize>
// elements apart.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_STRIP_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_STRIP_H_

#include "executor/device/cuda/language.h"

namespace parplan::cuda {

// Rows of a strip: those of a tile of the tensor cores (MultiplyTiles).
inline constexpr int kStripRows = 16;

// Elements from one row of a tile to the next: 16 bytes more than a row has, so that rows begin in
// different banks.
template <typename T, int kSize>
inline constexpr int TileStride = kSize + kWide<T>;

// Returns the number of the calling thread in its warp, from 0.
__device__ __forceinline__ int LaneOfWarp() { return static_cast<int>(threadIdx.x) % kWarpSize; }

// Returns two adjacent elements in one register.
__device__ __forceinline__ uint32_t LoadPair(const Bfloat16* data) {
  return *reinterpret_cast<const uint32_t*>(data);
}

// Rounds two numbers to bf16 in one register.
__device__ __forceinline__ uint32_t RoundPair(float low, float high) {
  return Join(FromFloat<Bfloat16>(low), FromFloat<Bfloat16>(high));
}

// Computes result += a b'; a is [16 x kSize], b [8 kTiles x kSize].
template <int kSize, int kTiles>
__device__ __forceinline__ void AddRowProducts(const Bfloat16* a, const Bfloat16* b,
                                               float (&result)[kTiles][4]) {
  constexpr int kStride = TileStride<Bfloat16, kSize>;
  const int g = LaneOfWarp() / 4;
  const int t = LaneOfWarp() % 4;
#pragma unroll
  for (int k = 0; k < kSize; k += 16) {
    const Bfloat16* const upper = a + g * kStride + k + 2 * t;
    const Bfloat16* const lower = upper + 8 * kStride;
    const uint32_t left[4] = {LoadPair(upper), LoadPair(lower), LoadPair(upper + 8),
                              LoadPair(lower + 8)};
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const Bfloat16* const row = b + (8 * tile + g) * kStride + k + 2 * t;
      const uint32_t right[2] = {LoadPair(row), LoadPair(row + 8)};
      MultiplyTiles(result[tile], left, right);
    }
  }
}

template <int kSize, int kTiles>
__device__ __forceinline__ void AddRowProducts(const float* a, const float* b,
                                               float (&result)[kTiles][4]) {
  constexpr int kStride = TileStride<float, kSize>;
  const int g = LaneOfWarp() / 4;
  const int t = LaneOfWarp() % 4;
  for (int k = 0; k < kSize; ++k) {
    const float upper = a[g * kStride + k];
    const float lower = a[(g + 8) * kStride + k];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const float first = b[(8 * tile + 2 * t) * kStride + k];
      const float second = b[(8 * tile + 2 * t + 1) * kStride + k];
      result[tile][0] += upper * first;
      result[tile][1] += upper * second;
      result[tile][2] += lower * first;
      result[tile][3] += lower * second;
    }
  }
}

// Computes result += p b; p is a result of AddRowProducts, b [8 kTiles x kSize].
template <int kSize, int kTiles>
__device__ __forceinline__ void AddWeightedRows(const float (&p)[kTiles][4], const Bfloat16* b,
                                                float (&result)[kSize / 8][4]) {
  static_assert(kTiles % 2 == 0);
  constexpr int kStride = TileStride<Bfloat16, kSize>;
  const int g = LaneOfWarp() / 4;
  const int t = LaneOfWarp() % 4;
#pragma unroll
  for (int pair = 0; pair < kTiles / 2; ++pair) {
    // Two adjacent tiles of results have the layout of one operand of 16 columns.
    const float(&one)[4] = p[2 * pair];
    const float(&two)[4] = p[2 * pair + 1];
    const uint32_t left[4] = {RoundPair(one[0], one[1]), RoundPair(one[2], one[3]),
                              RoundPair(two[0], two[1]), RoundPair(two[2], two[3])};
#pragma unroll
    for (int tile = 0; tile < kSize / 8; ++tile) {
      const Bfloat16* const row = b + (16 * pair + 2 * t) * kStride + 8 * tile + g;
      const uint32_t right[2] = {Join(row[0], row[kStride]),
                                 Join(row[8 * kStride], row[9 * kStride])};
      MultiplyTiles(result[tile], left, right);
    }
  }
}

template <int kSize, int kTiles>
__device__ __forceinline__ void AddWeightedRows(const float (&p)[kTiles][4], const float* b,
                                                float (&result)[kSize / 8][4]) {
  constexpr int kStride = TileStride<float, kSize>;
  const int g = LaneOfWarp() / 4;
  const int t = LaneOfWarp() % 4;
#pragma unroll
  for (int from = 0; from < kTiles; ++from) {
#pragma unroll
    for (int column = 0; column < 8; ++column) {
      const int owner = 4 * g + column / 2;
      const float upper = __shfl_sync(kAllLanes, p[from][column % 2], owner);
      const float lower = __shfl_sync(kAllLanes, p[from][2 + column % 2], owner);
      const float* const row = b + (8 * from + column) * kStride + 2 * t;
#pragma unroll
      for (int tile = 0; tile < kSize / 8; ++tile) {
        result[tile][0] += upper * row[8 * tile];
        result[tile][1] += upper * row[8 * tile + 1];
        result[tile][2] += lower * row[8 * tile];
        result[tile][3] += lower * row[8 * tile + 1];
      }
    }
  }
}

// Copies `row_count` rows of `size` elements, at most kRows, into a tile of kRows and sets the rest
// to zero. All `thread_count` threads of the block call it; the tile is complete after the next
// `__syncthreads()`, which the caller makes. `is_wide`: copies 16 bytes at a time, of which `from`,
// a row and `stride` are multiples.
template <typename T, int kSize, int kRows>
__device__ __forceinline__ void LoadTile(const T* from, int64_t stride, int64_t row_count, int size,
                                         bool is_wide, int thread_count, T* tile) {
  constexpr int kStride = TileStride<T, kSize>;
  constexpr int kPacks = kSize / kWide<T>;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += thread_count) {
    const int row = i / kPacks;
    const int first = i % kPacks * kWide<T>;
    Pack<T, kWide<T>> pack;
    if (is_wide && row < row_count && first < size) {
      pack = *reinterpret_cast<const Pack<T, kWide<T>>*>(from + row * stride + first);
    } else {
      for (int k = 0; k < kWide<T>; ++k) {
        pack.elements[k] = row < row_count && first + k < size ? from[row * stride + first + k]
                                                               : FromFloat<T>(0.0f);
      }
    }
    *reinterpret_cast<Pack<T, kWide<T>>*>(tile + row * kStride + first) = pack;
  }
}

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_STRIP_H_
