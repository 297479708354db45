// Sums and functions in a form that compilers vectorize, with the same result for any vector
// instructions: sums are kept in a fixed number of lanes. The processor's kernels and their
// attention are built on them.

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_MATH_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_MATH_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace parplan::cpu_math {

// Lanes of a sum: one AVX-512 register of floats. Changing it changes results in the last bits.
inline constexpr int kLaneCount = 16;

// Returns the sum of f(i) over [0, count), lane by lane.
template <typename T, typename F>
T SumOf(int64_t count, F f) {
  T lanes[kLaneCount] = {};
  const int64_t whole = count - count % kLaneCount;
  for (int64_t i = 0; i < whole; i += kLaneCount) {
    for (int lane = 0; lane < kLaneCount; ++lane) lanes[lane] += f(i + lane);
  }
  for (int64_t i = whole; i < count; ++i) lanes[i - whole] += f(i);
  T sum = 0;
  for (int lane = 0; lane < kLaneCount; ++lane) sum += lanes[lane];
  return sum;
}

// Returns the largest of `count` values; a NaN among them may be passed over. REQUIRES, unchecked:
// `count` is at least 1.
template <typename T>
T LargestOf(const T* values, int64_t count) {
  T lanes[kLaneCount];
  for (int lane = 0; lane < kLaneCount; ++lane) lanes[lane] = values[lane % count];
  const int64_t whole = count - count % kLaneCount;
  for (int64_t i = 0; i < whole; i += kLaneCount) {
    for (int lane = 0; lane < kLaneCount; ++lane) {
      lanes[lane] = lanes[lane] < values[i + lane] ? values[i + lane] : lanes[lane];
    }
  }
  for (int64_t i = whole; i < count; ++i) lanes[0] = std::max(lanes[0], values[i]);
  return *std::max_element(lanes, lanes + kLaneCount);
}

// Returns e^x as the C++ library has it.
inline double Exp(double x) { return std::exp(x); }

// Returns e^x to 2 units in the last place; 0 below -87, e^88 at 88 and above, and e^-87 for NaN.
// Has no branch, so that its time does not depend on the data.
inline float Exp(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  // ln 2 in two parts, the first with few digits, so that its product is exact (Cephes).
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  const float clamped = std::min(88.0f, std::max(-87.0f, x));
  // Rounds to the nearest whole number by the rounding of the addition.
  constexpr float kRounder = 12582912.0f;
  const float n = (clamped * kLog2E + kRounder) - kRounder;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = (p * r * r + r) + 1.0f;
  const auto scale = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : e * scale;
}

// Returns 1 / (1 + e^-x).
template <typename T>
T Sigmoid(T x) {
  return T(1) / (T(1) + Exp(-x));
}

}  // namespace parplan::cpu_math

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_MATH_H_
