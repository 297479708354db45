// Rotary position embeddings on the processor. Part of the processor's kernels (cpu_kernels.cc).

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_ROTARY_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_ROTARY_H_

#include <cstdint>
#include <map>
#include <vector>

#include "executor/device/kernels/layer_kernels.h"

namespace parplan {

// Keeps the sines and cosines of all positions from 0 to the largest it has seen, which take 8 or
// 16 bytes for each position and pair. T: float or double. Used by one thread.
template <typename T>
class CpuRotary {
 public:
  // Implements `LayerKernels::Rotate` (layer_kernels.h): turns elements i and head_size / 2 + i of
  // every head of `x` in place by the angle position * 10000^(-2 i / head_size), or back if
  // `inverse`. `x` is in host memory and laid out by `shape`. Nothing can fail.
  void ApplyRotary(const RotaryShape& shape, bool inverse, T* x);

 private:
  // Returns [position][head_size] the cosines of all pairs, then their sines.
  const T* Turns(int head_size, int64_t position_count);

  // Tables by head size.
  std::map<int, std::vector<T>> turns_;
};

extern template class CpuRotary<float>;
extern template class CpuRotary<double>;

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_ROTARY_H_
