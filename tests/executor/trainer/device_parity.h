// How far a run is from another.

#ifndef PARPLAN_TESTS_EXECUTOR_TRAINER_DEVICE_PARITY_H_
#define PARPLAN_TESTS_EXECUTOR_TRAINER_DEVICE_PARITY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/executor/trainer/device_run.h"

namespace parplan {

// Losses, and the parameters of each layer together, differ by no more than `tolerance` of what
// they are.
inline void ExpectParity(const DeviceRun& actual, const DeviceRun& expected, double tolerance) {
  ASSERT_FALSE(expected.losses.empty());
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], tolerance * expected.losses[step])
        << "step " << step;
  }
  std::map<int, std::pair<double, double>> squares;
  for (const auto& [key, numbers] : expected.parameters) {
    const auto found = actual.parameters.find(key);
    ASSERT_NE(found, actual.parameters.end()) << key.first << " " << key.second;
    ASSERT_EQ(found->second.size(), numbers.size());
    auto& [difference, size] = squares[key.first];
    for (size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_FALSE(std::isnan(found->second[i])) << key.second << "[" << i << "]";
      difference += std::pow(found->second[i] - numbers[i], 2);
      size += std::pow(numbers[i], 2);
    }
  }
  for (const auto& [layer, sums] : squares) {
    EXPECT_LE(std::sqrt(sums.first / std::max(sums.second, 1e-30)), tolerance) << "layer " << layer;
  }
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_TRAINER_DEVICE_PARITY_H_
