// The language of device code: CUDA. If a test defines PARPLAN_CUDA_EMULATION
// (tests/executor/device/cuda/emulated_cuda.h), the same code runs on the processor, thread by
// thread, so that kernels can be tested without a GPU.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_LANGUAGE_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_LANGUAGE_H_

#include <cstdint>

#ifndef PARPLAN_CUDA_EMULATION
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace parplan::cuda {

using Bfloat16 = __nv_bfloat16;
using Stream = cudaStream_t;

__device__ __forceinline__ float ToFloat(Bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float ToFloat(float x) { return x; }
template <typename T>
__device__ __forceinline__ T FromFloat(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    return __float2bfloat16_rn(x);
  }
}

// Returns the block's shared memory whose size is given at the launch; aligned to 16 bytes.
__device__ __forceinline__ char* DynamicShared() {
  extern __shared__ __align__(16) char parplan_dynamic_shared[];
  return parplan_dynamic_shared;
}

// Returns two elements in one register, the first in the lower half.
__device__ __forceinline__ uint32_t Join(Bfloat16 low, Bfloat16 high) {
  return static_cast<uint32_t>(__bfloat16_as_ushort(low)) |
         static_cast<uint32_t>(__bfloat16_as_ushort(high)) << 16;
}

// Computes c += a b on a warp, all of whose lanes call it: a is 16 x 16, b 16 x 8, c 16 x 8 (PTX,
// mma.m16n8k16; compute capability 8.0). With g = lane / 4 and t = lane % 4, a lane holds pairs
// (`Join`) of a that go along a row from [g][2t], [g + 8][2t], [g][2t + 8] and [g + 8][2t + 8], and
// pairs of b that go down a column from [2t][g] and [2t + 8][g]; of c it holds [g][2t], [g][2t + 1]
// and the same columns of row g + 8.
__device__ __forceinline__ void MultiplyTiles(float (&c)[4], const uint32_t (&a)[4],
                                              const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Shared memory that a kernel may use without an attribute.
inline constexpr int kPlainSharedBytes = 48 * 1024;

// Lets `kernel` use `byte_count` bytes of shared memory, which needs an attribute above
// `kPlainSharedBytes`. Called before each launch.
template <typename Kernel>
void AllowShared(Kernel* kernel, int byte_count) {
  if (byte_count <= kPlainSharedBytes) return;
  // An error here is repeated by the launch.
  static_cast<void>(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, byte_count));
}

}  // namespace parplan::cuda

// Starts `kernel`, in parentheses, on the queue's stream (kernel_queue.h).
#define PARPLAN_LAUNCH(queue, grid, block, shared, kernel, ...)                                \
  do {                                                                                         \
    ::parplan::cuda::AllowShared(kernel, shared);                                              \
    kernel<<<grid, block, shared, static_cast<cudaStream_t>((queue).stream())>>>(__VA_ARGS__); \
    (queue).CheckLaunch(#kernel);                                                              \
  } while (false)

#endif  // PARPLAN_CUDA_EMULATION

namespace parplan::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// `kCount` elements that are read and written in one access.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T elements[kCount];
};

// Number of elements in 16 bytes.
template <typename T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

// Read and write pack `index`, counted in packs, of `data`, which is aligned to a pack.
template <int kCount, typename T>
__device__ __forceinline__ Pack<T, kCount> LoadPack(const T* data, int64_t index) {
  return reinterpret_cast<const Pack<T, kCount>*>(data)[index];
}
template <int kCount, typename T>
__device__ __forceinline__ void StorePack(T* data, int64_t index, const Pack<T, kCount>& pack) {
  reinterpret_cast<Pack<T, kCount>*>(data)[index] = pack;
}

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_LANGUAGE_H_
