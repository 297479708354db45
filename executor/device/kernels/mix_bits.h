// Pseudo-random numbers as a function of their purpose. Initial parameters, on the host and on a
// GPU alike, and the tokens of training (token_source.h) come from it.

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_MIX_BITS_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_MIX_BITS_H_

#include <cstdint>

// Marks a function that kernels of a GPU call too.
#ifdef __CUDACC__
#define PARPLAN_HOST_DEVICE __host__ __device__
#else
#define PARPLAN_HOST_DEVICE
#endif

namespace parplan {

// Returns the output of SplitMix64: equal for equal inputs, unrelated for any others (Steele et al.
// 2014).
PARPLAN_HOST_DEVICE inline uint64_t MixBits(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Returns number `place` of the sequence `stream`, approximately normally distributed with mean 0
// and deviation 1: the sum of eight numbers of 16 bits, which lies within 4.9 deviations. It is a
// whole number times a constant, so every processor that has IEEE arithmetic returns the same bits;
// the logarithm and cosine of other methods differ in the last ones.
PARPLAN_HOST_DEVICE inline double NormalNumber(uint64_t stream, uint64_t place) {
  uint64_t bits = MixBits(stream ^ place);
  int64_t sum = 0;
  for (int word = 0; word < 2; ++word) {
    for (int part = 0; part < 4; ++part) sum += static_cast<int64_t>(bits >> (16 * part) & 0xffffu);
    bits = MixBits(bits);
  }
  // 8 (65536^2 - 1) / 12 is the variance of the sum.
  constexpr double kDeviation = 53509.91992145008;
  return static_cast<double>(2 * sum - int64_t{8} * 65535) * (0.5 / kDeviation);
}

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_MIX_BITS_H_
