// Gradients by differences: the law that every backward pass has to keep.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_KERNELS_GRADIENT_CHECK_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_KERNELS_GRADIENT_CHECK_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace parplan {

using Numbers = std::vector<double>;

inline Numbers RandomNumbers(int64_t count, uint32_t seed, double deviation = 1.0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, deviation);
  Numbers numbers(count);
  for (double& number : numbers) number = normal(random);
  return numbers;
}

inline double Dot(const Numbers& a, const Numbers& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// `loss` reads `input`, which is changed a little at each place and back again; its slope
// there must be `gradient`.
inline void ExpectGradient(Numbers& input, const Numbers& gradient,
                           const std::function<double()>& loss, const char* what) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(input.size(), gradient.size()) << what;
  for (size_t i = 0; i < input.size(); ++i) {
    const double value = input[i];
    input[i] = value + kStep;
    const double above = loss();
    input[i] = value - kStep;
    const double below = loss();
    input[i] = value;
    const double slope = (above - below) / (2 * kStep);
    ASSERT_NEAR(gradient[i], slope, 1e-7 * (1.0 + std::abs(slope))) << what << "[" << i << "]";
  }
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_KERNELS_GRADIENT_CHECK_H_
