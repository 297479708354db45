// The part of CUDA that our kernels are written in, on the processor: every thread of a block is
// a fiber, and fibers change where threads wait for one another. What comes before a barrier is
// run to its end for one thread after the other, in either order, so kernels that lack a
// barrier, or index wrongly, give other numbers here as on a GPU. It shows nothing of speed.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_EMULATED_CUDA_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_EMULATED_CUDA_H_

#define PARPLAN_CUDA_EMULATION

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>

#include "executor/device/kernels/host_elements.h"

#define __global__ static
#define __device__
#define __forceinline__ inline
// One block runs at a time.
#define __shared__ static
#define __launch_bounds__(count)

struct dim3 {
  // Numbers convert, as they do to CUDA's. NOLINTNEXTLINE(google-explicit-constructor)
  dim3(unsigned x_in = 1, unsigned y_in = 1, unsigned z_in = 1) : x(x_in), y(y_in), z(z_in) {}
  unsigned x, y, z;
};

namespace parplan::cuda {

struct Bfloat16 {
  uint16_t bits = 0;
};

// A place of a running thread.
struct EmulatedPlace {
  dim3 thread, block, block_size, grid_size;
};
extern EmulatedPlace emulated_place;

// Runs `kernel` for all threads of all blocks, `shared_bytes` for DynamicShared. With
// `reverses` the last thread goes first. Ends the process where threads of a block, or lanes
// of a warp, wait at different barriers for ever.
void RunEmulated(dim3 grid, dim3 block, int shared_bytes, bool reverses,
                 const std::function<void()>& kernel);

void AwaitBlock();
// Puts `bits` where the other lanes see them, waits for all lanes of the warp, and gives those
// of `lane`.
uint32_t ExchangeBits(uint32_t bits, int lane);
char* DynamicShared();

inline float ToFloat(Bfloat16 x) { return FromBfloat16(x.bits); }
inline float ToFloat(float x) { return x; }
template <typename T>
T FromFloat(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    return Bfloat16{RoundToBfloat16(x)};
  }
}
inline uint32_t Join(Bfloat16 low, Bfloat16 high) {
  return low.bits | static_cast<uint32_t>(high.bits) << 16;
}
// Behaves as the description of the instruction in language.h.
void MultiplyTiles(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

inline int EmulatedLane() { return static_cast<int>(emulated_place.thread.x) % 32; }

}  // namespace parplan::cuda

#define threadIdx (::parplan::cuda::emulated_place.thread)
#define blockIdx (::parplan::cuda::emulated_place.block)
#define blockDim (::parplan::cuda::emulated_place.block_size)
#define gridDim (::parplan::cuda::emulated_place.grid_size)

inline void __syncthreads() { ::parplan::cuda::AwaitBlock(); }
inline void __syncwarp() { ::parplan::cuda::ExchangeBits(0, 0); }
inline float __shfl_sync(unsigned, float value, int lane) {
  return std::bit_cast<float>(::parplan::cuda::ExchangeBits(std::bit_cast<uint32_t>(value), lane));
}
inline float __shfl_xor_sync(unsigned mask, float value, int distance) {
  return __shfl_sync(mask, value, ::parplan::cuda::EmulatedLane() ^ distance);
}

#define PARPLAN_LAUNCH(queue, grid, block, shared, kernel, ...)                    \
  do {                                                                             \
    ::parplan::cuda::RunEmulated(grid, block, shared, (queue).stream() != nullptr, \
                                 [&] { kernel(__VA_ARGS__); });                    \
    (queue).CheckLaunch(#kernel);                                                  \
  } while (false)

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_EMULATED_CUDA_H_
